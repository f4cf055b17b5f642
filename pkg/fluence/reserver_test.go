package fluence

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/placement"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
)

// filled creates nodes of four cores with a pod of three cores each that
// ends some day, and a group that needs some of the nodes completely.
func (r *rig) filled(nodes, needs int, old ...func(*corev1.Pod)) {
	r.Helper()
	for i := range nodes {
		r.node(fmt.Sprintf("n%d", i), 4)
	}
	r.pass(settleTime)
	r.schedule()
	for i := range nodes {
		r.pod(fmt.Sprintf("old-%d", i), append(old, objects.CPU("3"), objects.Never, objects.OnNode(fmt.Sprintf("n%d", i)))...)
	}
	r.pass(time.Second)
	r.gang(int32(needs), needs, objects.CPU("4"))
	r.pass(time.Second)
}

// reserved returns the number of groups with reserved nodes, and the number of these nodes.
func (r *rig) reserved() (groups, nodes int) {
	groups, of := r.pl.reservations.count()
	for _, n := range of {
		nodes += n
	}
	return groups, nodes
}

// The reserved nodes are free, or have the fewest pods.
// There are no more of them than the group needs.
func TestAsManyNodesAreReservedAsAGroupNeeds(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.filled(4, 2)
		for i := range 2 {
			r.pod(fmt.Sprintf("more-%d", i), objects.CPU("500m"), objects.Never, objects.OnNode(fmt.Sprintf("n%d", i)))
		}
		r.pass(11 * time.Minute)
		if got := r.pl.reservations.nodes(gang.Turn{Namespace: ns}, g); fmt.Sprint(got) != "[n2 n3]" {
			t.Errorf("reserved are %q, want the two nodes with one pod each; it is told %q", got, r.message())
		}
		if got := r.message(); !strings.HasSuffix(got, "; 2 nodes are reserved for it") {
			t.Errorf("it is told %q", got)
		}
		told := slices.DeleteFunc(r.recorder.of("PodGroup"), func(e event) bool { return e.reason != reason.NodesReserved })
		if len(told) != 1 || told[0].name != g.Name || told[0].message != "2 nodes are reserved for the group" {
			t.Errorf("events tell %+v, want one of two nodes", told)
		}
		r.pod("small", objects.CPU("500m"))
		r.pass(time.Second)
		if got := r.assigned()["small"]; got != "n0" {
			t.Errorf("a small pod is on %q, want it on a node that is not reserved", got)
		}
		r.remove("old-2")
		r.remove("old-3")
		r.pass(time.Second)
		if !r.runs("g-0") || !r.runs("g-1") {
			t.Errorf("it does not start on the nodes reserved for it: %v, %s", r.assigned(), r.message())
		}
	})
}

// No nodes are reserved for a group that does not fit beside
// pods that do not end. The message names the blocker.
func TestNothingIsReservedForAGroupThatNeedsWhatNeverEnds(t *testing.T) {
	of := func(kind, api string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			objects.Always(p)
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: api, Kind: kind, Name: "x", UID: "x", Controller: new(true)}}
		}
	}
	elsewhere := func(p *corev1.Pod) { objects.Always(p); p.Namespace = "elsewhere" }
	cases := map[string]struct {
		edit func(*corev1.Pod)
		way  string // "" if the node is reserved
	}{
		"a Deployment's pod":             {of("ReplicaSet", "apps/v1"), "ns/way"},
		"a StatefulSet's pod":            {of("StatefulSet", "apps/v1"), "ns/way"},
		"a pod that is always restarted": {objects.Always, "ns/way"},
		"one of another namespace":       {elsewhere, "1 pod of other namespaces"},
		"a pod that ends":                {objects.Never, ""},
		"one with a deadline":            {func(p *corev1.Pod) { objects.Always(p); p.Spec.ActiveDeadlineSeconds = new(int64(3600)) }, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.pod("way", objects.CPU("100m"), func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }, tc.edit, objects.OnNode("n1"))
				r.filled(2, 2)
				r.pass(11 * time.Minute)
				r.pod("small", objects.CPU("500m"), objects.In("another"))
				r.pass(time.Second)
				want := "; 2 nodes are reserved for it"
				if tc.way != "" {
					want = "; no nodes are reserved for it: pods that do not end are on 1 node that it could use (" + tc.way + ")"
				}
				if got := r.message(); !strings.HasSuffix(got, want) {
					t.Errorf("it is told %q, want %q at its end", got, want)
				}
				if r.runs("small") != (tc.way != "") {
					t.Errorf("another's pod runs: %t", r.runs("small"))
				}
			})
		})
	}
}

// A reservation pauses for a quarter of maxReserve if nothing ends on its nodes.
// Others overtake the group meanwhile, and then the group has its turn again.
func TestAReservationThatDoesNotGetOnPauses(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.pl.args.MaxReserve.Duration = time.Hour
		r.filled(2, 2, objects.Elsewhere)
		r.pass(11 * time.Minute)
		passes := func(name string) bool {
			r.pod(name, objects.CPU("100m"), objects.Never)
			r.pass(time.Second)
			defer r.remove(name)
			return r.runs(name)
		}
		if passes("early") {
			t.Fatalf("a small pod passes: %s", r.message())
		}
		r.pass(40 * time.Minute)
		r.removeFrom("elsewhere", "old-0") // progress
		r.pass(50 * time.Minute)
		if passes("later") {
			t.Errorf("a small pod passes within an hour of the last end: %s", r.message())
		}
		r.pass(11 * time.Minute)
		if got := r.message(); !strings.Contains(got, "; no nodes are reserved for it for the next 1") || !strings.HasSuffix(got, ", because no pod ended on its reserved nodes for 60m") {
			t.Errorf("it is told %q", got)
		}
		if !passes("paused") {
			t.Error("a small pod does not pass while the reservation pauses")
		}
		r.pass(15 * time.Minute)
		if passes("again") {
			t.Errorf("a small pod passes after the pause: %s", r.message())
		}
		r.removeFrom("elsewhere", "old-1")
		r.pass(time.Second)
		if !r.runs("g-0") {
			t.Errorf("it does not start: %s", r.message())
		}
	})
}

// One group at a time of each namespace and priority has nodes reserved.
func TestOneGroupOfANamespaceAtATime(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.filled(3, 1)
		r.pod("second", objects.CPU("4"))
		r.pod("other", objects.CPU("4"), objects.Elsewhere)
		r.pass(11 * time.Minute)
		groups, nodes := r.reserved()
		if groups != 2 || nodes != 2 {
			t.Errorf("%d nodes are reserved for %d groups, want one for each namespace", nodes, groups)
		}
	})
}

// A gang that needs all nodes starts, although jobs of three times
// maxReserve end one after another, and small groups come all the time.
func TestAGangThatNeedsAllNodesStarts(t *testing.T) {
	const nodes, reserve = 6, time.Hour
	inRig(t, realEngine(t), func(r *rig) {
		r.pl.args.MaxReserve.Duration = reserve
		r.filled(nodes, nodes)
		ends := map[string]time.Time{}
		for i := range nodes {
			ends[fmt.Sprintf("old-%d", i)] = time.Now().Add(time.Duration(i+1) * 3 * reserve / nodes)
		}
		begin := time.Now()
		for n := 0; !r.runs("g-0") && time.Since(begin) < 12*reserve; n++ {
			name := fmt.Sprintf("small-%d", n)
			r.pod(name, objects.CPU("500m"), objects.Never)
			ends[name] = time.Now().Add(3 * reserve)
			for pod, at := range ends {
				if _, placed := r.assigned()[pod]; !placed && strings.HasPrefix(pod, "small") {
					ends[pod] = time.Now().Add(3 * reserve) // it has not begun yet
					continue
				}
				if !time.Now().Before(at) {
					r.remove(pod)
					delete(ends, pod)
				}
			}
			r.pass(5 * time.Minute)
		}
		if !r.runs("g-0") {
			t.Errorf("it has not started after %s: %s", time.Since(begin), r.message())
		}
		t.Log(time.Since(begin))
	})
}

// A group that fits the empty cluster, and never starts, keeps no other group from anything.
func TestGroupThatNeverStartsBlocksNobody(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		const n = 3
		for i := range n {
			r.node(fmt.Sprintf("n%d", i), 8)
		}
		r.pass(settleTime)
		r.schedule()
		r.pod("service", objects.CPU("1m"), objects.Always, func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }, objects.OnNode("n0"))
		r.gang(n, n, objects.CPU("1m"), objects.OfApp("m"), objects.AwayFrom("m"), func(p *corev1.Pod) {
			p.Annotations = map[string]string{group.ExclusiveAnnotation: "true"}
		})
		for _, wait := range []time.Duration{11 * time.Minute, time.Hour} {
			r.pass(wait)
			name := "other-" + wait.String()
			r.pod(name, objects.CPU("4"), objects.Elsewhere)
			r.pass(time.Second)
			if !r.runs(name) {
				t.Errorf("after %s another's pod does not run; the group is told %q", wait, r.message())
			}
		}
	})
}

// Pods that do not end block no group that fits beside them.
func TestNodesWithPodsThatNeverEndAreReserved(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		for i := range 2 {
			node := fmt.Sprintf("n%d", i)
			r.node(node, 4)
			r.pod("tiny-"+node, objects.CPU("1m"), objects.Always, objects.OnNode(node), objects.Elsewhere)
			r.pod("old-"+node, objects.CPU("2"), objects.Never, objects.OnNode(node))
		}
		r.pass(settleTime)
		r.schedule()
		r.gang(2, 2, objects.CPU("3"))
		r.pass(11 * time.Minute)
		r.pod("small", objects.CPU("500m"), objects.Never)
		r.pass(time.Second)
		if r.runs("small") || !strings.HasSuffix(r.message(), "; 2 nodes are reserved for it") {
			t.Errorf("a small pod runs: %t; the group is told %q", r.runs("small"), r.message())
		}
		r.remove("old-n0")
		r.remove("old-n1")
		r.pass(time.Second)
		if !r.runs("g-0") {
			t.Errorf("it does not start: %s", r.message())
		}
	})
}

// The timer of a reservation belongs to a namespace and priority. New groups, a
// short change of the reserved nodes, or the end of own pods do not reset it.
func TestStallTimerIsNotReset(t *testing.T) {
	attacks := map[string]func(r *rig, turn int){
		"by a group that is made anew": func(r *rig, turn int) {
			if turn%50 == 49 {
				if n := turn / 50; n == 0 {
					r.remove("g-0")
					r.remove("g-1")
				} else {
					r.remove(fmt.Sprintf("again-%d", n-1))
				}
				r.pod(fmt.Sprintf("again-%d", turn/50), objects.CPU("4"))
			}
		},
		"by a pod in the way for a moment": func(r *rig, turn int) {
			if turn%50 == 49 {
				r.pod("way", objects.CPU("1m"), objects.Always, objects.OnNode("n0"))
				r.pl.observeEvent(gang.Released)
				r.pass(time.Second)
				r.remove("way")
			}
		},
		"by own pods that end": func(r *rig, turn int) {
			if turn%50 == 49 {
				r.remove(fmt.Sprintf("mine-%d", turn/50))
			}
		},
		"by starts of small groups that are before it": func(r *rig, turn int) {
			tiny := func(n int) string { return fmt.Sprintf("tiny-%02d", n) }
			if turn%50 != 49 {
				return
			}
			r.pod(fmt.Sprintf("block-%d", turn), objects.CPU("1m"), objects.Never, port(7777), objects.OnNode("n0"))
			r.pass(time.Second)
			first := 2 * (turn / 50)
			for n := first; n < first+2; n++ {
				r.pod(tiny(n), objects.CPU("1m"), objects.Never, port(7777), selecting("n0"), func(p *corev1.Pod) { p.Spec.Priority = new(int32(1)) })
			}
			r.pass(70 * time.Second)
			r.remove(fmt.Sprintf("block-%d", turn))
			for n := first; n < first+2; n++ {
				for i := 0; i < 30 && !r.runs(tiny(n)); i++ {
					r.pass(time.Second)
				}
				if !r.runs(tiny(n)) {
					r.Errorf("turn %d: pod %s does not run", turn, tiny(n))
				}
				r.pass(2 * time.Second)
				r.remove(tiny(n))
			}
		},
		"by pods of its own that are created on the nodes": func(r *rig, turn int) {
			if turn%50 != 49 {
				return
			}
			for i := range 2 {
				r.pod(fmt.Sprintf("brought-%d-%d", turn, i), objects.CPU("1m"), objects.InGroup(g.Name), objects.CreatedOn(fmt.Sprintf("n%d", i)))
			}
			r.pass(time.Second)
			for i := range 2 {
				r.remove(fmt.Sprintf("brought-%d-%d", turn, i))
			}
		},
	}
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.pl.args.MaxReserve.Duration = 10 * time.Minute
				r.pl.args.MaxBypass.Duration = time.Minute
				for i := range 2 {
					r.node(fmt.Sprintf("n%d", i), 4)
				}
				r.pass(settleTime)
				r.schedule()
				foreign := objects.Elsewhere
				for i := range 2 {
					r.pod(fmt.Sprintf("old-%d", i), objects.CPU("3"), objects.Never, foreign, objects.OnNode(fmt.Sprintf("n%d", i)))
				}
				for i := range 20 {
					r.pod(fmt.Sprintf("mine-%d", i), objects.CPU("1m"), objects.Never, objects.OnNode("n0"))
				}
				attack(r, -1)
				r.pass(time.Second)
				r.gang(2, 2, objects.CPU("4"))
				reserved := 0
				for turn := range 6 * 60 {
					attack(r, turn)
					r.pass(10 * time.Second)
					if _, n := r.reserved(); n > 0 {
						reserved++
					}
				}
				if reserved < 50 || reserved > 290 {
					t.Errorf("nodes were reserved for %d turns of 360, want 50 to 290", reserved)
				}
			})
		})
	}
}

// The nodes with the fewest pods are reserved, however many the group
// needs. If a group before comes to need some of them, it gets them.
func TestTheNodesWithTheFewestPodsAreReserved(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.filled(4, 3)
		for i := range 5 {
			r.pod(fmt.Sprintf("more-%d", i), objects.CPU("100m"), objects.Never, objects.OnNode("n0"))
		}
		r.pass(11 * time.Minute)
		if got := fmt.Sprint(r.pl.reservations.nodes(gang.Turn{Namespace: ns}, g)); got != "[n1 n2 n3]" {
			t.Errorf("reserved are %s, want those with one pod each", got)
		}
		r.pod("urgent", objects.CPU("4"), withPriority(10))
		r.pass(11 * time.Minute)
		first := r.pl.reservations.nodes(gang.Turn{Namespace: ns, Priority: 10}, types.NamespacedName{Namespace: ns, Name: "pod/urgent/urgent"})
		rest := r.pl.reservations.nodes(gang.Turn{Namespace: ns}, g)
		if len(first) != 1 || len(rest) != 3 || slices.Contains(rest, first[0]) {
			t.Errorf("reserved are %v and %v, want a node and the three others", first, rest)
		}
	})
}

// A group that is refused for something other than room loses its reserved
// nodes, and gets some again with the time that it has waited. A group that
// was matched to nodes which were then rejected keeps its reserved nodes.
func TestReservationEndsWhenGroupNoLongerWaitsForRoom(t *testing.T) {
	again := func(n int, r gang.Refusal) []gang.Refusal { return slices.Repeat([]gang.Refusal{r}, n) }
	found := gang.Refusal{Reason: reason.NodeRefused, Message: "no", Backoff: true, NodesFound: true}
	cases := map[string]struct {
		refused []gang.Refusal
		passes  bool
	}{
		"too hard":                     {again(1, *placement.TooHard(whyTooHard)), true},
		"ruled out before the match":   {again(1, gang.Refusal{Reason: reason.NodesRuledOut, Message: "no", Backoff: true}), true},
		"the matcher did not answer":   {again(1, gang.Refusal{Reason: reason.MatcherUnavailable, Message: "no", WaitsFor: gang.WaitsForAnswer}), false},
		"its node was refused once":    {again(2, found), false},
		"its nodes were refused often": {again(3, found), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.filled(2, 2)
				r.pass(11 * time.Minute)
				if _, nodes := r.reserved(); nodes != 2 {
					t.Fatalf("%d nodes are reserved: %s", nodes, r.message())
				}
				for _, refusal := range tc.refused {
					r.pl.groups.RetryNow(g)
					plan, _ := r.pl.groups.Plan("g-0", r.pl.now())
					if plan.Job == 0 {
						r.pl.groups.ExpireBackoff(g)
						plan, _ = r.pl.groups.Plan("g-0", r.pl.now())
					}
					r.pl.groups.Refuse(plan, refusal, r.pl.now())
				}
				r.pod("small", objects.CPU("500m"), objects.Never)
				r.pass(900 * time.Millisecond)
				if r.runs("small") != tc.passes {
					t.Errorf("a small pod runs: %t, want %t", r.runs("small"), tc.passes)
				}
				r.pass(time.Minute)
				if _, nodes := r.reserved(); nodes != 2 {
					t.Errorf("%d nodes are reserved once it waits for room again: %s", nodes, r.message())
				}
			})
		})
	}
}

// A group of a throttled namespace is placed once when its reserved nodes are free.
func TestFreePassForReservedNodes(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.filled(2, 2)
		r.pass(11 * time.Minute)
		r.pl.debts.charge(ns, time.Minute, false, r.pl.now())
		r.pl.debts.byNamespace[ns].nextAttempt = r.pl.now().Add(time.Hour)
		r.remove("old-0")
		r.pass(5 * time.Second)
		if got := r.message(); !strings.HasPrefix(got, "groups of namespace ns took ") {
			t.Fatalf("it is told %q, want that it may not ask", got)
		}
		r.remove("old-1")
		r.pass(2 * time.Second)
		if !r.runs("g-0") || !r.runs("g-1") {
			t.Errorf("it does not start on its nodes: %v, %s", r.assigned(), r.message())
		}
	})
}

// If waiting for pods to end does not help the first group of a
// turn, it yields the turn to the next group until nodes change.
func TestGroupWithoutReservableNodesYields(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.pod("way", objects.CPU("100m"), objects.Always, objects.OnNode("n1"), func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" })
		r.filled(2, 2)
		r.pass(time.Second)
		next := types.NamespacedName{Namespace: ns, Name: "pod/next/next"}
		r.pod("next", objects.CPU("3500m"))
		r.pass(12 * time.Minute)
		if got := r.pl.reservations.nodes(gang.Turn{Namespace: ns}, next); len(got) != 1 {
			t.Fatalf("the next in order has %v reserved; the first is told %q", got, r.message())
		}
		if got := r.message(); !strings.Contains(got, "; no nodes are reserved for it: pods that do not end are on 1 node") {
			t.Errorf("the first is told %q", got)
		}
		r.remove("way")
		r.pass(searchEvery + time.Second)
		if got := r.pl.reservations.nodes(gang.Turn{Namespace: ns}, g); len(got) != 2 {
			t.Errorf("the first has %v reserved when nothing is in its way: %s", got, r.message())
		}
	})
}

// Pods that are created and deleted make the groups of other
// namespaces search no more often, unless those pods were blockers.
func TestWhichEventsHastenAYieldingGroup(t *testing.T) {
	daemon := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d", Controller: new(true)}}
	}
	cases := map[string]struct {
		edit []func(*corev1.Pod)
		// late creates the pod after the group's search.
		late  bool
		looks bool
	}{
		"a pod in its way":                          {edit: []func(*corev1.Pod){objects.Always, objects.OnNode("n0")}, looks: true},
		"one that came after it looked":             {edit: []func(*corev1.Pod){objects.Always, objects.OnNode("n0")}, late: true},
		"one that ends":                             {edit: []func(*corev1.Pod){objects.Never, objects.OnNode("n0")}},
		"an own one that outlasted a reservation":   {edit: []func(*corev1.Pod){objects.Never, objects.OnNode("n0"), ofUID("outlasted")}, looks: true},
		"one on every node":                         {edit: []func(*corev1.Pod){objects.Always, daemon, objects.OnNode("n0")}},
		"one that waits for a node":                 {edit: []func(*corev1.Pod){objects.Always}},
		"one on a node that it does not ask for":    {edit: []func(*corev1.Pod){objects.Always, objects.OnNode("other")}},
		"one on a node that is cordoned":            {edit: []func(*corev1.Pod){objects.Always, objects.OnNode("cordoned")}},
		"one on a node that it does not tolerate":   {edit: []func(*corev1.Pod){objects.Always, objects.OnNode("tainted")}},
		"one on a node where nothing is in its way": {edit: []func(*corev1.Pod){objects.Always, objects.OnNode("n1")}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				for _, n := range []string{"n0", "n1", "tainted", "cordoned", "other"} {
					r.node(n, 4)
					r.updateNode(n, func(n *corev1.Node) {
						switch n.Name {
						case "tainted":
							n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
						case "cordoned":
							n.Spec.Unschedulable = true
						case "other":
							return
						}
						n.Labels = map[string]string{"pool": "a"}
					})
				}
				for _, n := range []string{"n0", "tainted", "cordoned", "other"} {
					r.pod("service-"+n, objects.CPU("3"), objects.Always, objects.OnNode(n), objects.Elsewhere)
				}
				r.pass(settleTime)
				r.schedule()
				r.gang(2, 2, objects.CPU("4"), func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"pool": "a"} })
				r.pass(10*time.Minute + 5*time.Second)
				if why := r.pl.groups.WhyYields(g, r.pl.now()); why == "" {
					t.Fatalf("it does not leave its turn: %s", r.message())
				}
				r.pl.reservations.begin(gang.Turn{Namespace: ns}, g, r.pl.now()).outlasted = sets.New[types.UID]("outlasted")
				gone := objects.Pod("more", tc.edit...)
				if gone.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour)); tc.late {
					gone.CreationTimestamp = metav1.NewTime(time.Now().Add(time.Second))
				}
				r.pl.blockerGone(gone)
				if got := len(r.pl.groups.YieldersDue(r.pl.now().Add(searchEvery))) > 0; got != tc.looks {
					t.Errorf("it looks for nodes again: %t, want %t", got, tc.looks)
				}
			})
		})
	}
}

// A pod that has outlasted a reservation of its namespace is treated as
// one that does not end, unless its end is near. A deletion is near only
// if its grace period ends soon, because the author chooses that period.
func TestOutlastedFor(t *testing.T) {
	deleted := func(in time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(time.Now().Add(in))) }
	}
	deadline := func(of time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.StartTime, p.Spec.ActiveDeadlineSeconds = new(metav1.Now()), new(int64(of.Seconds()))
		}
	}
	inRig(t, nil, func(r *rig) {
		r.pl.args.MaxReserve.Duration = time.Hour
		turn := gang.Turn{Namespace: ns}
		r.pl.reservations.begin(turn, g, r.pl.now()).outlasted = sets.New[types.UID]("p")
		for name, tc := range map[string]struct {
			edit []func(*corev1.Pod)
			want bool
		}{
			"it sleeps":                       {want: true},
			"it has outlasted none":           {edit: []func(*corev1.Pod){ofUID("other")}},
			"its deadline is near":            {edit: []func(*corev1.Pod){deadline(time.Minute)}},
			"its deadline is far away":        {edit: []func(*corev1.Pod){deadline(24 * time.Hour)}, want: true},
			"it is gone in a minute":          {edit: []func(*corev1.Pod){deleted(time.Minute)}},
			"it should be gone":               {edit: []func(*corev1.Pod){deleted(-time.Minute)}},
			"it may take days to be gone":     {edit: []func(*corev1.Pod){deleted(24 * time.Hour)}, want: true},
			"days to be gone, and a deadline": {edit: []func(*corev1.Pod){deleted(24 * time.Hour), deadline(time.Minute)}},
		} {
			if got := r.pl.outlastedFor(turn)(objects.Pod("p", tc.edit...)); got != tc.want {
				t.Errorf("%s: it is taken for one that does not end: %t, want %t", name, got, tc.want)
			}
		}
	})
}

func ofUID(uid types.UID) func(*corev1.Pod) { return func(p *corev1.Pod) { p.UID = uid } }

// fixedOccupancy is an occupancy in which nothing ends.
type fixedOccupancy struct{ is blockers }

func (s fixedOccupancy) blockers([]string, string) blockers { return s.is }

func (fixedOccupancy) podsOf([]string, string, sets.Set[types.UID]) sets.Set[types.UID] { return nil }

// The effect of a start on the timer of its turn
// depends on how many reserved nodes the group runs on.
func TestAStartCountsForTheNodesThatTheGroupRunsOn(t *testing.T) {
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	first, second := types.NamespacedName{Namespace: ns, Name: "first"}, types.NamespacedName{Namespace: ns, Name: "second"}
	const most = 4 * time.Hour
	cases := map[string]struct {
		runs   []string
		paused bool
	}{
		"on all of them":      {runs: []string{"n1", "n2", "n3"}},
		"on none of them":     {runs: []string{"n4", "n5"}, paused: true},
		"it has not started":  {paused: true},
		"on one of them only": {runs: []string{"n1", "n4"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var a reservations
			at := gang.Turn{Namespace: ns}
			stays := fixedOccupancy{blockers{foreign: 3}}
			runs := func(key types.NamespacedName) []string {
				if key == first {
					return tc.runs
				}
				return nil
			}
			a.reserveNodes(at, first, []string{"n1", "n2"}, stays, runs, noon)
			now := noon.Add(230 * time.Minute)
			if paused, _ := a.advance(at, stays, most, now); paused {
				t.Fatal("it pauses before its time")
			}
			a.giveTurn(at, second, stays, runs, now)
			a.reserveNodes(at, second, []string{"n3"}, stays, runs, now)
			a.advance(at, stays, most, now)
			now = now.Add(15 * time.Minute)
			if paused, _ := a.advance(at, stays, most, now); paused != tc.paused {
				t.Errorf("the next group's reservation pauses after 15 minutes: %t, want %t", paused, tc.paused)
			}
		})
	}
}

// A group that starts on other nodes for a moment resets nothing.
func TestStartOnOtherNodesDoesNotResetTimer(t *testing.T) {
	var a reservations
	at, key := gang.Turn{Namespace: ns}, g
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	stays := fixedOccupancy{blockers{foreign: 3}}
	elsewhere := func(types.NamespacedName) []string { return []string{"n9"} }
	for range 2 {
		a.reserveNodes(at, key, []string{"n1"}, stays, elsewhere, now)
		a.advance(at, stays, time.Hour, now)
		now = now.Add(40 * time.Minute)
		a.advance(at, stays, time.Hour, now)
		a.endExcept(nil, stays, elsewhere, time.Hour, now)
	}
	if _, paused := a.pause(at); !paused {
		t.Error("it does not pause after 80 minutes of 60")
	}
}

// The end of own pods is no progress if groups of other namespaces
// are kept from the nodes, and neither is a change to other nodes.
func TestWhatIsProgress(t *testing.T) {
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		contested bool
		loads     []blockers // one for each 50 minutes
		others    int        // the index of the first load of other nodes
		paused    bool
	}{
		"pods of others end": {contested: true, loads: []blockers{{3, 0}, {2, 0}, {1, 0}}},
		"nothing ends":       {loads: []blockers{{3, 2}, {3, 2}, {3, 2}}, paused: true},
		"own pods end, and nobody else wants them": {loads: []blockers{{3, 3}, {3, 2}, {3, 1}}},
		"own pods end, and others want the nodes":  {contested: true, loads: []blockers{{3, 3}, {3, 2}, {3, 1}}, paused: true},
		"other nodes come and become fewer":        {loads: []blockers{{3, 0}, {9, 0}, {8, 0}}, others: 1, paused: true},
		"other nodes come with fewer on them":      {loads: []blockers{{3, 0}, {2, 0}, {2, 0}}, others: 1, paused: true},
		"pods end before other nodes come":         {loads: []blockers{{3, 0}, {2, 0}, {9, 0}}, others: 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c, paused := newStallTimer(noon), false
			c.contested = tc.contested
			c.change(maxBlockers(), tc.loads[0], 1)
			for i, l := range tc.loads {
				if tc.others > 0 && tc.others == i {
					c.change(tc.loads[i-1], l, 1)
				}
				p, _ := c.advance(true, l, time.Hour, noon.Add(time.Duration(i)*50*time.Minute))
				paused = paused || p
			}
			if paused != tc.paused {
				t.Errorf("it pauses: %t, want %t", paused, tc.paused)
			}
		})
	}
}

// Only groups of other namespaces contest reserved nodes.
func TestReservedNodesAreContestedByOthers(t *testing.T) {
	for of, want := range map[string]bool{ns: false, "elsewhere": true} {
		inRig(t, nil, func(r *rig) {
			at := gang.Turn{Namespace: ns}
			r.pl.reservations.reserveNodes(at, g, []string{"n1"}, fixedOccupancy{}, r.pl.groups.NodesOf, r.pl.now())
			refused := &gang.Refusal{Reason: reason.NodesRuledOut}
			r.pl.handleMatcherEffects(r.ctx, gang.Plan{Key: types.NamespacedName{Namespace: of, Name: "g"}}, placement.Result{MatcherCalled: true, Refusal: refused, BlockingTurns: []gang.Turn{at}})
			if got := r.pl.reservations.byTurn[at].timer.contested; got != want {
				t.Errorf("a group of namespace %s has the nodes contested: %t, want %t", of, got, want)
			}
		})
	}
}

// Small own pods that end one by one keep nodes from
// other namespaces no longer than no such pods would.
func TestOwnPodsThatEndOneByOneHoldUpNobodyElse(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.pl.args.MaxReserve.Duration = time.Hour
		for i := range 3 {
			r.node(fmt.Sprintf("n%d", i), 4)
		}
		r.pass(settleTime)
		r.schedule()
		r.pod("theirs", objects.CPU("3"), objects.Never, objects.Elsewhere, objects.OnNode("n0"))
		for i := range 3 {
			r.pod(fmt.Sprintf("mine-%d", i), objects.CPU("1m"), objects.Never, objects.OnNode(fmt.Sprintf("n%d", i)))
		}
		r.pass(time.Second)
		r.gang(3, 3, objects.CPU("4"))
		r.pass(11 * time.Minute)
		r.pod("other", objects.CPU("500m"), objects.Elsewhere)
		r.pass(time.Second)
		if r.runs("other") {
			t.Fatalf("a pod of another namespace passes at once: %s", r.message())
		}
		for i := range 2 {
			r.pass(40 * time.Minute)
			r.remove(fmt.Sprintf("mine-%d", i))
		}
		r.pass(time.Second)
		if !r.runs("other") {
			t.Errorf("the reservation does not pause: %s", r.message())
		}
	})
}

// A group that only pods of its own namespace keep from its reserved nodes keeps
// them from other namespaces for a sixteenth of the time: its author can end these pods.
// Pods of others that do not end make no difference.
func TestOwnPodsHoldUpOthersForAShortTime(t *testing.T) {
	for theirs, want := range map[corev1.RestartPolicy]time.Duration{"": 4 * time.Hour / ownStallDivisor, corev1.RestartPolicyAlways: 4 * time.Hour / ownStallDivisor, corev1.RestartPolicyNever: 4 * time.Hour} {
		inRig(t, realEngine(t), func(r *rig) {
			r.pl.args.MaxReserve.Duration = 4 * time.Hour
			for i := range 3 {
				r.node(fmt.Sprintf("n%d", i), 4)
			}
			r.pass(settleTime)
			r.schedule()
			r.pod("sleeper", objects.CPU("1"), objects.Never, objects.OnNode("n0"))
			if theirs != "" {
				r.pod("theirs", objects.CPU("500m"), objects.Elsewhere, objects.OnNode("n0"), func(p *corev1.Pod) { p.Spec.RestartPolicy = theirs })
			}
			r.pass(time.Second)
			r.gang(3, 3, objects.CPU("3500m"))
			r.pass(11 * time.Minute)
			r.pod("other", objects.CPU("500m"), objects.In("third"))
			r.pass(want - 2*time.Minute)
			if r.runs("other") {
				t.Fatalf("restart policy of the others' pod %q: a pod of another namespace passes too early", theirs)
			}
			r.pass(4 * time.Minute)
			if !r.runs("other") {
				t.Errorf("restart policy of the others' pod %q: the reservation does not pause after %v: %s", theirs, want, r.message())
			}
			why := ", because no pod ended on its reserved nodes for 4h"
			if want < 4*time.Hour {
				why = ", because only pods of its own namespace were left on its reserved nodes"
			}
			if got := r.message(); !strings.HasSuffix(got, why) {
				t.Errorf("restart policy of the others' pod %q: the group is told %q, want it to end %q", theirs, got, why)
			}
		})
	}
}

// Own pods that are about to end get a minute, however short maxReserve is.
func TestOwnPodsHaveAMinute(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	c := newStallTimer(now)
	c.contested = true
	c.change(maxBlockers(), blockers{0, 1}, 1)
	for after, want := range []bool{false, false, true} {
		if paused, _ := c.advance(true, blockers{0, 1}, 2*time.Minute, now.Add(time.Duration(after)*30*time.Second)); paused != want {
			t.Errorf("after %d half minutes it pauses: %t, want %t", after, paused, want)
		}
	}
}

// What a group waited for own pods is not charged to the time that the next one waits for others.
func TestOwnStallDoesNotCountForOthers(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	const most = 4 * time.Hour
	c := newStallTimer(now)
	c.contested = true
	pass := func(l blockers, d time.Duration) (paused bool) {
		for range int(d / time.Minute) {
			now = now.Add(time.Minute)
			p, _ := c.advance(true, l, most, now)
			paused = paused || p
		}
		return paused
	}
	c.change(maxBlockers(), blockers{0, 3}, 3)
	if pass(blockers{0, 3}, 14*time.Minute) {
		t.Fatal("it pauses before a sixteenth of the time")
	}
	c.endTenure(3, blockers{0, 3})
	c.change(maxBlockers(), blockers{2, 0}, 3)
	if pass(blockers{2, 0}, 3*time.Hour+45*time.Minute) {
		t.Error("the next group pauses early, for what the first waited for own pods")
	}
	if !pass(blockers{2, 0}, 2*time.Minute) || c.ownPause {
		t.Errorf("it does not pause after %v, or for own pods: %t", most, c.ownPause)
	}
}

// The next group of a turn has its own time once the group before has started on
// its nodes. That does not hold for the time in which the group before waited
// only for pods of its own namespace, and other namespaces wanted the nodes.
func TestNextGroupOfATurnGetsTheRefund(t *testing.T) {
	cases := map[string]struct {
		theirs, ends bool
		own          bool
		// most is maxReserve, wait the time that the first group waits, and
		// within the time in which the reservation of the next does not pause if it has its own time.
		most, wait, within time.Duration
	}{
		"beside pods of others that end":  {theirs: true, ends: true, own: true, most: time.Hour, wait: 50 * time.Minute, within: 14 * time.Minute},
		"beside pods of others that stay": {theirs: true, most: time.Hour, wait: 50 * time.Minute, within: 14 * time.Minute},
		"beside own pods":                 {most: 4 * time.Hour, wait: 12 * time.Minute, within: 4*time.Hour/ownStallDivisor + 5*time.Minute},
	}
	for name, tc := range cases {
		theirs, own := tc.theirs, tc.own
		inRig(t, realEngine(t), func(r *rig) {
			r.pl.args.MaxReserve.Duration, r.pl.args.MaxBypass.Duration = tc.most, time.Minute
			for i := range 2 {
				node := fmt.Sprintf("n%d", i)
				r.node(node, 4)
				r.pod(fmt.Sprintf("old-%d", i), objects.CPU("3"), objects.Never, objects.OnNode(node))
				if theirs {
					r.pod("theirs-"+node, objects.CPU("100m"), objects.Never, objects.Elsewhere, objects.OnNode(node))
				}
			}
			r.pass(settleTime)
			r.schedule()
			r.gang(2, 2, objects.CPU("3500m"))
			r.pass(2 * time.Minute)
			// This pod does not fit beside a member of the gang either: if it ran on
			// the next group's node, that group would wait for a pod of others.
			r.pod("other", objects.CPU("800m"), objects.Elsewhere)
			r.pod("next", objects.CPU("3500m"))
			r.pass(tc.wait)
			if tc.ends {
				r.removeFrom("elsewhere", "theirs-n0")
			}
			r.remove("old-0")
			r.remove("old-1")
			r.pass(5 * time.Second)
			at, next := gang.Turn{Namespace: ns}, types.NamespacedName{Namespace: ns, Name: "pod/next/next"}
			if got := r.pl.reservations.nodes(at, next); !r.runs("g-0") || len(got) != 1 {
				t.Fatalf("the first runs: %t; the next has %v reserved", r.runs("g-0"), got)
			}
			r.pass(tc.within)
			hasPaused := func() bool {
				r.pl.reservations.mu.Lock()
				defer r.pl.reservations.mu.Unlock()
				return r.pl.reservations.byTurn[at].timer.pause > 0
			}
			if hasPaused() == own {
				t.Errorf("%s: the reservation of the next has paused within %v: %t", name, tc.within, hasPaused())
			}
			r.pass(47 * time.Minute)
			if own && !hasPaused() {
				t.Errorf("%s: it does not pause after an hour", name)
			}
		})
	}
}

// Own pods that have outlasted a reservation are assumed to stay: nodes are not reserved
// again for a group that these pods leave too little room for, until they are gone.
func TestOwnPodsThatOutlastAReservationAreWaitedForOnce(t *testing.T) {
	deadline := func(d time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.ActiveDeadlineSeconds = new(int64(d / time.Second))
			p.Status.StartTime = &metav1.Time{Time: time.Now()}
		}
	}
	cases := map[string]struct {
		sleeps func(*corev1.Pod)
		again  bool // whether nodes are reserved again after the pause
	}{
		"without a deadline":                {objects.Never, false},
		"with one that is far":              {deadline(1000 * time.Hour), false},
		"with one that is nearer than that": {deadline(2 * time.Hour), true},
		"of another namespace":              {objects.Elsewhere, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.pl.args.MaxReserve.Duration = time.Hour
				for i := range 2 {
					r.node(fmt.Sprintf("n%d", i), 4)
				}
				r.pass(settleTime)
				r.schedule()
				for i := range 2 {
					r.pod(fmt.Sprintf("sleeps-%d", i), objects.CPU("1m"), objects.Never, objects.OnNode(fmt.Sprintf("n%d", i)), tc.sleeps)
				}
				r.pass(time.Second)
				r.gang(2, 2, objects.CPU("4"))
				r.pass(11 * time.Minute)
				if _, n := r.reserved(); n != 2 {
					t.Fatalf("%d nodes are reserved at first: %s", n, r.message())
				}
				r.pass(time.Hour)
				if _, paused := r.pl.reservations.pause(gang.Turn{Namespace: ns}); !paused {
					t.Fatalf("it does not pause: %s", r.message())
				}
				r.pass(20 * time.Minute)
				if _, n := r.reserved(); (n > 0) != tc.again {
					t.Errorf("%d nodes are reserved after the pause: %s", n, r.message())
				}
				const told = "; no nodes are reserved for it: pods of its namespace that outlasted a reservation are on 2 nodes that it could use (ns/sleeps-0, ns/sleeps-1)"
				if got := r.message(); strings.HasSuffix(got, told) == tc.again {
					t.Errorf("it is told %q", got)
				}
				if got := r.pl.freeFor(gang.Turn{Namespace: ns})([]string{"n0", "n1"}); got == tc.again {
					t.Errorf("the nodes count as free: %t", got)
				}
				if tc.again {
					return
				}
				r.remove("sleeps-0")
				r.remove("sleeps-1")
				r.pass(time.Second)
				if !r.runs("g-0") || !r.runs("g-1") {
					t.Errorf("it does not start when they are gone: %s", r.message())
				}
			})
		})
	}
}

// Without fewer blockers than ever before, the pauses become longer, up
// to four times maxReserve, whatever comes in a pause and ends after it.
func TestPausesDoubleWithoutProgress(t *testing.T) {
	const most = time.Hour
	starts := func(runs, others int) func(*stallTimer) {
		return func(c *stallTimer) { c.endTenure(runs, blockers{foreign: others}) }
	}
	cases := map[string]struct {
		contested bool
		// loads are the blockers at the start of each time
		// that nodes are reserved, and half an hour later.
		loads [][2]blockers
		// begins is run at the start of the third time.
		begins func(*stallTimer)
		want   string
	}{
		"nothing ends": {
			loads: [][2]blockers{{{2, 0}, {2, 0}}},
			want:  "[15m0s 30m0s 1h0m0s 2h0m0s 4h0m0s 4h0m0s]",
		},
		"what came in the pause ends": {
			loads: [][2]blockers{{{2, 0}, {2, 0}}, {{9, 0}, {2, 0}}},
			want:  "[15m0s 30m0s 1h0m0s 2h0m0s 4h0m0s 4h0m0s]",
		},
		"one more ends than ever before": {
			loads: [][2]blockers{{{2, 0}, {2, 0}}, {{2, 0}, {2, 0}}, {{2, 0}, {1, 0}}, {{1, 0}, {1, 0}}},
			want:  "[15m0s 30m0s 15m0s 30m0s 1h0m0s 2h0m0s]",
		},
		"fewer are on other nodes": {
			loads: [][2]blockers{{{2, 0}, {2, 0}}, {{2, 0}, {2, 0}}, {{1, 0}, {1, 0}}, {{1, 0}, {1, 0}}},
			want:  "[15m0s 30m0s 1h0m0s 2h0m0s 4h0m0s 4h0m0s]",
		},
		"an own pod ends, and others want the nodes": {
			contested: true,
			loads:     [][2]blockers{{{0, 9}, {0, 9}}, {{0, 9}, {0, 8}}, {{0, 8}, {0, 7}}, {{0, 7}, {0, 6}}},
			want:      "[1m0s 2m0s 4m0s 8m0s 16m0s 32m0s]",
		},
		"its group starts": {
			loads:  [][2]blockers{{{2, 0}, {2, 0}}},
			begins: starts(10, 2),
			want:   "[15m0s 30m0s 15m0s 30m0s 1h0m0s 2h0m0s]",
		},
		"its group starts on some of the nodes": {
			loads:  [][2]blockers{{{2, 0}, {2, 0}}},
			begins: starts(5, 2),
			want:   "[15m0s 30m0s 1h0m0s 2h0m0s 4h0m0s 4h0m0s]",
		},
		"its group starts where what came in the pause was for a moment, and then own pods": {
			contested: true,
			loads:     [][2]blockers{{{0, 2}, {0, 2}}, {{2, 2}, {0, 2}}},
			begins:    starts(10, 0),
			want:      "[1m0s 2m0s 8m15s 16m30s 33m0s 1h6m0s]",
		},
		"its group starts beside pods of others that stay, and others want the nodes": {
			contested: true,
			loads:     [][2]blockers{{{2, 2}, {2, 2}}},
			begins:    starts(10, 2),
			want:      "[15m0s 30m0s 1h0m0s 2h0m0s 4h0m0s 4h0m0s]",
		},
		"its group starts beside pods of others as one ends, and others want the nodes": {
			contested: true,
			loads:     [][2]blockers{{{2, 2}, {2, 2}}},
			begins:    starts(10, 1),
			want:      "[15m0s 30m0s 15m0s 30m0s 1h0m0s 2h0m0s]",
		},
		"its group starts where own pods were, and others want the nodes": {
			contested: true,
			loads:     [][2]blockers{{{0, 2}, {0, 2}}},
			begins:    starts(10, 0),
			want:      "[1m0s 2m0s 4m0s 8m0s 16m0s 32m0s]",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
			c := newStallTimer(now)
			c.contested = tc.contested
			var pauses []time.Duration
			for n := range 6 {
				loads := tc.loads[min(n, len(tc.loads)-1)]
				if n == 2 && tc.begins != nil {
					tc.begins(&c)
				}
				c.change(maxBlockers(), loads[0], 10)
				for began := now; ; {
					l := loads[0]
					if now.Sub(began) >= most/2 {
						l = loads[1]
					}
					if paused, _ := c.advance(true, l, most, now); paused {
						break
					}
					now = now.Add(time.Minute)
				}
				pauses = append(pauses, c.pausedUntil.Sub(now))
				now = c.pausedUntil
				if _, again := c.advance(false, blockers{}, most, now); !again {
					t.Fatal("nodes are not reserved again after the pause")
				}
			}
			if got := fmt.Sprint(pauses); got != tc.want {
				t.Errorf("pauses are %s, want %s", got, tc.want)
			}
		})
	}
}

// A start on one node subtracts only its share of the nodes that the turn has had.
func TestStartOnFewNodesRefundsItsShare(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	c := newStallTimer(now)
	c.change(maxBlockers(), blockers{foreign: 100}, 100)
	c.advance(true, blockers{foreign: 100}, time.Hour, now)
	now = now.Add(50 * time.Minute)
	c.advance(true, blockers{foreign: 100}, time.Hour, now)
	c.endTenure(1, blockers{foreign: 100})
	c.change(maxBlockers(), blockers{foreign: 100}, 100)
	now = now.Add(11 * time.Minute)
	if paused, _ := c.advance(true, blockers{foreign: 100}, time.Hour, now); !paused {
		t.Error("it does not pause after an hour, for one of a hundred nodes that was given to a group")
	}
}

// The timer of a turn without a group outlasts the longest pause.
func TestTimerOutlastsItsPause(t *testing.T) {
	const most = 4 * time.Hour
	var a reservations
	at, now := gang.Turn{Namespace: ns}, time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	runs := func(types.NamespacedName) []string { return nil }
	a.giveTurn(at, g, fixedOccupancy{}, runs, now)
	a.endExcept(nil, fixedOccupancy{}, runs, most, now)
	a.endExcept(nil, fixedOccupancy{}, runs, most, now.Add(16*time.Hour))
	if a.byTurn[at] == nil {
		t.Error("it is forgotten after 16 hours")
	}
	a.giveTurn(at, g, fixedOccupancy{}, runs, now)
	a.endExcept(nil, fixedOccupancy{}, runs, most, now)
	a.endExcept(nil, fixedOccupancy{}, runs, most, now.Add(17*time.Hour))
	if a.byTurn[at] != nil {
		t.Error("it is not forgotten after 17 hours")
	}
}

// Own pods that have outlasted a reservation are remembered until they are gone.
func TestOutlastedPodsAreRememberedUntilTheyAreGone(t *testing.T) {
	const most = 4 * time.Hour
	var a reservations
	at, now := gang.Turn{Namespace: ns}, time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	runs := func(types.NamespacedName) []string { return nil }
	a.giveTurn(at, g, fixedOccupancy{}, runs, now)
	a.byTurn[at].outlasted = sets.New[types.UID]("sleeps")
	for range 3 {
		a.endExcept(nil, occupancyWithLastingPods{}, runs, most, now)
		now = now.Add(17 * time.Hour)
	}
	if !a.hasOutlasted(ns, "sleeps") {
		t.Error("it is forgotten though the pod is there")
	}
	a.endExcept(nil, fixedOccupancy{}, runs, most, now)
	if a.byTurn[at] != nil {
		t.Error("it is not forgotten though the pod is gone")
	}
}

// occupancyWithLastingPods is an occupancy in which the pods of before still exist.
type occupancyWithLastingPods struct{ fixedOccupancy }

func (occupancyWithLastingPods) podsOf(_ []string, _ string, before sets.Set[types.UID]) sets.Set[types.UID] {
	return before
}

// slow is a matcher that takes a while for each match that books nothing.
type slow struct {
	match.Engine
	takes atomic.Int64 // nanoseconds; a test changes it while other goroutines match
}

func slowed(e match.Engine, takes time.Duration) *slow {
	s := &slow{Engine: e}
	s.takes.Store(int64(takes))
	return s
}

func (s *slow) Match(ctx context.Context, r match.Request) (*match.Allocation, error) {
	if r.Op == match.WithoutAllocating {
		select {
		case <-time.After(time.Duration(s.takes.Load())):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s.Engine.Match(ctx, r)
}

// reservationSearches returns the number of matches of searches for nodes to reserve.
func (r *rig) reservationSearches() int {
	n := 0
	for _, m := range r.matches() {
		if m.Op == match.WithoutAllocating && len(m.Ignore) > 0 {
			n++
		}
	}
	return n
}

// Anyone can create and delete pods that seem to run on every node, or that are always restarted.
// A group that yields does not search each time, because its namespace is charged for that.
func TestShortLivedPodsDoNotHastenSearches(t *testing.T) {
	daemon := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "x/v1", Kind: "DaemonSet", Name: "x", UID: "x", Controller: new(true)}}
	}
	foreign := func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }
	cases := map[string]struct {
		edit func(*corev1.Pod)
		most int
	}{
		"as on every node": {edit: daemon, most: 6},
		"as a service":     {edit: func(*corev1.Pod) {}, most: 10},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.pod("way", objects.CPU("100m"), foreign, objects.Always, objects.OnNode("n1"))
				r.node("elsewhere", 1)
				r.filled(2, 2)
				r.pass(15 * time.Minute)
				before := r.reservationSearches()
				for i := range 300 {
					name := fmt.Sprint("churn-", i)
					r.pod(name, objects.CPU("1m"), foreign, objects.Always, objects.Elsewhere, tc.edit, objects.CreatedOn("elsewhere"))
					r.pass(500 * time.Millisecond)
					r.removeFrom("elsewhere", name)
					r.pass(500 * time.Millisecond)
				}
				if n := r.reservationSearches() - before; n == 0 || n > tc.most {
					t.Errorf("it looked %d times in 5 minutes, want at most %d", n, tc.most)
				}
			})
		})
	}
}

// Frequent attempts of a group do not make searches as frequent.
func TestSearchesAreRateLimited(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.filled(2, 2)
		r.pass(11 * time.Minute)
		r.pl.observeEvent(gang.Released)
		r.pass(time.Second)
		before, asked := r.reservationSearches(), len(r.matches())
		for range 4 {
			r.pl.observeEvent(gang.Released)
			r.pass(time.Second)
		}
		if looks, asks := r.reservationSearches()-before, len(r.matches())-asked; looks != 0 || asks < 3 {
			t.Errorf("%d matches for nodes in %d asks within %s, want none", looks, asks, searchEvery)
		}
		if got := r.message(); !strings.HasSuffix(got, "; 2 nodes are reserved for it") {
			t.Errorf("it is told %q", got)
		}
		r.pass(searchEvery)
		if r.reservationSearches() == before {
			t.Error("nodes are not looked for later")
		}
	})
}

// A search for nodes that exceeds its limit continues the next time.
func TestASearchForNodesThatIsCutShortGoesOn(t *testing.T) {
	inRig(t, slowed(realEngine(t), 200*time.Millisecond), func(r *rig) {
		r.filled(4, 2)
		for i := range 2 {
			r.pod(fmt.Sprintf("more-%d", i), objects.CPU("500m"), objects.Never, objects.OnNode(fmt.Sprintf("n%d", i)))
		}
		r.pass(10*time.Minute + 2*time.Second)
		if _, n := r.reserved(); n != 2 || r.reservationSearches() > 2 {
			t.Errorf("%d nodes are reserved after %d matches, want two after the first look: %s", n, r.reservationSearches(), r.message())
		}
		r.pass(time.Minute)
		if got := fmt.Sprint(r.pl.reservations.nodes(gang.Turn{Namespace: ns}, g)); got != "[n2 n3]" {
			t.Errorf("reserved are %s, want the nodes with one pod each: %s", got, r.message())
		}
	})
}

// A search for nodes that is cut short decides nothing about the group: the
// group goes on waiting for room, and searches again. Each search takes at most
// its budget of the scheduling loop, and the namespace is charged for that.
func TestUnfinishedSearchKeepsWaitingTime(t *testing.T) {
	for name, takes := range map[string]time.Duration{
		"by a match that takes longer": 300 * time.Millisecond,
		"by a matcher that hangs":      time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			matcher := slowed(realEngine(t), takes)
			inRig(t, matcher, func(r *rig) {
				r.filled(2, 2)
				r.pass(10*time.Minute - time.Second)
				began, owed := r.pl.now(), time.Duration(0)
				for range 60 {
					r.pl.observeEvent(gang.Released)
					r.pass(time.Second)
					owes := strings.HasPrefix(r.message(), "groups of namespace ns took ")
					if got := r.message(); r.reservationSearches() > 0 && !owes && !strings.HasSuffix(got, "; the search for nodes to reserve for it ran out of time, and is continued") {
						t.Fatalf("it is told %q", got)
					}
					r.pl.debts.mu.Lock()
					if d := r.pl.debts.byNamespace[ns]; d != nil {
						owed = max(owed, d.owed)
					}
					r.pl.debts.mu.Unlock()
				}
				looks := r.reservationSearches()
				if most := int(r.pl.now().Sub(began)/searchEvery) + 1; looks < 4 || looks > most {
					t.Errorf("%d matches for nodes in a minute, want 4 to %d", looks, most)
				}
				if owed < 200*time.Millisecond || owed > r.pl.args.MaxAsk.Duration {
					t.Errorf("its namespace owes %s at the most, want what a look takes", owed)
				}
				matcher.takes.Store(0)
				r.pass(time.Minute)
				if _, n := r.reserved(); n != 2 {
					t.Errorf("%d nodes are reserved when the matcher is quick: %s", n, r.message())
				}
				matcher.takes.Store(int64(takes))
				for range 6 {
					r.pl.observeEvent(gang.Released)
					r.pass(searchEvery)
				}
				if _, n := r.reserved(); n != 2 {
					t.Errorf("%d nodes are reserved once looks are cut short again: %s", n, r.message())
				}
			})
		})
	}
}

// The first search of a turn counts as one: the next one comes a while later.
func TestFirstSearchCountsForSearchEvery(t *testing.T) {
	var a reservations
	at, now := gang.Turn{Namespace: ns}, time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	if _, due, _ := a.maySearch(at, g, now); !due {
		t.Fatal("nodes are not looked for at first")
	}
	a.endSearch(at, g, nil, false, now)
	if _, due, known := a.maySearch(at, g, now.Add(time.Second)); due || known {
		t.Errorf("after a second nodes are looked for: %t; the answer is known: %t", due, known)
	}
	if _, due, _ := a.maySearch(at, g, now.Add(searchEvery)); !due {
		t.Error("nodes are not looked for again")
	}
}

func port(n int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: n, HostPort: n, Protocol: corev1.ProtocolTCP}}
	}
}

// selecting returns an edit: the pod selects one node by name.
func selecting(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node} }
}

// A group with a recreated pod waits anew, and has nodes reserved when its time has come.
func TestGroupThatRegainsItsTurnIsActivated(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.filled(2, 2)
		r.pass(11 * time.Minute)
		if _, n := r.reserved(); n != 2 {
			t.Fatalf("%d nodes are reserved at first", n)
		}
		r.remove("g-1")
		r.pass(time.Second)
		r.pod("g-9", objects.InGroup(g.Name), objects.CPU("4"))
		r.pl.observeEvent(gang.Released)
		r.pass(11 * time.Minute)
		if _, n := r.reserved(); n != 2 {
			t.Errorf("%d nodes are reserved: %s", n, r.message())
		}
	})
}
