package fluence

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/test/objects"
)

// largeGroupWaits creates two nodes with a pod of one core each, and a
// group that needs both nodes completely and so has to wait.
func (r *rig) largeGroupWaits() (big []*corev1.Pod) {
	r.Helper()
	r.node("n1", 4)
	r.node("n2", 4)
	r.pass(settleTime)
	r.schedule()
	for _, name := range []string{"old-1", "old-2"} {
		r.pod(name, objects.CPU("3"))
	}
	r.pass(time.Second)
	big = r.gang(2, 2, objects.CPU("4"))
	r.pass(time.Second)
	return big
}

// swap ends a pod and creates another one in its place.
func (r *rig) swap(ends, comes string, edit ...func(*corev1.Pod)) {
	r.Helper()
	r.pod(comes, edit...)
	r.pass(time.Second)
	r.remove(ends)
	r.pass(5 * time.Second)
}

func (r *rig) runs(name string) bool { return r.assigned()[name] != "" }

// message returns the message of the first condition of group g.
func (r *rig) message() string {
	r.Helper()
	pg := r.podGroupAPI.get(g)
	if pg == nil || len(pg.Status.Conditions) == 0 {
		return ""
	}
	return pg.Status.Conditions[0].Message
}

// TestSmallGroupsBypassALargeOneUntilMaxBypass: without maxBypass, a stream of small pods that
// overlap would keep a large group waiting forever (Flow 17 of the lessons of earlier systems).
func TestSmallGroupsBypassALargeOneUntilMaxBypass(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.largeGroupWaits()
		running, passed := [2]string{"old-1", "old-2"}, 0
		for i := 0; !r.runs("g-0") && i < 40; i++ {
			next := fmt.Sprintf("small-%d", i)
			r.swap(running[0], next, objects.CPU("3"))
			if r.runs(next) {
				running, passed = [2]string{running[1], next}, passed+1
			} else {
				running = [2]string{running[1], next}
			}
			r.pass(time.Minute)
		}
		if !r.runs("g-0") || !r.runs("g-1") {
			t.Fatalf("the large group does not start while small ones pass; on nodes: %v", r.assigned())
		}
		if passed < 8 || passed > 12 {
			t.Errorf("%d small ones passed, want about one for each of 10 minutes", passed)
		}
		// The pods that had to wait for the group come next.
		r.remove("g-0")
		r.remove("g-1")
		r.pass(5 * time.Second)
		if !r.runs("small-" + fmt.Sprint(passed)) {
			t.Errorf("what had waited for the large group does not start after it: %v", r.assigned())
		}
	})
}

// Old PodGroups that get new pods one after the other
// overtake a large group no longer than others do.
func TestReusedPodGroupsBypassNoLongerThanOthers(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		const old = 4
		for i := range old {
			r.podGroupAPI.put(aPodGroup(fmt.Sprint("s-", i), 1, objects.Pod(fmt.Sprint("pg-", i)).UID))
		}
		r.pass(time.Second)
		r.largeGroupWaits()
		running, passed := [2]string{"old-1", "old-2"}, 0
		for i := 0; !r.runs("g-0") && i < 40; i++ {
			next := fmt.Sprintf("small-%d", i)
			r.swap(running[0], next, objects.CPU("3"), objects.InGroup(fmt.Sprint("s-", i%old)))
			if r.runs(next) {
				passed++
			}
			running = [2]string{running[1], next}
			r.pass(time.Minute)
		}
		if !r.runs("g-0") || passed > 12 {
			t.Errorf("the large group runs: %t; %d small ones passed it, want about one for each of 10 minutes", r.runs("g-0"), passed)
		}
	})
}

func TestReservedNodesAreNamedToBlockedGroups(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.largeGroupWaits()
		r.pass(9 * time.Minute)
		r.pod("early")
		r.pass(time.Second)
		if !r.runs("early") {
			t.Errorf("a small pod did not pass before its time was up")
		}
		r.pass(time.Minute)
		late := r.pod("late")
		r.pass(time.Second)
		if r.runs("late") {
			t.Fatalf("a small pod passed after 10 minutes: %v", r.assigned())
		}
		if got, want := r.preEnqueueMessage(late), "2 nodes are reserved for ns/g, which has waited 10m"; !strings.Contains(got, want) {
			t.Errorf("it was told %q, want %q in it", got, want)
		}
		r.node("n3", 1)
		r.pass(2 * time.Second)
		if got := r.assigned()["late"]; got != "n3" {
			t.Errorf("it went to %q, want the node that is too small for those that wait", got)
		}
	})
}

// A scheduler that takes over knows from the PodGroup how long a group
// has waited, unless the last reason that was reported ends the wait.
func TestWaitingTimeIsRestoredAfterRestart(t *testing.T) {
	for is, goesOn := range map[string]bool{
		reason.NoRoom: true, reason.MatcherUnavailable: true, reason.Throttled: true, reason.TooHard: true, reason.NodeRefused: true,
		reason.NeverFits: true, reason.Gathering: false,
	} {
		t.Run(is, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.node("n1", 4)
				r.pod("old", objects.CPU("3"), objects.OnNode("n1"))
				r.pass(settleTime)
				pg := aPodGroup("g", 2, "pg")
				pg.Status.Conditions = []metav1.Condition{{
					Type: report.ConditionScheduled, Status: metav1.ConditionFalse, Reason: is, Message: "no",
					LastTransitionTime: metav1.NewTime(time.Now().Add(-10 * time.Minute)),
				}}
				r.podGroupAPI.put(pg)
				for _, name := range []string{"g-0", "g-1"} {
					r.pod(name, objects.InGroup("g"), objects.CPU("2"))
				}
				r.schedule()
				r.pass(time.Second)
				late := r.pod("late")
				r.pass(time.Second)
				const want = "1 node is reserved for ns/g, which has waited 10m"
				if got := r.preEnqueueMessage(late); strings.Contains(got, want) != goesOn {
					t.Errorf("a small pod was told %q, want %q in it: %t", got, want, goesOn)
				}
			})
		})
	}
}

func TestNodesAreReservedOnlyWhereThatIsOfUse(t *testing.T) {
	daemon := func(p *corev1.Pod) {
		p.Spec.SchedulerName = "default-scheduler"
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d", Controller: new(true)}}
	}
	cases := map[string]struct {
		node  func(r *rig)
		edit  func(*corev1.Pod)
		place string // of the small pod; empty is nowhere
	}{
		"it would fit there if others ended": {
			node: func(r *rig) { r.node("n3", 4); r.pod("foreign", objects.OnNode("n3"), objects.CPU("3")) },
		},
		"the node is too small": {
			node: func(r *rig) { r.node("n3", 3) }, place: "n3",
		},
		"the node is too small beside a DaemonSet's pod": {
			node: func(r *rig) { r.pod("d", objects.OnNode("n3"), objects.CPU("100m"), daemon); r.node("n3", 4) }, place: "n3",
		},
		"its node selector rules the node out": {
			node: func(r *rig) { r.node("n3", 8, func(n *corev1.Node) { n.Labels["kind"] = "other" }) },
			edit: func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"kind": "big"} }, place: "n3",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				big := func(n *corev1.Node) { n.Labels["kind"] = "big" }
				r.node("n1", 4, big)
				r.node("n2", 4, big)
				tc.node(r)
				r.pass(settleTime)
				r.pl.args.MaxBypass.Duration = time.Minute
				r.schedule()
				// They leave room for one core.
				r.pod("old-1", objects.CPU("3"), objects.OnNode("n1"))
				r.pod("old-2", objects.CPU("3"), objects.OnNode("n2"))
				r.pass(time.Second)
				edit := func(p *corev1.Pod) {
					if tc.edit != nil {
						tc.edit(p)
					}
				}
				r.gang(3, 3, objects.CPU("4"), edit)
				if tc.place != "" {
					// Without the third node it could never fit.
					r.node("n4", 4, big, func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
					r.pod("old-4", objects.CPU("3"), objects.OnNode("n4"))
				}
				r.pass(2 * time.Minute)
				r.pod("small")
				r.pass(2 * time.Second)
				if got := r.assigned()["small"]; got != tc.place {
					t.Errorf("the small pod is on %q, want %q; the large group: %s", got, tc.place, r.message())
				}
			})
		})
	}
}

func TestWhichGroupsMustLeaveReservedNodesFree(t *testing.T) {
	cases := map[string]struct {
		maxBypass time.Duration
		wait      time.Duration
		edit      func(*corev1.Pod)
		starts    bool
	}{
		"one of the same priority that comes later": {maxBypass: time.Minute, wait: time.Minute},
		"one of a lower priority":                   {maxBypass: time.Minute, wait: time.Minute, edit: withPriority(-1)},
		"not one of a higher priority":              {maxBypass: time.Minute, wait: time.Minute, edit: withPriority(1), starts: true},
		"nobody before the time":                    {maxBypass: time.Minute, wait: 30 * time.Second, starts: true},
		"everybody at once, where nobody may pass":  {maxBypass: 0, wait: 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.pl.args.MaxBypass.Duration = tc.maxBypass
				r.largeGroupWaits()
				r.pass(tc.wait)
				var edit []func(*corev1.Pod)
				if tc.edit != nil {
					edit = append(edit, tc.edit)
				}
				r.pod("small", edit...)
				r.pass(2 * time.Second)
				if r.runs("small") != tc.starts {
					t.Errorf("the small pod runs: %v, want %v", !tc.starts, tc.starts)
				}
			})
		})
	}
}

// TestReservationEndsWithItsGroup: no group waits
// for nodes that are reserved for a group that is gone.
func TestReservationEndsWithItsGroup(t *testing.T) {
	cases := map[string]func(r *rig, big []*corev1.Pod){
		"it is deleted":  func(r *rig, big []*corev1.Pod) { r.remove("g-0"); r.remove("g-1") },
		"it lacks a pod": func(r *rig, big []*corev1.Pod) { r.remove("g-1") },
		"it never fits": func(r *rig, big []*corev1.Pod) {
			r.must(r.client.CoreV1().Nodes().Delete(r.ctx, "n2", metav1.DeleteOptions{}))
		},
		"it starts, with a pod that cannot follow": func(r *rig, big []*corev1.Pod) {
			r.pod("g-2", objects.InGroup(g.Name), objects.CPU("4"))
			r.node("n3", 4)
			r.node("n4", 4)
		},
		"it asks for more": func(r *rig, big []*corev1.Pod) { r.podGroupAPI.put(aPodGroup(g.Name, 3, "pg")) },
	}
	for name, goes := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				big := r.largeGroupWaits()
				r.pass(11 * time.Minute)
				r.pod("small")
				r.pass(time.Minute)
				if r.runs("small") {
					t.Fatal("the small pod passed")
				}
				goes(r, big)
				r.pass(5 * time.Second)
				if !r.runs("small") {
					t.Errorf("the small pod still waits: %s", r.preEnqueueMessage(objects.Pod("small")))
				}
			})
		})
	}
}

// TestReplacementsNeedNotWaitForReservations: running members may need a replacement
// before they end, and the group that waits for the nodes would wait for
// them too. A pod that replaces no lost member waits like a new group.
func TestReplacementsNeedNotWaitForReservations(t *testing.T) {
	lost := func(r *rig) { r.remove("first-1") }
	cases := map[string]struct {
		minMember int32
		goes      func(*rig)
		comes     []func(*corev1.Pod)
		runs      bool
	}{
		"a member that the group lacks":         {minMember: 2, goes: lost, runs: true},
		"a smaller one":                         {minMember: 2, goes: lost, comes: []func(*corev1.Pod){objects.CPU("500m")}, runs: true},
		"a larger one":                          {minMember: 2, goes: lost, comes: []func(*corev1.Pod){objects.CPU("1001m")}},
		"one of a higher priority":              {minMember: 2, goes: lost, comes: []func(*corev1.Pod){withPriority(0)}},
		"one after a member that has succeeded": {minMember: 2, goes: func(r *rig) { r.end("first-1") }},
		"a member beyond what it started with":  {minMember: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				after := withPriority(-1)
				r.podGroupAPI.put(aPodGroup("first", tc.minMember, "first"))
				r.node("n1", 4)
				r.schedule()
				r.pod("first-0", objects.InGroup("first"), after)
				if tc.minMember == 2 {
					r.pod("first-1", objects.InGroup("first"), after)
				}
				r.pass(time.Second)
				r.gang(2, 2, objects.CPU("2"))
				r.pass(11 * time.Minute)
				r.pod("small")
				if tc.goes != nil {
					tc.goes(r)
				}
				r.pod("first-2", append([]func(*corev1.Pod){objects.InGroup("first"), after}, tc.comes...)...)
				r.pass(time.Second)
				r.pod("first-3", append([]func(*corev1.Pod){objects.InGroup("first"), after}, tc.comes...)...)
				r.pass(5 * time.Second)
				if r.runs("first-2") != tc.runs {
					t.Errorf("a member that comes later runs: %t; on nodes: %v", r.runs("first-2"), r.assigned())
				}
				if r.runs("first-3") {
					t.Error("a member beyond the minimum passed")
				}
				if r.runs("small") {
					t.Error("a small pod passed")
				}
			})
		})
	}
}

// A pod that replaces a member whose node still exists goes back to that node, or
// waits for the groups before it. Otherwise its author could move one member after
// the other to reserved nodes, and start other groups in the room that they leave.
func TestAMemberIsNotMovedToReservedNodes(t *testing.T) {
	taint := func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "kept", Effect: corev1.TaintEffectNoSchedule})
	}
	tolerates := func(p *corev1.Pod) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "kept", Operator: corev1.TolerationOpExists})
	}
	const device corev1.ResourceName = "example.com/device"
	devices := func(n *corev1.Node) {
		n.Status.Capacity[device], n.Status.Allocatable[device] = resource.MustParse("2"), resource.MustParse("2")
	}
	asksOne := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[device] = resource.MustParse("1")
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{device: resource.MustParse("1")}
	}
	asksNone := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[device] = resource.MustParse("0")
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{device: resource.MustParse("0")}
	}
	taken := func(r *rig) { r.pod("taken", objects.CPU("2"), objects.Elsewhere, objects.OnNode("n2")) }
	cases := map[string]struct {
		// both edits both nodes, and node edits n2, on which the members are. was edits the old
		// members, and comes edits the new one. goes is called when the old member has left n2.
		both, node func(*corev1.Node)
		was, comes func(*corev1.Pod)
		most       time.Duration
		goes       func(*rig)
		runs       string
	}{
		"others have taken what it left": {goes: taken},
		"and no reservation pauses":      {goes: taken, most: -1, runs: "n1"},
		"there is room where it was":     {runs: "n2"},
		"its node is cordoned":           {goes: func(r *rig) { r.updateNode("n2", func(n *corev1.Node) { n.Spec.Unschedulable = true }) }, runs: "n1"},
		"its node is gone":               {goes: func(r *rig) { r.must(r.client.CoreV1().Nodes().Delete(r.ctx, "n2", metav1.DeleteOptions{})) }, runs: "n1"},
		"a device has failed on its node": {both: devices, was: asksOne, comes: asksOne, goes: func(r *rig) {
			r.updateNode("n2", func(n *corev1.Node) { n.Status.Allocatable[device] = resource.MustParse("1") })
		}, runs: "n1"},
		"one that asks for none of the devices": {both: devices, was: asksOne, comes: asksNone, goes: func(r *rig) {
			r.updateNode("n2", func(n *corev1.Node) { n.Status.Allocatable[device] = resource.MustParse("1") })
			taken(r)
		}},
		"the devices of its node are not served": {both: devices, was: asksOne, comes: asksOne, goes: func(r *rig) {
			r.updateNode("n2", func(n *corev1.Node) {
				n.Status.Capacity[device], n.Status.Allocatable[device] = resource.MustParse("0"), resource.MustParse("0")
			})
		}, runs: "n1"},
		"the new one tolerates less than it did":      {node: taint, was: tolerates},
		"its node has a taint that neither tolerates": {goes: func(r *rig) { r.updateNode("n2", taint) }, runs: "n1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				if tc.most < 0 {
					r.pl.args.MaxReserve.Duration = 0
				}
				is := func(edits ...func(*corev1.Node)) func(*corev1.Node) {
					return func(n *corev1.Node) {
						for _, edit := range edits {
							if edit != nil {
								edit(n)
							}
						}
					}
				}
				r.node("n1", 4, is(tc.both))
				r.node("n2", 4, is(tc.both, tc.node))
				r.pass(settleTime)
				r.schedule()
				r.pod("old", objects.CPU("3"), objects.Never, objects.Elsewhere, objects.OnNode("n1"))
				r.pass(time.Second)
				r.podGroupAPI.put(aPodGroup("first", 2, "first"))
				for i := range 2 {
					like := []func(*corev1.Pod){objects.InGroup("first"), objects.CPU("2"), selecting("n2")}
					if tc.was != nil {
						like = append(like, tc.was)
					}
					r.pod(fmt.Sprintf("first-%d", i), like...)
				}
				r.pass(time.Second)
				r.gang(1, 1, objects.CPU("4"))
				r.pass(11 * time.Minute)
				if got := r.pl.reservations.nodes(gang.Turn{Namespace: ns}, g); fmt.Sprint(got) != "[n1]" {
					t.Fatalf("reserved are %v, want n1: %s", got, r.message())
				}
				r.remove("first-1")
				if tc.goes != nil {
					tc.goes(r)
				}
				r.pass(time.Second)
				like := []func(*corev1.Pod){objects.InGroup("first"), objects.CPU("1")}
				if tc.comes != nil {
					like = append(like, tc.comes)
				}
				r.pod("first-2", like...)
				r.pass(10 * time.Second)
				if got := r.assigned()["first-2"]; got != tc.runs {
					t.Errorf("the new member runs on %q, want %q", got, tc.runs)
				}
			})
		})
	}
}

// If several lost members are replaced together, each
// replacement goes back to the node of its member.
func TestReplacementsReturnToTheirOwnNodes(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		for i := range 3 {
			r.node(fmt.Sprintf("n%d", i+1), 4)
		}
		r.pass(settleTime)
		r.schedule()
		r.pod("old", objects.CPU("2"), objects.Never, objects.Elsewhere, objects.OnNode("n1"))
		r.pod("fill", objects.CPU("3"), objects.Never, objects.Elsewhere, objects.OnNode("n3"))
		r.pass(time.Second)
		r.podGroupAPI.put(aPodGroup("first", 3, "first"))
		r.pod("first-0", objects.InGroup("first"), objects.CPU("3"), selecting("n2"))
		r.pod("first-1", objects.InGroup("first"), objects.CPU("1"), selecting("n2"))
		r.pod("first-2", objects.InGroup("first"), objects.CPU("1"), selecting("n3"))
		r.pass(time.Second)
		r.gang(1, 1, objects.CPU("4"), selecting("n1"))
		r.pass(11 * time.Minute)
		r.updateNode("n3", func(n *corev1.Node) { n.Spec.Unschedulable = true })
		r.remove("first-2")
		r.remove("first-1")
		r.pod("taken", objects.CPU("1"), objects.Elsewhere, objects.OnNode("n2"))
		r.pass(time.Second)
		for _, name := range []string{"first-3", "first-4"} {
			r.must(r.client.Tracker().Add(objects.Pod(name, objects.InGroup("first"), objects.CPU("1"))))
		}
		r.pass(10 * time.Second)
		if got := r.assigned(); got["first-3"] == "n1" && got["first-4"] == "n1" || got["first-3"]+got["first-4"] == "" {
			t.Errorf("on nodes: %v, want the one whose node is lost on n1, and that alone", got)
		}
	})
}

// A pod that is created early and becomes ready late counts as new from then on. Otherwise
// a namespace could keep such pods and let one after the other overtake a waiting group.
func TestLateReadyPodsDoNotBypass(t *testing.T) {
	inSmall := objects.InGroup("small")
	cases := map[string]struct {
		early, late func(*rig)
		pod         string
		runs        bool
	}{
		"a pod whose scheduling gate goes": {
			early: func(r *rig) {
				r.pod("early", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "later"}} })
			},
			late: func(r *rig) {
				r.update("early", func(p *corev1.Pod) { p.Spec.SchedulingGates, p.Generation, p.ResourceVersion = nil, 2, "2" })
			},
			pod: "early",
		},
		"a group that lacked a pod": {
			early: func(r *rig) {
				r.podGroupAPI.put(aPodGroup("small", 2, "small"))
				r.pod("small-0", inSmall, objects.CPU("500m"))
			},
			late: func(r *rig) { r.pod("small-1", inSmall, objects.CPU("500m")) },
			pod:  "small-0",
		},
		"a group that had another pod before": {
			early: func(r *rig) {
				r.podGroupAPI.put(aPodGroup("small", 1, "small"))
				r.pod("small-0", inSmall, objects.CPU("500m"), selecting("nowhere"))
			},
			late: func(r *rig) {
				r.pod("small-1", inSmall, objects.CPU("500m"))
				r.pass(time.Second)
				r.remove("small-0")
			},
			pod: "small-1",
		},
		"a group that had a pod of a lower priority": {
			early: func(r *rig) {
				r.podGroupAPI.put(aPodGroup("small", 1, "small"))
				r.pod("small-0", inSmall, objects.CPU("500m"), selecting("nowhere"), withPriority(-1))
			},
			late: func(r *rig) { r.pod("small-1", inSmall, objects.CPU("500m")) },
			pod:  "small-1",
		},
		"a pod with affinity to one that comes late": {
			early: func(r *rig) { r.pod("early", objects.CPU("500m"), objects.NextTo(corev1.LabelHostname, "key")) },
			late:  func(r *rig) { r.pod("key", objects.OfApp("key"), objects.CPU("1m"), objects.OnNode("n1")) },
			pod:   "early",
		},
		"a pod whose volume comes late": {
			early: func(r *rig) {
				r.must(r.client.Tracker().Add(&storagev1.StorageClass{
					ObjectMeta: metav1.ObjectMeta{Name: "late"}, Provisioner: "example.com/any", VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
				}))
				r.must(r.client.Tracker().Add(&corev1.PersistentVolume{
					ObjectMeta: metav1.ObjectMeta{Name: "pv"},
					Spec: corev1.PersistentVolumeSpec{
						StorageClassName: "late", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
						ClaimRef: &corev1.ObjectReference{Namespace: ns, Name: "c", UID: "c"},
					},
					Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
				}))
				r.pod("early", objects.CPU("500m"), func(p *corev1.Pod) {
					p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
						PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"},
					}}}
				})
			},
			late: func(r *rig) {
				r.must(r.client.Tracker().Add(&corev1.PersistentVolumeClaim{
					ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "c", UID: "c", Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
					Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: new("late"), VolumeName: "pv"},
					Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
				}))
			},
			pod: "early",
		},
		"a pod that nothing controls any more": {
			early: func(r *rig) {
				o := group.Owner{Group: "batch", Kind: "Job", Name: "j", UID: "j"}
				r.owners.create("jobs", "j", "j", group.Owner{})
				r.pass(time.Second)
				r.podGroupAPI.put(aPodGroup(o.PodGroupName(), 9, "small"))
				r.pod("early", controlledBy("batch/v1", "Job", "j", "j"), objects.CPU("500m"))
			},
			late: func(r *rig) {
				r.update("early", func(p *corev1.Pod) { p.OwnerReferences, p.ResourceVersion = nil, "2" })
			},
			pod: "early",
		},
		"a pod that leaves a group which lacked another": {
			early: func(r *rig) {
				r.podGroupAPI.put(aPodGroup("small", 9, "small"))
				r.pod("early", inSmall, objects.CPU("500m"))
			},
			late: func(r *rig) { r.update("early", func(p *corev1.Pod) { p.Labels, p.ResourceVersion = nil, "2" }) },
			pod:  "early",
		},
		"a pod that has waited as well": {
			early: func(r *rig) { r.pod("early", objects.Elsewhere, objects.CPU("2")) },
			late:  func(r *rig) { r.removeFrom("third", "old") },
			pod:   "early", runs: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.node("n1", 4)
				r.pass(settleTime)
				r.schedule()
				r.pod("old", objects.CPU("3"), objects.Never, objects.In("third"), objects.OnNode("n1"))
				r.pass(time.Second)
				tc.early(r)
				r.pass(time.Minute)
				r.gang(1, 1, objects.CPU("4"))
				r.pass(11 * time.Minute)
				tc.late(r)
				r.pass(10 * time.Second)
				if r.runs(tc.pod) != tc.runs {
					t.Errorf("pod %s runs: %t, want %t; on nodes: %v; %s", tc.pod, r.runs(tc.pod), tc.runs, r.assigned(), r.message())
				}
			})
		})
	}
}

// A member that joins an old group waits for the groups before it.
func TestNewMemberOfOldGroupWaitsForEarlierGroups(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.podGroupAPI.put(aPodGroup("first", 1, "first"))
		r.node("n1", 4)
		r.schedule()
		r.pod("first-0", objects.InGroup("first"))
		r.pass(time.Second)
		r.gang(2, 2, objects.CPU("2"))
		r.pass(11 * time.Minute)
		r.pod("first-1", objects.InGroup("first"))
		r.pass(5 * time.Second)
		if r.runs("first-1") {
			t.Error("what joins a group that is older than the one that waits passed that")
		}
	})
}

// If several late members come together, only as many as the group lacks are placed.
func TestOnlyMissingLateMembersUseReservedNodes(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.podGroupAPI.put(aPodGroup("first", 2, "first"))
		r.node("n1", 4)
		r.pass(settleTime)
		r.schedule()
		r.pod("first-0", objects.InGroup("first"), withPriority(-1), objects.CPU("100m"))
		r.pod("first-1", objects.InGroup("first"), withPriority(-1), objects.CPU("100m"))
		r.pass(time.Second)
		r.gang(1, 1, objects.CPU("4"))
		r.pass(11 * time.Minute)
		r.matcher.silence(true)
		r.pl.breaker.trip("so that they ask together")
		r.pass(2 * time.Second)
		r.remove("first-1")
		for i := 2; i < 6; i++ {
			r.pod(fmt.Sprintf("first-%d", i), objects.InGroup("first"), withPriority(-1), objects.CPU("100m"))
		}
		r.matcher.silence(false)
		r.pass(30 * time.Second)
		run := 0
		for i := 2; i < 6; i++ {
			if r.runs(fmt.Sprintf("first-%d", i)) {
				run++
			}
		}
		if run != 1 {
			t.Errorf("%d of the members that come later run, want the one that was lacking; on nodes: %v; %s", run, r.assigned(), r.message())
		}
	})
}

// TestStarvingGroupsOfTwoPriorities: the group of the lower
// priority waits for the higher one, and never the other way round.
func TestStarvingGroupsOfTwoPriorities(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 4)
		r.node("n2", 4)
		r.schedule()
		r.pod("old-1", objects.CPU("1"))
		r.pod("old-2", objects.CPU("4"))
		r.pass(time.Second)
		low, high := withPriority(0), withPriority(5)
		for i := range 2 {
			r.pod(fmt.Sprintf("low-%d", i), objects.InGroup("low"), objects.CPU("4"), low)
		}
		r.podGroupAPI.put(aPodGroup("low", 2, "low"))
		r.pass(11 * time.Minute)
		for i := range 2 {
			r.pod(fmt.Sprintf("high-%d", i), objects.InGroup("high"), objects.CPU("4"), high)
		}
		r.podGroupAPI.put(aPodGroup("high", 2, "high"))
		r.pass(11 * time.Minute)
		r.remove("old-1")
		r.remove("old-2")
		r.pass(5 * time.Second)
		if !r.runs("high-0") || !r.runs("high-1") || r.runs("low-0") {
			t.Fatalf("on nodes: %v, want the higher priority", r.assigned())
		}
		r.remove("high-0")
		r.remove("high-1")
		r.pass(5 * time.Second)
		if !r.runs("low-0") || !r.runs("low-1") {
			t.Errorf("on nodes: %v, want the lower priority next", r.assigned())
		}
	})
}
