package fluence

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/test/objects"
)

func withWholeNodes(p *corev1.Pod) {
	p.Annotations = map[string]string{group.ExclusiveAnnotation: "true"}
}

// labelled sets the label for whole nodes of the groups' namespace.
func (r *rig) labelled(value string) {
	r.Helper()
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: map[string]string{group.WholeNodesLabel: value}}}
	_, err := r.client.CoreV1().Namespaces().Update(r.ctx, space, metav1.UpdateOptions{})
	r.must(err)
	r.pass(0)
}

// Annotations give whole nodes if the administrator allows it. Otherwise
// the group waits with the reason, and is not placed on shared nodes.
func TestWhoMayHaveWholeNodes(t *testing.T) {
	cases := map[string]struct {
		rule, label string
		why         string // "" if whole nodes are allowed
	}{
		"all":              {WholeNodesAll, "", ""},
		"labelled, it is":  {WholeNodesLabelled, "allowed", ""},
		"labelled, no":     {WholeNodesLabelled, "", `annotation fluence.flux-framework.org/exclusive: "true": namespace "ns" may not have whole nodes: its label fluence.flux-framework.org/whole-nodes is "", and an administrator has to set it to "allowed"`},
		"labelled, yes":    {WholeNodesLabelled, "yes", `annotation fluence.flux-framework.org/exclusive: "true": namespace "ns" may not have whole nodes: its label fluence.flux-framework.org/whole-nodes is "yes", and an administrator has to set it to "allowed"`},
		"none, whoever is": {WholeNodesNone, "allowed", `annotation fluence.flux-framework.org/exclusive: "true": annotations cannot ask for whole nodes in this cluster (the argument wholeNodes of the scheduler is none)`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.pl.args.WholeNodes = tc.rule
				r.labelled(tc.label)
				r.node("n1", 8)
				pod := r.pod("p", withWholeNodes)
				r.schedule()
				r.pass(time.Second)
				if tc.why == "" {
					if m := r.matches(); len(m) != 1 || !match.IsExclusive(m[0].Policy) {
						t.Errorf("matches %+v, want one for whole nodes", m)
					}
					return
				}
				r.wantHeld(pod, tc.why)
				if m := r.matches(); len(m) != 0 {
					t.Errorf("it asks all the same: %+v", m)
				}
			})
		})
	}
}

func TestNamespaceLabelAllowsWholeNodes(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.labelled("")
		r.node("n1", 8)
		r.pod("p", withWholeNodes)
		r.schedule()
		r.pass(time.Second)
		if m := r.matches(); len(m) != 0 {
			t.Fatalf("it asks: %+v", m)
		}
		r.labelled(group.WholeNodesAllowed)
		r.pass(time.Second)
		if !r.runs("p") {
			t.Errorf("it does not run once the namespace may: %v", r.assigned())
		}
	})
}

// Pods of 1 core that get the annotation exclusive once they run take no node from others.
func TestAnAnnotationOnPodsThatRunTakesNoNode(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 8)
		r.gang(2, 2)
		r.schedule()
		r.placedSoon(2)
		r.update("g-0", withWholeNodes)
		r.pass(time.Second)
		r.pod("other", objects.Elsewhere)
		r.pass(time.Second)
		if !r.runs("other") {
			t.Errorf("another's pod does not run: %v", r.assigned())
		}
		r.pass(time.Minute)
		c := meta.FindStatusCondition(r.podGroupAPI.get(g).Status.Conditions, report.ConditionWholeNodes)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != "AskedTooLate" || !strings.Contains(c.Message, group.ExclusiveAnnotation) {
			t.Errorf("condition %+v, want that the annotation came too late", c)
		}
		if c := r.scheduledCondition(); c.Status != metav1.ConditionTrue {
			t.Errorf("condition %+v, want it to stay", c)
		}
	})
}

// The status has what the match has decided, and the next scheduler goes by it.
func TestWholeNodesAreInTheStatus(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 8)
		r.gang(2, 2, withWholeNodes)
		r.schedule()
		r.placedSoon(2)
		r.pass(time.Minute)
		pg := r.podGroupAPI.get(g)
		c := meta.FindStatusCondition(pg.Status.Conditions, report.ConditionWholeNodes)
		if c == nil || c.Status != metav1.ConditionTrue || c.Reason != "Matched" {
			t.Fatalf("condition %+v, want that the nodes are the group's", c)
		}
		if got := toGangPodGroup(pg).Exclusivity; got != gang.Exclusive {
			t.Errorf("the status is read as %v", got)
		}
		r.labelled("")
		r.pod("other", objects.Elsewhere)
		r.pass(time.Second)
		if r.runs("other") {
			t.Errorf("a node of the group is given to another: %v", r.assigned())
		}
	})
}

// The status describes the pods that existed when it was written. If a group
// starts anew before anything else was reported of it, the status is written anew.
func TestWholeNodesConditionIsWrittenForEachIncarnation(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 8)
		r.gang(2, 2, withWholeNodes)
		r.schedule()
		r.placedSoon(2)
		r.pass(time.Minute)
		first := toGangPodGroup(r.podGroupAPI.get(g)).ExclusivitySince
		r.end("g-0")
		r.end("g-1")
		again := time.Now().Truncate(time.Second)
		for _, name := range []string{"g-2", "g-3"} {
			r.pod(name, objects.InGroup(g.Name), withWholeNodes)
		}
		r.pass(time.Minute)
		if got := toGangPodGroup(r.podGroupAPI.get(g)); !r.runs("g-2") || got.Exclusivity != gang.Exclusive || got.ExclusivitySince.Before(again) {
			t.Errorf("the status says %v since %v, want it since the second start at %v; the first was at %v", got.Exclusivity, got.ExclusivitySince, again, first)
		}
		told := toGangPodGroup(r.podGroupAPI.get(g)).ExclusivitySince
		r.pod("g-4", objects.InGroup(g.Name), withWholeNodes)
		r.pass(time.Minute)
		if got := toGangPodGroup(r.podGroupAPI.get(g)).ExclusivitySince; !r.runs("g-4") || !got.Equal(told) {
			t.Errorf("the status says so since %v when a pod has come late, want it since %v", got, told)
		}
	})
}

// A node may be booked before its group is known. Once the PodGroup has been
// seen, whose status makes the node exclusive, no other pod gets the node.
func TestStatusMakesBookedNodeExclusive(t *testing.T) {
	for name, whole := range map[string]metav1.ConditionStatus{"its own": metav1.ConditionTrue, "shared": metav1.ConditionFalse} {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.node("n1", 8)
				r.pod("g-0", objects.InGroup("g"), objects.OnNode("n1"), objects.Never)
				r.pass(2 * time.Second) // the status is of whole seconds, and later than the pod
				pg := aPodGroup("g", 1, "pg")
				pg.Status.Conditions = []metav1.Condition{{Type: report.ConditionWholeNodes, Status: whole, Reason: "Matched", LastTransitionTime: metav1.Now()}}
				r.podGroupAPI.put(pg)
				r.pass(settleTime)
				r.pod("other")
				r.schedule()
				r.pass(time.Second)
				if got, want := r.runs("other"), whole == metav1.ConditionFalse; got != want {
					t.Errorf("a pod of another group comes to the node: %t, want %t", got, want)
				}
			})
		})
	}
}

// A value that protects nothing is logged once, and the one that does is not.
func TestAnUnknownValueOfTheAnnotationEvictIsLogged(t *testing.T) {
	for value, want := range map[string]int{"Never": 1, "true": 1, group.EvictNever: 0} {
		inRig(t, realEngine(t), func(r *rig) {
			for _, app := range []string{"a", "b"} {
				space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: map[string]string{"app": app}, Annotations: map[string]string{group.EvictAnnotation: value}}}
				_, err := r.client.CoreV1().Namespaces().Update(r.ctx, space, metav1.UpdateOptions{})
				r.must(err)
				r.pass(0)
			}
			if got := strings.Count(r.logged(0), "An annotation of a namespace has an unknown value"); got != want {
				t.Errorf("%q is logged %d times, want %d", value, got, want)
			}
		})
	}
}
