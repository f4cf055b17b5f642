package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// spreadPods returns a gang of tiny bare pods. Each has separate spread constraints over
// each of the node labels l0, l1 and so on, and all constraints count the whole gang.
func spreadPods(name string, n, labels int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `---
apiVersion: v1
kind: Pod
metadata:
  name: %[1]s-%[2]d
  labels: {app: %[1]s, scheduling.x-k8s.io/pod-group: %[1]s, fluence.group-size: "%[3]d"}
spec:
  schedulerName: fluence
  containers:
  - {name: main, image: busybox, resources: {requests: {cpu: 1m}}}
  topologySpreadConstraints:
`, name, i, n)
		for k := range labels {
			fmt.Fprintf(&b, "  - {topologyKey: l%d, maxSkew: %d, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: %s}}}\n", k, i+2, name)
		}
	}
	return b.String()
}

// A tenant with only the right to create pods creates a group that takes very
// long to place. Others start meanwhile, and the group is given the reason.
func TestATenantWhoAsksForTooMuchStopsNobody(t *testing.T) {
	s := tell(t)
	hostile := s.neighbour()
	nth := 0
	s.nodes("n", 60, "8", func(n *corev1.Node) {
		for k := range 8 {
			n.Labels[fmt.Sprintf("l%d", k)] = fmt.Sprint((nth/(k+1) + k) % (7 + k))
		}
		nth++
	})
	hostile.applyText(spreadPods("hard", 20, 8))
	told := func(prefix string, reasons ...string) {
		s.Helper()
		hostile.eventually("group "+prefix+" is told", func(ctx context.Context) (bool, string) {
			pg := hostile.group(ctx, prefix)
			if pg == nil {
				return false, "no PodGroup"
			}
			c := meta.FindStatusCondition(pg.Status.Conditions, "Scheduled")
			return c != nil && slices.Contains(reasons, c.Reason), fmt.Sprint(c)
		})
	}
	told("hard", "TooHard")
	for i := range 5 {
		s.applyText(job(fmt.Sprintf("other-%d", i), 8, "1"))
	}
	for i := range 5 {
		s.running(fmt.Sprintf("other-%d-", i), 8)
	}
	// Created anew, it fares no better.
	hostile.kubectl("delete", "pods", "-n", hostile.ns, "--all", "--force", "--grace-period=0")
	hostile.applyText(spreadPods("again", 20, 8))
	s.applyText(job("last", 8, "1"))
	s.running("last-", 8)
	told("again", "TooHard", "Throttled")
}

// Tiny pods take no whole nodes where the administrator has not allowed
// it. Running pods take none by an annotation that comes later.
func TestATenantFencesOffNoNodes(t *testing.T) {
	s := tell(t)
	hostile := s.neighbour()
	s.nodes("n", 2, "8")
	hostile.applyText(job("fence", 2, "1m", "annotations: {fluence.flux-framework.org/exclusive: \"true\"}"))
	hostile.condition("job-fence-", "Scheduled", metav1.ConditionFalse, "NotAllowed", group.WholeNodesLabel, `"allowed"`)
	hostile.applyText(job("later", 2, "1m"))
	hostile.running("later-", 2)
	hostile.kubectl("annotate", "pods", "-n", hostile.ns, "-l", "job-name=later", "fluence.flux-framework.org/exclusive=true")
	hostile.condition("job-later-", "WholeNodes", metav1.ConditionFalse, "AskedTooLate", "exclusive")
	s.applyText(job("other", 2, "7"))
	s.running("other-", 2)
	s.kubectl("delete", "job", "-n", s.ns, "other")
	hostile.kubectl("delete", "job", "-n", hostile.ns, "later")
	hostile.kubectl("label", "namespace", hostile.ns, group.WholeNodesLabel+"="+group.WholeNodesAllowed)
	hostile.running("fence-", 2)
	hostile.condition("job-fence-", "WholeNodes", metav1.ConditionTrue, "Matched")
}

// A tenant's quotas are checked before Fluence sees
// a pod, for the pods of a group as for any others.
func TestQuotasApplyToGroups(t *testing.T) {
	const podOf = `---
apiVersion: v1
kind: Pod
metadata:
  name: %[1]s
  labels: {scheduling.x-k8s.io/pod-group: %[2]s, fluence.group-size: "2", app: %[2]s}
spec:
  schedulerName: fluence
  %[3]s
  containers:
  - {name: main, image: busybox, resources: {requests: {cpu: "1"}}}
`
	const elsewhere = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, namespaceSelector: {}, labelSelector: {matchLabels: {app: x}}}]}}"
	cases := []struct{ name, quota, spec string }{
		{"amounts", `{hard: {requests.cpu: "1"}}`, ""},
		{"a-priority", `{hard: {pods: "1"}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [quota-high]}]}}`, "priorityClassName: quota-high"},
		{"others-namespaces", `{hard: {pods: "1"}, scopes: [CrossNamespacePodAffinity]}`, elsewhere},
	}
	s := tell(t)
	s.nodes("n", 2, "8")
	s.applyText("{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: quota-high}, value: 1000}")
	s.Cleanup(func() {
		err := s.Client().SchedulingV1().PriorityClasses().Delete(context.WithoutCancel(s.Context()), "quota-high", metav1.DeleteOptions{})
		if err != nil {
			s.Errorf("delete the PriorityClass: %v", err)
		}
	})
	for _, tc := range cases {
		s.applyText(fmt.Sprintf("{apiVersion: v1, kind: ResourceQuota, metadata: {name: %s}, spec: %s}", tc.name, tc.quota))
		s.eventually("the quota "+tc.name+" is in force", func(ctx context.Context) (bool, string) {
			q, err := s.Client().CoreV1().ResourceQuotas(s.ns).Get(ctx, tc.name, metav1.GetOptions{})
			return err == nil && len(q.Status.Hard) > 0, fmt.Sprint(q.Status, err)
		})
		s.applyText(fmt.Sprintf(podOf, tc.name+"-0", tc.name, tc.spec))
		_, told, err := s.KubectlInput(s.Context(), strings.NewReader(fmt.Sprintf(podOf, tc.name+"-1", tc.name, tc.spec)), "apply", "-n", s.ns, "-f", "-")
		if err == nil || !strings.Contains(told, "exceeded quota: "+tc.name) {
			s.Errorf("%s: the second pod is answered %q, %v", tc.name, told, err)
		}
		s.condition(tc.name, "Scheduled", metav1.ConditionFalse, reason.Gathering)
		s.kubectl("delete", "resourcequota,pods", "-n", s.ns, "--all", "--force", "--grace-period=0")
	}
}
