package e2e

import (
	"context"
	"flag"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/stack"
)

// Node labels: nativeRack is a topology level of the scheduler, and nativeRow is none.
const (
	nativeRack = "example.com/rack"
	nativeRow  = "example.com/row"
)

var (
	nativeGroups  = flag.Int("native.groups", 4, "how many groups of each kind TestNativePodGroupsBesideOthers places in order")
	nativeWaiting = flag.Int("native.refused", 30, "how many refused groups TestNativePodGroupsBesideOthers leaves at rest")
)

// byDefault makes kube-scheduler schedule the pods of a manifest.
func byDefault(manifest string) string {
	return strings.ReplaceAll(manifest, "schedulerName: fluence", "schedulerName: default-scheduler")
}

// nativeCrew returns a native gang of pods with these amounts of CPU, and its PodGroup.
func nativeCrew(name string, cpu ...string) string {
	text := nativeGang(name, len(cpu))
	for i, c := range cpu {
		text += ofNative(name, i, c)
	}
	return text
}

// withSpec adds fields to the spec of the native PodGroup in a manifest.
func withSpec(manifest, fields string) string {
	return strings.Replace(manifest, "spec: {schedulingPolicy", "spec: {"+fields+", schedulingPolicy", 1)
}

// dropPods deletes pods with a name prefix at once, and waits until they are gone.
func (s *story) dropPods(prefix string) {
	s.Helper()
	var names []string
	for _, p := range s.pods(prefix) {
		names = append(names, p.Name)
	}
	if len(names) > 0 {
		s.kubectl(append([]string{"delete", "pods", "-n", s.ns, "--force", "--grace-period=0"}, names...)...)
	}
	s.podsGone(prefix)
}

// podsGone waits until no pod has a name prefix.
func (s *story) podsGone(prefix string) {
	s.Helper()
	s.eventually("no pods "+prefix+"*", func(context.Context) (bool, string) {
		n := len(s.pods(prefix))
		return n == 0, fmt.Sprintf("%d are left", n)
	})
}

// Native PodGroups of Fluence, kube-scheduler with its own gangs, and other groups of Fluence.
func TestNativePodGroupsBesideOthers(t *testing.T) {
	s := tellNative(t, func(c *cluster.Config, own *stack.Config) {
		c.StockScheduler = true
		c.FeatureGates["TopologyAwareWorkloadScheduling"] = true
		c.RuntimeConfig = map[string]bool{"scheduling.k8s.io/v1beta1": true}
		own.Args = map[string]any{"topologyLevels": []any{nativeRack}}
	})
	s.heterogeneous()
	s.besideStock()
	s.otherSchedulerInAGroup()
	s.oneDomain()
	s.besideAStatefulSet()
	s.nativeInOrder()
	s.nativeAtRest()
	s.nativeKilled()
}

// heterogeneous: kube-scheduler tries the pods of a gang in one order, and puts the
// first where the second has to be. Fluence matches both at once.
func (s *story) heterogeneous() {
	s.Helper()
	s.nodes("large", 1, "4")
	s.nodes("small", 1, "2")
	s.applyText(byDefault(nativeCrew("stock", "2", "4")))
	s.native("stock", "is refused by kube-scheduler", func(pg *schedulingv1beta1.PodGroup) bool {
		return meta.IsStatusConditionFalse(pg.Status.Conditions, initially)
	})
	s.noneOnNodes("stock-")
	s.dropPods("stock-")
	s.applyText(nativeCrew("mixture", "2", "4"))
	s.running("mixture-", 2)
	s.nativePlaced("mixture")
	s.dropPods("mixture-")
}

// besideStock: each scheduler leaves the PodGroups of the other alone. kube-scheduler
// evicts a group of Fluence as a whole, if it says so.
func (s *story) besideStock() {
	s.Helper()
	s.applyText(byDefault(nativeCrew("theirs", "1", "1")))
	s.running("theirs-", 2)
	theirs := s.native("theirs", "has started", func(pg *schedulingv1beta1.PodGroup) bool {
		return meta.IsStatusConditionTrue(pg.Status.Conditions, initially)
	})
	for _, c := range theirs.Status.Conditions {
		if strings.HasPrefix(c.Type, "fluence.") {
			s.Errorf("Fluence has written %+v onto a PodGroup of kube-scheduler", c)
		}
	}
	if minimum, ok := theirs.Annotations[group.MinMemberAnnotation]; ok {
		s.Errorf("Fluence has written the minimum %s onto a PodGroup of kube-scheduler", minimum)
	}
	s.dropPods("theirs-")
	s.applyText(withSpec(nativeCrew("prey", "3", "2"), "disruptionMode: {all: {}}"))
	s.running("prey-", 2)
	class := s.priorities(1000)
	s.applyText(prioritized(ofSize(lonePod("hunter", "default-scheduler"), "4"), class(1000)))
	s.running("hunter", 1)
	s.podsGone("prey-")
	s.dropPods("hunter")
}

// otherSchedulerInAGroup: one pod of a group asks for another scheduler.
func (s *story) otherSchedulerInAGroup() {
	s.Helper()
	s.applyText(nativeGang("half", 2) + ofNative("half", 0, "1") + byDefault(ofNative("half", 1, "1")))
	s.native("half", "says that a pod does not count", func(pg *schedulingv1beta1.PodGroup) bool {
		c := meta.FindStatusCondition(pg.Status.Conditions, nativeScheduled)
		return c != nil && c.Reason == "Gathering" && c.Message == "waits for 1 more pod: has 1 of minCount 2; not counted: 1 pod with schedulerName default-scheduler"
	})
	s.noneOnNodes("half-")
	s.dropPods("half-")
}

// oneDomain: the pods of a group are on nodes with one value of a label, whether
// it is a topology level or not. So are those that come later.
func (s *story) oneDomain() {
	s.Helper()
	in := map[string]string{}
	for i, domain := range []string{"a", "a", "b", "b"} {
		name := fmt.Sprintf("%s%d", domain, i)
		in[name+"-0"] = domain
		s.nodes(name, 1, "2", func(n *corev1.Node) { n.Labels[nativeRack], n.Labels[nativeRow] = domain, domain })
	}
	for prefix, key := range map[string]string{"level": nativeRack, "label": nativeRow} {
		s.applyText(withSpec(nativeCrew(prefix, "1", "1", "1"), "schedulingConstraints: {topology: [{key: "+key+"}]}"))
		s.running(prefix+"-", 3)
		s.applyText(ofNative(prefix, 3, "1"))
		s.running(prefix+"-", 4)
		domains := map[string]int{}
		for _, node := range s.onNodes(prefix + "-") {
			domains[in[node]]++
		}
		if len(domains) != 1 || domains[""] > 0 {
			s.Errorf("pods by the value of %s: %v, want all in one", key, domains)
		}
		s.dropPods(prefix + "-")
		s.kubectl("delete", "podgroups.scheduling.k8s.io", prefix, "-n", s.ns)
	}
}

// besideAStatefulSet: kinds that have no native PodGroup have one of Fluence.
func (s *story) besideAStatefulSet() {
	s.Helper()
	s.applyText(`apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  replicas: 2
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      schedulerName: fluence
      containers: [{name: main, image: busybox, resources: {requests: {cpu: "1"}}}]
`)
	s.running("web-", 2)
	s.placed("statefulset-web-")
	s.kubectl("delete", "statefulset", "web", "-n", s.ns, "--timeout=60s")
	s.podsGone("web-")
}

// nativeInOrder: native PodGroups and PodGroups of Fluence wait in one order. The order is by priority, then by
// age. Pods of kube-scheduler wait beside them. Each pod that ends leaves room for one group.
func (s *story) nativeInOrder() {
	s.Helper()
	class := s.priorities(10, 20)
	var text strings.Builder
	s.nodes("turn", 2**nativeGroups, "32")
	for i := range 2 * *nativeGroups {
		pod := ofSize(lonePod(fmt.Sprintf("before-%d", i), "nobody"), "32")
		text.WriteString(strings.Replace(pod, "spec:\n", fmt.Sprintf("spec:\n  nodeName: turn-%d\n", i), 1) + "---\n")
	}
	s.applyText(text.String())
	s.running("before-", 2**nativeGroups)
	text.Reset()
	for i := range *nativeGroups {
		native, own := fmt.Sprintf("turn-%03d-n", i), fmt.Sprintf("turn-%03d-o", i)
		nativeClass := class([]int{20, 10, 10}[i%3])
		text.WriteString(withSpec(nativeGang(native, 2), "priorityClassName: "+nativeClass))
		fmt.Fprintf(&text, "apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: %s}\nspec: {minMember: 2}\n---\n", own)
		for j := range 2 {
			// A third of the native groups and half of the others have the higher priority.
			text.WriteString(prioritized(ofNative(native, j, "16"), nativeClass))
			pod := ofSize(lonePod(fmt.Sprintf("%s-%d", own, j), "fluence"), "16") + "---\n"
			pod = strings.Replace(pod, "metadata: {", "metadata: {labels: {"+group.Label+": "+own+"}, ", 1)
			text.WriteString(prioritized(pod, class([]int{10, 20}[i%2])))
		}
		for j := range 5 {
			text.WriteString(ofSize(lonePod(fmt.Sprintf("bulk-%d-%d", i, j), "default-scheduler"), "64") + "---\n")
		}
	}
	s.applyText(text.String())
	s.eventually("all groups wait for room", func(ctx context.Context) (bool, string) {
		n := s.silent(ctx)
		return n == 0, fmt.Sprintf("%d pods have no reason", n)
	})
	type turn struct {
		priority int32
		made     time.Time
	}
	turns := map[string]turn{}
	for _, p := range s.pods("turn-") {
		name := p.Name[:strings.LastIndex(p.Name, "-")]
		t := turns[name]
		if t.priority = *p.Spec.Priority; p.CreationTimestamp.After(t.made) {
			t.made = p.CreationTimestamp.Time
		}
		turns[name] = t
	}
	started, last := map[string]bool{}, turn{priority: math.MaxInt32}
	for i := range 2 * *nativeGroups {
		s.kubectl("delete", "pod", fmt.Sprintf("before-%d", i), "-n", s.ns, "--wait=false")
		var name string
		s.eventually(fmt.Sprintf("%d groups on nodes", i+1), func(context.Context) (bool, string) {
			on := map[string]int{}
			for pod := range s.onNodes("turn-") {
				on[pod[:strings.LastIndex(pod, "-")]]++
			}
			for n, pods := range on {
				if !started[n] && pods == 2 {
					name = n
				}
			}
			return len(on) == i+1 && name != "", fmt.Sprint(on)
		})
		started[name] = true
		// Creations are told in whole seconds.
		next := turns[name]
		if next.priority > last.priority || next.priority == last.priority && next.made.Before(last.made.Add(-time.Second)) {
			s.Errorf("%s starts with %+v, after one with %+v", name, next, last)
		}
		last = next
	}
	s.dropPods("turn-")
	s.dropPods("bulk-")
}

// nativeAtRest: refused groups cost nothing while nothing happens that could help them.
func (s *story) nativeAtRest() {
	s.Helper()
	// A group that gathers pods for 45 seconds gets an event, and the groups of before have no pods.
	s.kubectl("delete", "podgroups.scheduling.k8s.io,podgroups.scheduling.x-k8s.io", "--all", "-n", s.ns)
	refused := *nativeWaiting
	var text strings.Builder
	for i := range refused {
		text.WriteString(nativeCrew(fmt.Sprintf("wait%03d", i), "64", "64"))
	}
	s.applyText(text.String())
	for i := range refused {
		s.nativeRefused(fmt.Sprintf("wait%03d", i), "NeverFits", "no node is large enough")
	}
	s.eventually("all pods that wait say why", func(ctx context.Context) (bool, string) {
		n := s.silent(ctx)
		return n == 0, fmt.Sprintf("%d do not", n)
	})
	before, since := s.settled(), time.Now()
	s.renewals(10)
	if now, err := s.stir(s.Context()); err != nil || now != before {
		s.Errorf("%d refused groups at rest cost %+v, and %+v a few seconds later, error %v", refused, before, now, err)
	}
	if writes := s.writes(since); len(writes) > 0 {
		s.Errorf("%d refused groups at rest cost the writes %q", refused, writes)
	}
	s.dropPods("wait")
}

// nativeKilled: scheduler and sidecar are killed at every step of a gang's way. In
// the end it is whole, and no pod was bound twice.
func (s *story) nativeKilled() {
	s.Helper()
	s.gated(false)
	n := 0
	for _, m := range moments() {
		if m.ahead != "" {
			continue // it is about PodGroups that the controller makes
		}
		for _, killed := range [][]string{{stack.Scheduler}, {stack.Sidecar}, {stack.Scheduler, stack.Sidecar}} {
			n++
			name := fmt.Sprintf("gang%d", n)
			s.gate(m.gate)
			s.applyText(nativeGang(name, crewSize))
			for i := range crewSize {
				pod := ofNative(name, i, "1")
				if slices.Contains(m.held, i) {
					pod = strings.Replace(pod, "metadata: {", `metadata: {labels: {held: "yes"}, `, 1)
				}
				s.applyText(pod)
			}
			m.reached(s, name)
			for _, process := range killed {
				s.kill(process)
			}
			bound := slices.DeleteFunc(s.pods(""), onNoNode)
			s.gate("")
			for _, process := range killed {
				s.startNamed(process)
			}
			s.running(name+"-", crewSize)
			s.nativePlaced(name)
			s.stayed(bound)
			s.noneRejected()
			s.allBooked()
			s.dropPods(name + "-")
			s.kubectl("delete", "podgroups.scheduling.k8s.io", name, "-n", s.ns)
		}
	}
	s.boundOnce()
}
