package invariants

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/eviction"
	"github.com/flux-k8s/fluence/pkg/preemption"
)

func priority(p int32) func(*podFact) { return func(f *podFact) { f.priority = p } }

// urgent adds the group of running, with priority 0, and then the group urgent of two pods that waits.
func urgent(s *script, of int32) *script {
	return running(s).node("m", 8).group("urgent", 2, refusal()).pod("u0", "urgent", priority(of)).pod("u1", "urgent", priority(of))
}

// evictFor marks a pod for a preemptor, deletes it as the scheduler, and lets its deletion begin.
func (s *script) evictFor(of types.UID, pods ...string) *script {
	for _, n := range pods {
		s.edit(n, func(p *podFact) { p.evictedFor = of }).deleteAsScheduler(n).edit(n, deleting)
	}
	return s
}

func (s *script) deleteAsScheduler(n string) *script {
	s.seeAudit(auditFact{user: schedulerAccount, verb: "delete", pod: name(n), code: 200, received: s.now})
	return s
}

// urgent is the UID of the group urgent.
func (s *script) urgent() types.UID { return s.pgs["urgent"].uid }

// evicts evicts the group of running as a whole for the group urgent. Its pods go a second later.
func (s *script) evicts() *script {
	return s.evictFor(s.urgent(), "a", "b").after(time.Second).remove("a").remove("b")
}

// starts binds the pods of the group urgent.
func (s *script) starts() *script {
	return s.bind("u0", "n").bind("u1", "n").group("urgent", 2, placed())
}

// again creates the group of running again, on another node.
func (s *script) again() *script {
	return s.pod("a2", "g").pod("b2", "g").bind("a2", "m").bind("b2", "m").group("g", 2, placed())
}

// suspended records that the owner of the group of running is suspended for the group urgent. Its pods go.
func suspended(s *script) *script {
	mark := "2 pods evicted for group ns/urgent (priority 10, this one has 0); preemptor " + string(s.urgent()) + "; suspends owner j until the pods have gone"
	return s.group("g", 2, placed(), says(conditionPreempted, "True", "Preempted", mark)).edit("a", deleting).edit("b", deleting).after(time.Second).remove("a").remove("b")
}

func TestEvictedUpward(t *testing.T) {
	upward := []broke{{RuleEvictedUpward, "ns/g"}}
	run(t, map[string]tale{
		"for a higher priority":          {tell: func(s *script) { urgent(s, 10).evicts().starts() }},
		"for the same priority":          {tell: func(s *script) { urgent(s, 0).evicts().starts() }, want: upward},
		"for a lower priority":           {tell: func(s *script) { urgent(s, -10).evicts().starts() }, want: upward},
		"suspended for the same":         {tell: func(s *script) { suspended(urgent(s, 0)).starts() }, want: upward},
		"suspended for a higher":         {tell: func(s *script) { suspended(urgent(s, 10)).starts() }},
		"for a pod of the same priority": {tell: func(s *script) { s.forLone(0) }, want: []broke{{RuleEvictedUpward, "ns/low"}}},
		"for a pod of a higher priority": {tell: func(s *script) { s.forLone(1) }},
		"for a preemptor that nobody knows": {tell: func(s *script) {
			urgent(s, 0).evictFor("unknown", "a", "b").after(time.Second).remove("a").remove("b").starts()
		}},
	})
}

// forLone evicts a pod alone for a pod alone of a priority, which starts.
func (s *script) forLone(of int32) {
	s.node("n", 8).pod("low", "").bind("low", "n").pod("high", "", priority(of))
	s.evictFor(s.facts["high"].uid, "low").after(time.Second).remove("low").bind("high", "n")
}

func TestEvictedPart(t *testing.T) {
	part := []broke{{RuleEvictedPart, "ns/g"}}
	// half evicts one of the two pods.
	half := func(s *script) *script { return urgent(s, 10).evictFor(s.urgent(), "a") }
	run(t, map[string]tale{
		"the other pod goes on":     {tell: func(s *script) { half(s).after(testSlack + time.Second) }, want: part},
		"the other follows in time": {tell: func(s *script) { half(s).after(testSlack-time.Second).evictFor(s.urgent(), "b").starts() }},
		"the other follows late": {
			tell: func(s *script) { half(s).after(testSlack+time.Second).evictFor(s.urgent(), "b").starts() },
			want: part,
		},
		"the scheduler is dead meanwhile": {tell: func(s *script) {
			half(s)
			end := s.excuse()
			s.heard()
			s.after(time.Minute / 2)
			end()
			s.after(time.Second).evictFor(s.urgent(), "b").starts()
		}},
		"its minimum is one": {tell: func(s *script) {
			urgent(s, 10).group("g", 1, placed()).evictFor(s.urgent(), "a").after(testSlack + time.Second)
		}},
	})
}

func TestEvictedTwice(t *testing.T) {
	run(t, map[string]tale{
		"a pod is deleted again": {
			tell: func(s *script) {
				urgent(s, 10).evictFor(s.urgent(), "a", "b").after(time.Second).deleteAsScheduler("a").starts()
			},
			want: []broke{{RuleEvictedTwice, "ns/a"}},
		},
		"a pod is deleted again after the scheduler was killed": {tell: func(s *script) {
			urgent(s, 10).evictFor(s.urgent(), "a", "b").after(time.Second).excuse()()
			s.after(time.Second).deleteAsScheduler("a").starts()
		}},
		"another pod of the name is deleted": {tell: func(s *script) {
			urgent(s, 10).evicts().after(2 * time.Minute)
			s.pod("a", "g").bind("a", "m").pod("b", "g").bind("b", "m").group("g", 2, placed()).after(3 * time.Second).evicts().starts()
		}, want: []broke{{RuleEvictedInVain, "ns/g"}}},
		"a group is evicted again for the same": {
			tell: func(s *script) {
				urgent(s, 10).evicts().again().after(20*time.Second).evictFor(s.urgent(), "a2", "b2").starts()
			},
			want: []broke{{RuleEvictedTwice, "ns/g"}},
		},
		"a group is evicted again after a change of a node": {tell: func(s *script) {
			urgent(s, 10).evicts().again().after(20*time.Second).node("n", 4).evictFor(s.urgent(), "a2", "b2").starts()
		}},
		"a group is evicted again for another": {tell: func(s *script) {
			urgent(s, 10).evicts().again().starts().after(20 * time.Second)
			s.pod("high", "", priority(10), cpu(8)).evictFor(s.facts["high"].uid, "a2", "b2").after(time.Second).remove("a2").remove("b2").bind("high", "m")
		}},
	})
}

func TestEvictedInVain(t *testing.T) {
	wasted := []broke{{RuleEvictedInVain, "ns/g"}}
	run(t, map[string]tale{
		"the preemptor does not start": {tell: func(s *script) { urgent(s, 10).evicts().after(61 * time.Second) }, want: wasted},
		"it starts late":               {tell: func(s *script) { urgent(s, 10).evicts().after(61 * time.Second).starts() }, want: wasted},
		"it starts":                    {tell: func(s *script) { urgent(s, 10).evicts().starts().after(61 * time.Second) }},
		"it starts elsewhere": {tell: func(s *script) {
			urgent(s, 10).evicts().bind("u0", "m").bind("u1", "m").group("urgent", 2, placed()).after(61 * time.Second)
		}},
		"for a suspended owner, it does not start": {tell: func(s *script) { suspended(urgent(s, 10)).after(61 * time.Second) }, want: wasted},
		"the preemptor goes": {tell: func(s *script) {
			urgent(s, 10).evicts().remove("u0").remove("u1").removeGroup("urgent").after(61 * time.Second)
		}},
		"the preemptor loses a pod": {tell: func(s *script) { urgent(s, 10).evicts().remove("u0").after(61 * time.Second) }},
		"a victim does not go": {tell: func(s *script) {
			urgent(s, 10).evictFor(s.urgent(), "a", "b").remove("a").after(10 * time.Minute)
		}},
		"a node changes": {tell: func(s *script) { urgent(s, 10).evicts().node("m", 4).after(61 * time.Second) }},
		"another of the priority takes the room": {tell: func(s *script) {
			urgent(s, 10).evicts().pod("c", "", priority(10)).bind("c", "n").after(61 * time.Second)
		}},
		"another of a lower one takes the room": {tell: func(s *script) {
			urgent(s, 10).evicts().pod("c", "", priority(9)).bind("c", "n").after(61 * time.Second)
		}, want: wasted},
		"another takes room elsewhere": {tell: func(s *script) {
			urgent(s, 10).evicts().pod("c", "", priority(10)).bind("c", "m").after(61 * time.Second)
		}, want: wasted},
		"another scheduler takes the room": {tell: func(s *script) {
			urgent(s, 10).evicts().pod("c", "", foreign).bindBy("system:kube-scheduler", "c", "n").after(61 * time.Second)
		}},
		"the API server is away": {tell: func(s *script) { urgent(s, 10).evicts().excuse()(); s.after(2 * time.Minute) }},
	})
}

// The scheduler deletes only what it has marked.
func TestAPodWithoutAMarkIsNoVictim(t *testing.T) {
	run(t, map[string]tale{"it is deleted": {
		tell: func(s *script) {
			urgent(s, 10).deleteAsScheduler("a").edit("a", deleting).remove("a").after(time.Minute)
		},
		want: []broke{{RulePodMoved, "ns/a"}},
	}})
}

// The checker has its own words for what Fluence writes onto a victim.
func TestTheMarksOfFluenceAreRead(t *testing.T) {
	mark := eviction.Mark{For: preemption.Preemptor{Namespace: "ns", Name: "urgent", UID: "urgent-uid", Priority: 10}, Suspends: "j", Pods: 2}
	for kind, of := range map[string]string{eviction.ConditionPreempted: "scheduling.x-k8s.io/v1alpha1", string(corev1.DisruptionTarget): "scheduling.k8s.io/v1beta1"} {
		pg := podGroupOf(of, "", nil)
		pg.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": kind, "status": "True", "message": mark.Message("ns")}}}
		g := groupFactOf(pg)
		if uid, suspends := g.evictedFor(); uid != "urgent-uid" || !suspends {
			t.Errorf("a PodGroup of %s is evicted for %q, and its owner is suspended: %v", of, uid, suspends)
		}
	}
	mark.Suspends = ""
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler, Message: mark.Message("other"),
	}}}}
	if got := podFactOf(pod).evictedFor; got != "urgent-uid" {
		t.Errorf("a pod is evicted for %q", got)
	}
}
