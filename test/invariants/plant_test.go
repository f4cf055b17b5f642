package invariants_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/cluster/tools"
	"github.com/flux-k8s/fluence/test/eventually"
	"github.com/flux-k8s/fluence/test/invariants"
	"github.com/flux-k8s/fluence/test/objects"
)

// patience bounds every wait.
const patience = time.Minute

var podGroups = schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}

// A plant is a control plane without Fluence. Tests use
// Fluence's accounts there to do what Fluence must never do.
type plant struct {
	*testing.T
	*cluster.Cluster
	*invariants.Checker
	scheduler, controller kubernetes.Interface
	groups                dynamic.NamespaceableResourceInterface
	found                 *bytes.Buffer
}

func newPlant(t *testing.T, cfg invariants.Config) *plant {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute) // the first call builds
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Config{Nodes: cluster.Nodes{Count: 2}, Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("stop the cluster: %v", err)
		}
	})
	p := &plant{T: t, Cluster: c, found: &bytes.Buffer{}}
	p.installCRD(ctx)
	p.scheduler, p.controller = p.as("fluence-scheduler"), p.as("fluence-controller")
	groups, err := dynamic.NewForConfig(c.RESTConfig())
	p.must(err)
	p.groups = groups.Resource(podGroups)
	cfg.REST, cfg.Audit, cfg.Log = c.RESTConfig(), c.AuditLog(), p.found
	p.Checker, err = invariants.Watch(t.Context(), cfg)
	p.must(err)
	return p
}

func (p *plant) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *plant) installCRD(ctx context.Context) {
	p.Helper()
	root, err := tools.RepositoryRoot()
	p.must(err)
	_, _, err = p.Kubectl(ctx, "apply", "--server-side", "-f", filepath.Join(root, "manifests", "crds"))
	p.must(err)
	_, _, err = p.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s", "crd/podgroups.scheduling.x-k8s.io",
		"crd/fluxjobs.fluence.flux-framework.org", "crd/queues.fluence.flux-framework.org")
	p.must(err)
}

// as returns a client of one of Fluence's service accounts, which has all rights.
func (p *plant) as(account string) kubernetes.Interface {
	p.Helper()
	user := "system:serviceaccount:fluence-system:" + account
	_, err := p.Client().RbacV1().ClusterRoleBindings().Create(p.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{})
	p.must(err)
	cfg, err := p.RESTConfigFor(user)
	p.must(err)
	client, err := kubernetes.NewForConfig(cfg)
	p.must(err)
	return client
}

// pod creates a pod for Fluence with an amount of CPU.
func (p *plant) pod(name, group, cpu string) *corev1.Pod {
	p.Helper()
	pod := objects.Pod(name, objects.In("default"), objects.InGroup(group), objects.CPU(cpu))
	pod.Spec.TerminationGracePeriodSeconds = new(int64(0))
	pod, err := p.Client().CoreV1().Pods("default").Create(p.Context(), pod, metav1.CreateOptions{})
	p.must(err)
	return pod
}

// bind binds a pod, as the scheduler does.
func (p *plant) bind(pod, node string) {
	p.Helper()
	p.must(p.scheduler.CoreV1().Pods("default").Bind(p.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{}))
}

// group creates a PodGroup.
func (p *plant) group(name string, minMember int64) {
	p.Helper()
	_, err := p.groups.Namespace("default").Create(p.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"minMember": minMember},
	}}, metav1.CreateOptions{})
	p.must(err)
}

// says sets the condition Scheduled of a PodGroup.
func (p *plant) says(name, status, reason, message string) {
	p.Helper()
	g, err := p.groups.Namespace("default").Get(p.Context(), name, metav1.GetOptions{})
	p.must(err)
	p.must(unstructured.SetNestedSlice(g.Object, []any{map[string]any{
		"type": "Scheduled", "status": status, "reason": reason, "message": message, "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
	}}, "status", "conditions"))
	_, err = p.groups.Namespace("default").UpdateStatus(p.Context(), g, metav1.UpdateOptions{})
	p.must(err)
}

// running waits until a pod runs.
func (p *plant) running(name string) {
	p.Helper()
	p.eventually("pod "+name+" runs", func(ctx context.Context) bool {
		pod, err := p.Client().CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		return err == nil && pod.Status.Phase == corev1.PodRunning
	})
}

func (p *plant) eventually(what string, done func(context.Context) bool) {
	p.Helper()
	eventually.True(p.Context(), p, what, func(ctx context.Context) (bool, string) {
		return done(ctx), fmt.Sprintf("violations %v; %v", p.Violations(), p.Stats())
	})
}

// breaks waits until exactly these violations are reported, each once.
func (p *plant) breaks(wants ...string) {
	p.Helper()
	slices.Sort(wants)
	p.eventually(fmt.Sprintf("violations %q", wants), func(context.Context) bool {
		return slices.Equal(summaries(p.Violations()), wants)
	})
}

// summaries returns the rule and the object of each violation, in order.
func summaries(violations []invariants.Violation) []string {
	var got []string
	for _, v := range violations {
		got = append(got, v.Rule+" "+v.Object)
	}
	slices.Sort(got)
	return got
}

// tellEvent writes an event about a pod, as the scheduler would.
func (p *plant) tellEvent(name string, about *corev1.Pod, reason, note string) {
	p.Helper()
	_, err := p.scheduler.EventsV1().Events("default").Create(p.Context(), &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: name}, EventTime: metav1.NowMicro(), Type: "Warning", Action: "Scheduling",
		ReportingController: "fluence", ReportingInstance: "fluence-x", Reason: reason, Note: note,
		Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: about.Name, UID: about.UID},
	}, metav1.CreateOptions{})
	p.must(err)
}

func TestViolationsOnARealCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	p := newPlant(t, invariants.Config{Slack: 4 * time.Second, StartWithin: 2 * time.Second, Linger: time.Second})

	// Half of a gang is bound.
	p.group("half", 2)
	p.says("half", "False", "NoRoom", "needs 2 pods")
	p.pod("half-0", "half", "1")
	p.pod("half-1", "half", "1")
	p.bind("half-0", "node-0000")
	// This pod waits without a reason.
	p.group("silent", 1)
	p.pod("silent-0", "silent", "1")
	// The same event is written twice.
	lone := p.pod("lone", "", "7")
	p.tellEvent("one", lone, "NoRoom", "needs 1 pod")
	p.tellEvent("two", lone, "NoRoom", "needs 1 pod")
	p.breaks("PartialGang default/half", "NoReason default/silent", "Repeated default/lone")

	// A pod is bound to a full node.
	p.bind("lone", "node-0001")
	p.running("lone")
	p.bind("silent-0", "node-0001")
	p.bind("half-1", "node-0001")
	p.breaks("PartialGang default/half", "NoReason default/silent", "Repeated default/lone", "FullNode default/half-1")
	// A pod is bound to a node that does not exist.
	p.pod("lost", "", "1")
	p.tellEvent("three", lone, "Other", "x")
	p.bind("lost", "node-9999")
	// A running pod is deleted.
	p.must(p.controller.CoreV1().Pods("default").Delete(p.Context(), "lone", metav1.DeleteOptions{}))
	broken := []string{"PartialGang default/half", "NoReason default/silent", "Repeated default/lone", "FullNode default/half-1",
		"NodeClosed default/lost", "PodMoved default/lone"}
	p.breaks(broken...)
	p.breaks(append(broken, p.breakQueues()...)...)

	// No scheduler places the last probe, because Fluence does not run.
	p.must(p.Client().CoreV1().Pods("default").DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, metav1.ListOptions{}))
	violations, err := p.End(t.Context())
	p.must(err)
	got := summaries(violations)
	if !slices.Contains(got, "Held invariants-probe/whole-cluster") {
		t.Errorf("violations %q, want one of Held", got)
	}
	for _, v := range violations {
		if n := strings.Count(p.found.String(), v.String()); n != 1 {
			t.Errorf("%v was printed %d times, want once:\n%s", v, n, p.found)
		}
	}
	left, err := p.Client().CoreV1().Pods("invariants-probe").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("pods of the probe left over: %d, error %v", len(left.Items), err)
	}
	t.Log(p.Stats())
}

func TestConfigIsValidated(t *testing.T) {
	cases := map[string]struct {
		cfg  invariants.Config
		want string
	}{
		"no API server":     {cfg: invariants.Config{Audit: "x"}, want: "REST"},
		"no audit log":      {cfg: invariants.Config{REST: &rest.Config{}}, want: `Audit: ""`},
		"a negative length": {cfg: invariants.Config{REST: &rest.Config{}, Audit: "x", Slack: -time.Second}, want: "Slack: -1s"},
		"a negative start":  {cfg: invariants.Config{REST: &rest.Config{}, Audit: "x", StartWithin: -time.Second}, want: "StartWithin: -1s"},
		"no such file":      {cfg: invariants.Config{REST: &rest.Config{}, Audit: "/nowhere/audit.log"}, want: "/nowhere/audit.log"},
	}
	for title, tc := range cases {
		t.Run(title, func(t *testing.T) {
			if _, err := invariants.Watch(t.Context(), tc.cfg); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Watch() = %v, want an error with %q", err, tc.want)
			}
		})
	}
}

// The checker must not share a mistake with the code that it checks.
func TestItKnowsNothingOfFluence(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.FieldsSeq(string(out)) {
		own, ok := strings.CutPrefix(pkg, "github.com/flux-k8s/fluence/")
		if ok && !strings.HasPrefix(own, "test/cluster") && own != "test/invariants" {
			t.Errorf("it imports %s", pkg)
		}
	}
}
