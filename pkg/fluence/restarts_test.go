package fluence

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/test/objects"
)

// restartsWithin gives a pod the annotation that keeps its room.
func restartsWithin(timeout string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if timeout != "" {
			p.Annotations = map[string]string{group.RestartTimeoutAnnotation: timeout}
		}
	}
}

// ran lets pods have run for an hour.
func (r *rig) ran(names ...string) {
	r.Helper()
	for _, name := range names {
		r.update(name, func(p *corev1.Pod) { p.Status.StartTime = &metav1.Time{Time: time.Now().Add(-time.Hour)} })
	}
}

// recreateGang deletes the pods of group g, and makes others after a while.
func (r *rig) recreateGang(n int, after time.Duration, edit ...func(*corev1.Pod)) {
	r.Helper()
	for i := range n {
		r.remove(fmt.Sprintf("g-%d", i))
	}
	r.pass(after)
	for i := range n {
		r.pod(fmt.Sprintf("again-%d", i), append([]func(*corev1.Pod){objects.InGroup(g.Name)}, edit...)...)
	}
	r.pass(5 * time.Second)
}

// The room of a group whose pods are made again stays theirs, for as long as the annotation says.
func TestRoomIsKeptForPodsThatAreMadeAgain(t *testing.T) {
	cases := map[string]struct {
		timeout string
		after   time.Duration
		// first is the prefix of the pods that run afterwards.
		first string
		edit  func(*corev1.Pod) // of the pods of the other group
		// restarted is whether the pods have not run yet.
		restarted bool
	}{
		"in time":              {timeout: "30s", after: 20 * time.Second, first: "again-"},
		"too late":             {timeout: "30s", after: 40 * time.Second, first: "other-"},
		"without annotation":   {after: 20 * time.Second, first: "other-"},
		"longer than allowed":  {timeout: "1h", after: 20 * time.Second, first: "other-"},
		"no duration":          {timeout: "soon", after: 20 * time.Second, first: "other-"},
		"after a short life":   {timeout: "30s", after: 20 * time.Second, first: "other-", restarted: true},
		"for a lower priority": {timeout: "30s", after: 20 * time.Second, first: "other-", edit: func(p *corev1.Pod) { p.Spec.Priority = new(int32(10)) }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.node("n1", 4)
				r.node("n2", 4)
				r.pass(settleTime)
				r.schedule()
				r.gang(2, 2, objects.CPU("3"), restartsWithin(tc.timeout))
				r.pass(5 * time.Second)
				r.podGroupAPI.put(aPodGroup("other", 2, "other"))
				for i := range 2 {
					pod := []func(*corev1.Pod){objects.InGroup("other"), objects.CPU("3")}
					if tc.edit != nil {
						pod = append(pod, tc.edit)
					}
					r.pod(fmt.Sprintf("other-%d", i), pod...)
				}
				r.pass(5 * time.Second)
				if !r.runs("g-0") || !r.runs("g-1") || r.runs("other-0") {
					t.Fatalf("the first group is to run, and the other to wait: %v", r.assigned())
				}
				if !tc.restarted {
					r.ran("g-0", "g-1")
				}
				r.recreateGang(2, tc.after, objects.CPU("3"), restartsWithin(tc.timeout))
				for pod := range r.assigned() {
					if !strings.HasPrefix(pod, tc.first) {
						t.Errorf("pod %s has a node, want that those of %s have it", pod, tc.first)
					}
				}
				if !r.runs(tc.first+"0") || !r.runs(tc.first+"1") {
					t.Errorf("the pods of %s are not whole on nodes: %v", tc.first, r.assigned())
				}
			})
		})
	}
}

// The owner makes other pods while the first still terminate. The group that waits asks for the same, and has
// waited for long enough to have nodes reserved for it.
func TestAGroupThatRestartsNeitherFollowsNorYields(t *testing.T) {
	for name, waited := range map[string]time.Duration{"the other is not starving": time.Minute, "the other has reserved nodes": 15 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.node("n1", 4)
				r.node("n2", 4)
				r.pass(settleTime)
				r.schedule()
				pods := r.gang(2, 2, objects.CPU("3"), restartsWithin("1m"))
				r.pass(5 * time.Second)
				r.podGroupAPI.put(aPodGroup("other", 2, "other"))
				for i := range 2 {
					r.pod(fmt.Sprintf("other-%d", i), objects.InGroup("other"), objects.CPU("3"), restartsWithin("1m"))
				}
				r.pass(waited)
				r.ran("g-0", "g-1")
				for _, p := range pods {
					r.update(p.Name, func(p *corev1.Pod) {
						p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: time.Now()}, []string{"test/terminates"}
					})
				}
				for i := range 2 {
					r.pod(fmt.Sprintf("again-%d", i), objects.InGroup(g.Name), objects.CPU("3"), restartsWithin("1m"))
				}
				r.pass(90 * time.Second)
				for _, p := range pods {
					r.must(r.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), ns, p.Name))
				}
				r.pass(10 * time.Second)
				if !r.runs("again-0") || !r.runs("again-1") || r.runs("other-0") {
					t.Errorf("pods on nodes: %v, want those of the group that restarts", r.assigned())
				}
			})
		})
	}
}

// No room is kept by a scheduler that does not lead, nor of pods that were created on their nodes.
func TestWhoKeepsNoRoom(t *testing.T) {
	for name, on := range map[string]func(r *rig){
		"a standby":                       func(r *rig) { r.standby.Store(true); r.pass(10 * time.Second); r.remove("g-0") },
		"of a pod with a node of its own": func(r *rig) { r.remove("placed") },
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.node("n1", 8)
				r.pass(settleTime)
				r.schedule()
				r.gang(1, 1, objects.CPU("3"), restartsWithin("1m"))
				r.pass(5 * time.Second)
				r.pod("placed", objects.InGroup(g.Name), objects.CPU("4"), restartsWithin("1m"), objects.CreatedOn("n1"))
				r.pass(5 * time.Second)
				r.ran("g-0", "placed")
				if on(r); len(r.pl.restarts.nodesOf(g)) > 0 {
					t.Error("room is kept")
				}
			})
		})
	}
}

// A refusal names the kept room that a group has to leave. The group gets the room when the group
// for which it was kept has ended.
func TestKeptRoomIsToldAndGivenUp(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 4)
		r.pass(settleTime)
		r.schedule()
		r.gang(1, 1, objects.CPU("3"), restartsWithin("1m"))
		r.pass(5 * time.Second)
		r.podGroupAPI.put(aPodGroup("other", 1, "other"))
		other := r.pod("other", objects.InGroup("other"), objects.CPU("3"))
		r.pass(5 * time.Second)
		r.ran("g-0")
		r.terminate(time.Second, "g-0")
		r.pass(time.Second)
		r.remove("g-0")
		r.pass(10 * time.Second)
		const want = "; the room of 1 pod that ended is kept until "
		got := r.preEnqueueMessage(other)
		for range 20 { // it is empty while the group asks again
			if got != "" {
				break
			}
			r.pass(tick / 5)
			got = r.preEnqueueMessage(other)
		}
		if !strings.Contains(got, want) || !strings.HasSuffix(got, " for "+g.String()+", which restarts") {
			t.Errorf("the other group is refused with %q, want the end of the room and for whom it is kept", got)
		}
		r.podGroupAPI.drop(g)
		r.pass(5 * time.Second)
		if !r.runs("other") {
			t.Errorf("the room is still kept for a group that is gone: %s", r.preEnqueueMessage(other))
		}
	})
}

// Room that is not used is charged to the namespace, which gets none afterwards.
func TestKeptRoomThatIsNotUsedIsCharged(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 4)
		r.pass(settleTime)
		r.schedule()
		r.gang(1, 1, objects.CPU("3"), restartsWithin("1m"))
		r.pass(5 * time.Second)
		kept := func() bool {
			r.pl.restarts.mu.Lock()
			defer r.pl.restarts.mu.Unlock()
			return len(r.pl.restarts.groups) > 0
		}
		r.ran("g-0")
		r.remove("g-0")
		if !kept() {
			t.Fatal("no room is kept")
		}
		r.pass(62 * time.Second)
		if kept() {
			t.Fatal("the room is kept for longer than the annotation says")
		}
		r.pod("g-1", objects.InGroup(g.Name), objects.CPU("3"), restartsWithin("1m"))
		r.pass(5 * time.Second)
		if !r.runs("g-1") {
			t.Fatal("the pod does not run")
		}
		r.ran("g-1")
		if r.remove("g-1"); kept() {
			t.Error("room is kept for a namespace that has just wasted some")
		}
	})
}

// A pod uses the room that another pod of its group has left. Room on its own node comes first.
func TestRestartsAreUsedUp(t *testing.T) {
	cases := map[string]struct {
		nodes []string
		all   bool
		// left are the nodes whose room is still kept. freed is whether room was given up.
		left  []string
		freed bool
	}{
		"one on its node":      {nodes: []string{"b"}, left: []string{"a", "c"}, freed: true},
		"one elsewhere":        {nodes: []string{"x"}, left: []string{"b", "c"}, freed: true},
		"the group as a whole": {nodes: []string{"a", "b", "x"}, all: true, freed: true},
		"all on their nodes":   {nodes: []string{"a", "b", "c"}, all: true, freed: true},
		"none":                 {left: []string{"a", "b", "c"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var r restarts
			of := gang.Restart{Key: g, Timeout: time.Minute, Total: time.Hour, Pods: 3}
			for _, node := range []string{"a", "b", "c"} {
				pod := objects.Pod("on-"+node, objects.OnNode(node))
				pod.UID = types.UID(node)
				r.keep(of, pod, match.Slot{Key: node, Node: node}, time.Now())
			}
			if got := r.use(g, tc.nodes, tc.all); got != tc.freed {
				t.Errorf("use() = %t, want %t", got, tc.freed)
			}
			var left []string
			if k := r.groups[g]; k != nil {
				for _, node := range []string{"a", "b", "c"} {
					if _, is := k.pods[types.UID(node)]; is {
						left = append(left, node)
					}
				}
			}
			if fmt.Sprint(left) != fmt.Sprint(tc.left) {
				t.Errorf("the room of %v is kept, want %v", left, tc.left)
			}
		})
	}
}

// Only pods that request what those before them did come past reservations of other groups.
func TestRoomIsKeptForPodsLikeThoseThatLeft(t *testing.T) {
	var r restarts
	of := gang.Restart{Key: g, Timeout: time.Minute, Total: time.Hour, Pods: 3}
	for _, node := range []string{"a", "b"} {
		pod := objects.Pod("on-"+node, objects.OnNode(node), objects.CPU("2"))
		pod.UID = types.UID(node)
		r.keep(of, pod, match.Slot{Key: node, Node: node}, time.Now())
	}
	for want, cpu := range map[int][]string{2: {"2", "2"}, 0: {"2", "3"}} {
		plan := gang.Plan{Key: g}
		for i, c := range cpu {
			plan.Required = append(plan.Required, objects.Pod(fmt.Sprint(i), objects.CPU(c)))
		}
		if nodes := r.nodesFor(&plan); len(nodes) != want {
			t.Errorf("pods with cpu %v may use %v, want %d nodes", cpu, nodes, want)
		}
	}
	many := gang.Plan{Key: g}
	for i := range 3 {
		many.Required = append(many.Required, objects.Pod(fmt.Sprint(i), objects.CPU("2")))
	}
	if nodes := r.nodesFor(&many); len(nodes) > 0 {
		t.Errorf("more pods than have left may use %v", nodes)
	}
}
