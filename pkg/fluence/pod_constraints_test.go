package fluence

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/placement"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
)

// condition returns the reason and the message of the group's condition.
func (r *rig) condition() string {
	c := r.podGroupAPI.get(g).Status.Conditions
	if len(c) == 0 {
		return "nothing"
	}
	return c[0].Reason + ": " + c[0].Message
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[key] = value
	}
}

func inRack(name string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels["rack"] = name }
}

// racks creates racks with a number of nodes each.
func (r *rig) racks(racks, nodes int, cores int64) {
	r.Helper()
	for i := range nodes {
		r.node(fmt.Sprintf("n%03d", i), cores, inRack(fmt.Sprint("r", i%racks)))
	}
}

// The groups have one possible placement, or many, and must find one.
func TestPlacementWithConstraintsAmongPodsIsFound(t *testing.T) {
	spread := func(racks, nodes, pods int) func(r *rig) int {
		return func(r *rig) int {
			r.racks(racks, nodes, 32)
			r.gang(int32(pods), pods, objects.OfApp("x"), objects.SpreadOver("rack", "x", 1))
			return pods
		}
	}
	cases := map[string]func(r *rig) (pods int){
		"some of the shapes keep together, on a level of the graph": func(r *rig) int {
			r.racks(1, 2, 4)
			r.podGroupAPI.put(aPodGroup(g.Name, 3, "pg"))
			r.pod("g-0", objects.InGroup(g.Name), objects.OfApp("launcher"), objects.CPU("2"))
			r.pod("g-1", objects.InGroup(g.Name), objects.OfApp("w"), objects.NextTo(corev1.LabelHostname, "w"))
			r.pod("g-2", objects.InGroup(g.Name), objects.OfApp("w"), objects.NextTo(corev1.LabelHostname, "w"))
			return 3
		},
		"the ninth rack is the one with room": func(r *rig) int {
			r.racks(9, 18, 2)
			for i := range 8 {
				r.pod(fmt.Sprint("old-", i), objects.CPU("2"), objects.OnNode(fmt.Sprintf("n%03d", i)))
			}
			r.gang(4, 4, objects.OfApp("x"), objects.NextTo("rack", "x"))
			return 4
		},
		"one is to be beside any of many, who may stand apart": func(r *rig) int {
			r.racks(1, 3, 2)
			r.podGroupAPI.put(aPodGroup(g.Name, 5, "pg"))
			r.pod("g-0", objects.InGroup(g.Name), objects.OfApp("monitor"), objects.NextTo(corev1.LabelHostname, "w"))
			for i := 1; i < 5; i++ {
				r.pod(fmt.Sprint("g-", i), objects.InGroup(g.Name), objects.OfApp("w"))
			}
			return 5
		},
		"each is to be beside one of others, who stand apart": func(r *rig) int {
			r.racks(1, 3, 2)
			r.podGroupAPI.put(aPodGroup(g.Name, 6, "pg"))
			for i := range 3 {
				r.pod(fmt.Sprint("g-", i), objects.InGroup(g.Name), objects.OfApp("cache"), objects.AwayFrom("cache"))
				r.pod(fmt.Sprint("h-", i), objects.InGroup(g.Name), objects.OfApp("w"), objects.NextTo(corev1.LabelHostname, "cache"))
			}
			return 6
		},
		"a wide skew allows all in one rack where the other is full": func(r *rig) int {
			r.racks(2, 2, 16)
			r.pod("old", objects.CPU("16"), objects.OnNode("n001"))
			r.gang(10, 10, objects.OfApp("x"), objects.SpreadOver("rack", "x", 100))
			return 10
		},
		"six over three racks":                        spread(3, 3, 6),
		"seventeen over five":                         spread(5, 15, 17),
		"thirty-five over ten":                        spread(10, 30, 35),
		"many over very many":                         spread(70, 70, 75),
		"hundreds over three racks, one to each node": spread(3, 400, 400),
		"a filter that speaks only once a sibling is reserved": func(r *rig) int {
			r.racks(1, 50, 8)
			r.gang(40, 40, objects.OfApp("device"), objects.AwayFrom("nobody"))
			return 40
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				others := len(r.assigned())
				pods := tc(r)
				r.pass(settleTime)
				r.schedule()
				r.pass(5 * time.Minute)
				placed := -others
				for name := range r.assigned() {
					if !strings.HasPrefix(name, "old") {
						placed++
					}
				}
				if placed != pods {
					t.Errorf("%d of %d have nodes: %s", placed, pods, r.condition())
				}
			}, oneDevice{})
		})
	}
}

// oneDevice is a filter that lets one pod of an app onto each node.
// It knows only of pods that were reserved, as DynamicResources does.
type oneDevice struct{}

func (oneDevice) Name() string { return "OneDevice" }

func (oneDevice) Filter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if placement.IsProbe(state) || pod.Labels["app"] != "device" {
		return nil
	}
	for _, p := range node.GetPods() {
		if p.GetPod().Labels["app"] == "device" {
			return fwk.NewStatus(fwk.Unschedulable, "cannot allocate all claims")
		}
	}
	return nil
}

func TestAffinityByMissingLabelIsReported(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n0", 4)
		r.pass(settleTime)
		r.schedule()
		r.gang(2, 2, objects.OfApp("x"), objects.NextTo("rack", "x"))
		r.pass(10 * time.Second)
		if got := r.condition(); !strings.HasPrefix(got, reason.NoRoom+": ") || !strings.Contains(got, "didn't match pod affinity rules") {
			t.Errorf("told %q, want %s with the filter's words", got, reason.NoRoom)
		}
	})
}

type withExtenders struct {
	fwk.Handle
	all []fwk.Extender
}

func (h *withExtenders) Extenders() []fwk.Extender { return h.all }

// No event reports that an extender has changed its mind.
func TestGroupRejectedByExtenderRetries(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n0", 4)
		r.pass(settleTime)
		x := &objects.Extender{Failed: extenderv1.FailedNodesMap{"n0": "no licence"}}
		h := r.pl.placer.Handle
		r.pl.placer.Handle = &withExtenders{Handle: h, all: []fwk.Extender{x}}
		defer func() { r.pl.placer.Handle = h }()
		r.schedule()
		r.gang(2, 2)
		r.pass(time.Minute)
		if got := r.condition(); !strings.Contains(got, "no licence") {
			t.Errorf("told %q, want the extender's words", got)
		}
		x.Agrees.Store(true)
		r.pass(10 * time.Minute)
		if got := len(r.assigned()); got != 2 {
			t.Errorf("%d of 2 have nodes after the extender's yes: %s", got, r.condition())
		}
	})
}

func TestOnePodsAnnotationHoldsForItsGroup(t *testing.T) {
	cases := map[string]struct{ annotation, value string }{
		"all of them in one place": {group.TopologyRequiredAnnotation, "node"},
		"whole nodes":              {group.ExclusiveAnnotation, "true"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.node("n0", 2)
				r.node("n1", 3)
				r.pod("old", objects.OnNode("n0"))
				r.pass(settleTime)
				r.schedule()
				r.podGroupAPI.put(aPodGroup(g.Name, 3, "pg"))
				r.pod("g-0", objects.InGroup(g.Name))
				r.pod("g-1", objects.InGroup(g.Name), annotated(tc.annotation, tc.value))
				r.pod("g-2", objects.InGroup(g.Name))
				r.pass(time.Minute)
				nodes := r.assigned()
				if nodes["g-0"] != "n1" || nodes["g-1"] != "n1" || nodes["g-2"] != "n1" {
					t.Errorf("pods on %v, want all three on n1: %s", nodes, r.condition())
				}
			})
		})
	}
}

// Two pods with anti-affinity to two others are
// rejected again and again while there is little room.
func TestFilterRejectionsKeepWaitingTime(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n0", 4)
		r.node("n1", 4)
		r.pass(settleTime)
		r.schedule()
		r.pod("old-1", objects.CPU("3"))
		r.pod("old-2", objects.CPU("3"))
		r.pass(time.Second)
		r.podGroupAPI.put(aPodGroup(g.Name, 4, "pg"))
		for i, edit := range []func(*corev1.Pod){objects.AwayFrom("w"), objects.AwayFrom("w"), nil, nil} {
			edits := []func(*corev1.Pod){objects.InGroup(g.Name), objects.OfApp("w")}
			if edit != nil {
				edits = []func(*corev1.Pod){objects.InGroup(g.Name), objects.OfApp("leader"), edit}
			}
			r.pod(fmt.Sprint("g-", i), edits...)
		}
		r.pass(time.Second)
		running := [2]string{"old-1", "old-2"}
		for i := 0; !r.runs("g-0") && i < 40; i++ {
			next := fmt.Sprint("small-", i)
			r.swap(running[0], next, objects.CPU("3"))
			running = [2]string{running[1], next}
			r.pass(time.Minute)
		}
		if !r.runs("g-0") {
			t.Errorf("not its turn in 40 minutes: %s", r.condition())
		}
	})
}

func TestNothingIsKeptOfSiblingsThatHaveStartedOrAreGone(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.racks(1, 4, 8)
		r.pass(settleTime)
		r.schedule()
		r.gang(4, 4, objects.OfApp("x"), objects.AwayFrom("x"))
		r.placedSoon(4)
		if n := r.exclusionCount(); n != 0 {
			t.Errorf("exclusions of %d groups that have started", n)
		}
		r.pod("h-0", objects.InGroup("h"), objects.OfApp("x"), objects.AwayFrom("x"))
		r.pod("h-1", objects.InGroup("h"), objects.OfApp("x"), objects.AwayFrom("x"))
		r.podGroupAPI.put(aPodGroup("h", 2, "pg-h"))
		r.pass(time.Minute)
		if n := r.exclusionCount(); n != 1 {
			t.Fatalf("exclusions of %d groups, want those of the one that waits", n)
		}
		r.remove("h-0")
		r.remove("h-1")
		r.pass(time.Minute)
		if n := r.exclusionCount(); n != 0 {
			t.Errorf("exclusions of %d groups that have no pods", n)
		}
	})
}

// The blocker that a message names is another one each time, and so is the resource that is short.
func TestMessageIsReportedOnceWhileOnlyNumbersChange(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 4)
		r.pass(settleTime)
		r.schedule()
		r.pod("old-a", objects.CPU("2"))
		r.pod("old-b", objects.CPU("2"))
		r.pass(time.Second)
		r.gang(4, 4, annotated(group.TopologyRequiredAnnotation, "node"))
		r.pass(time.Second)
		running := [2]string{"old-a", "old-b"}
		for i := range 8 {
			next := "small-" + strings.Repeat(string(rune('a'+i)), 3)
			r.pod(next, objects.CPU("2"))
			r.pass(time.Second)
			r.remove(running[0])
			r.pass(20 * time.Second)
			running = [2]string{running[1], next}
		}
		if got := r.condition(); !strings.Contains(got, "2 more if pod ns/small-") {
			t.Errorf("told %q, want whose end helps", got)
		}
		var told []string
		for _, e := range r.recorder.of("Pod") {
			if e.name == "g-0" && e.reason == "FailedScheduling" {
				told = append(told, e.message)
			}
		}
		if len(told) != 1 {
			t.Errorf("%d events for one reason, want 1: %q", len(told), told)
		}
	})
}

func TestChangedAnnotationsLetGroupRetry(t *testing.T) {
	for name, from := range map[string]string{"it never fitted": "node", "the level was none": "row"} {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.node("n0", 1)
				r.node("n1", 1)
				r.pass(settleTime)
				r.schedule()
				r.gang(2, 2, annotated(group.TopologyRequiredAnnotation, from))
				r.pass(time.Minute)
				if got := len(r.assigned()); got != 0 {
					t.Fatalf("%d pods have nodes before", got)
				}
				for _, p := range []string{"g-0", "g-1"} {
					r.update(p, func(p *corev1.Pod) { p.Annotations = nil })
				}
				r.pass(5 * time.Second)
				if got := len(r.assigned()); got != 2 {
					t.Errorf("%d of 2 have nodes: %s", got, r.condition())
				}
			})
		})
	}
}

// The search ended at its limit in the empty graph too. Whether the group
// can be placed at all is not known, and no other group waits for it.
func TestNothingIsReservedForWhatMayNeverFit(t *testing.T) {
	for name, tc := range map[string]struct{ mayNeverFit, runs bool }{
		"it is known to fit":     {false, false},
		"it is not known to fit": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := realEngine(t)
			inRig(t, e, func(r *rig) {
				r.node("n0", 4)
				r.pass(settleTime)
				r.schedule()
				r.matcherFake.OnMatch(func(req match.Request) (*match.Allocation, error) {
					if req.Holder != g.String() || req.Op == match.WithoutAllocating {
						return e.Match(r.ctx, req)
					}
					return nil, &match.Refusal{Err: match.ErrBusy, Reason: match.Reason{
						Code: match.NotFound, Slot: "shape0", Wanted: 2, Nodes: 1, WaitingHelps: true, MayNeverFit: tc.mayNeverFit,
					}}
				})
				r.gang(2, 2)
				r.pass(11 * time.Minute)
				r.pod("small")
				r.pass(time.Minute)
				if got := r.runs("small"); got != tc.runs {
					t.Errorf("a small pod runs: %v, want %v; the group was told %s", got, tc.runs, r.condition())
				}
			})
		})
	}
}

// exclusionCount returns the number of groups for which the placer remembers excluded nodes.
func (r *rig) exclusionCount() int {
	return reflect.ValueOf(r.pl.placer).Elem().FieldByName("exclusions").FieldByName("groups").Len()
}

// A spread does not hide that the pods do not fit the empty cluster. Its own limits depend on pods that may end.
func TestPodsThatNeverFitSaySoWithASpread(t *testing.T) {
	cordoned := func(n *corev1.Node) { inRack("r1")(n); n.Spec.Unschedulable = true }
	cases := map[string]struct {
		pods  int
		setUp func(r *rig)
		want  string
	}{
		"more pods than the cluster holds": {9, func(r *rig) { r.racks(2, 4, 2) }, reason.NeverFits},
		"too few nodes are left beside cordoned ones": {5, func(r *rig) {
			r.node("n0", 4, inRack("r0"))
			r.node("n1", 4, cordoned)
		}, reason.NeverFits},
		"other pods take the room of a domain": {6, func(r *rig) {
			r.racks(2, 4, 2)
			r.pod("old-0", objects.CPU("2"), objects.OnNode("n000"))
		}, reason.NoRoom},
		"other pods of the selector hold the skew up": {4, func(r *rig) {
			r.racks(2, 2, 4)
			r.pod("old-0", objects.OfApp("x"), objects.OnNode("n000"))
			r.pod("old-1", objects.OfApp("x"), objects.OnNode("n000"))
			r.pod("old-2", objects.OfApp("full"), objects.CPU("3"), objects.OnNode("n001"))
		}, reason.NoRoom},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				tc.setUp(r)
				r.pass(settleTime)
				r.schedule()
				r.gang(int32(tc.pods), tc.pods, objects.OfApp("x"), objects.SpreadOver("rack", "x", 1))
				r.pass(10 * time.Second)
				if got := r.condition(); !strings.HasPrefix(got, tc.want+": ") {
					t.Errorf("the condition is %q, want %s", got, tc.want)
				}
			})
		})
	}
}
