package fluence

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
)

// nominatedFor returns an edit: a pod of another scheduler that is nominated to a node.
func nominatedFor(node string, priority int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.SchedulerName, p.Spec.Priority, p.Status.NominatedNodeName = others, &priority, node
	}
}

func withPriority(priority int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Priority = &priority }
}

func nominatedSlots(n *nominations, priority int32, now time.Time) string {
	var words []string
	for _, s := range n.slots(priority, now) {
		words = append(words, s.Key+"@"+s.Node)
	}
	return strings.Join(words, " ")
}

func TestNominationsLastUntilThePodIsBoundOrGone(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		then      func(n *nominations) (freed bool)
		wantFreed bool
		want      string
		wantLater string
	}{
		"nothing happens":                     {then: func(*nominations) bool { return false }, want: "p@n1", wantLater: "p@n1"},
		"it is told of again":                 {then: putting(noon, nominatedFor("n1", 5)), want: "p@n1", wantLater: "p@n1"},
		"it is nominated for another node":    {then: putting(noon, nominatedFor("n2", 5)), wantFreed: true, want: "p@n2", wantLater: "p@n2"},
		"the nomination is taken back":        {then: putting(noon, nominatedFor("", 5)), wantFreed: true},
		"it is bound elsewhere":               {then: putting(noon, nominatedFor("n1", 5), objects.OnNode("n2")), wantFreed: true},
		"it is bound there, and charged soon": {then: putting(noon, nominatedFor("n1", 5), objects.OnNode("n1")), wantFreed: true, want: "p@n1"},
		"it fails":                            {then: putting(noon, nominatedFor("n1", 5), objects.InPhase(corev1.PodFailed)), wantFreed: true},
		"it is being deleted": {then: putting(noon, nominatedFor("n1", 5), func(p *corev1.Pod) {
			p.DeletionTimestamp = &metav1.Time{Time: noon}
		}), wantFreed: true},
		"it is gone": {then: func(n *nominations) bool { return n.drop("p") }, wantFreed: true},
		"it is told of again once bound": {then: func(n *nominations) bool {
			bound := objects.Pod("p", nominatedFor("n1", 5), objects.OnNode("n1"))
			n.put(bound, noon)
			return n.put(bound, noon.Add(settleTime/2))
		}, want: "p@n1"},
		"another is gone": {then: func(n *nominations) bool { return n.drop("q") }, want: "p@n1", wantLater: "p@n1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var n nominations
			if n.put(objects.Pod("p", nominatedFor("n1", 5)), noon) {
				t.Error("a nomination freed something")
			}
			if freed := tc.then(&n); freed != tc.wantFreed {
				t.Errorf("freed something: %v, want %v", freed, tc.wantFreed)
			}
			if got := nominatedSlots(&n, 5, noon); got != tc.want {
				t.Errorf("nominated: %q, want %q", got, tc.want)
			}
			if got := nominatedSlots(&n, 5, noon.Add(settleTime)); got != tc.wantLater {
				t.Errorf("nominated a while later: %q, want %q", got, tc.wantLater)
			}
			n.drop("p")
			if len(n.pods) > 0 {
				t.Errorf("after the pod is gone %d are kept", len(n.pods))
			}
		})
	}
}

func putting(now time.Time, edit ...func(*corev1.Pod)) func(*nominations) bool {
	return func(n *nominations) bool { return n.put(objects.Pod("p", edit...), now) }
}

func TestAMatchCountsWhatIsNominatedAtItsPriorityOrAbove(t *testing.T) {
	cases := map[string]struct {
		members []int32
		want    string
	}{
		"a group below":                 {members: []int32{4, 4}, want: "above@n2 equal@n1"},
		"a group of the same priority":  {members: []int32{5, 5}, want: "above@n2 equal@n1"},
		"a group between":               {members: []int32{6, 6}, want: "above@n2"},
		"a group above":                 {members: []int32{8, 8}},
		"a group of several priorities": {members: []int32{8, 5}, want: "above@n2 equal@n1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, nil, func(r *rig) {
				r.pod("equal", nominatedFor("n1", 5))
				r.pod("above", nominatedFor("n2", 7))
				// Nominations of its own profile do not count, because Fluence makes none.
				r.pod("mine", nominatedFor("n3", 9), func(p *corev1.Pod) { p.Spec.SchedulerName = profile })
				r.podGroupAPI.put(aPodGroup(g.Name, 2, "pg"))
				var pods []*corev1.Pod
				for i, priority := range tc.members {
					pods = append(pods, r.pod([]string{"g-0", "g-1"}[i], objects.InGroup(g.Name), withPriority(priority)))
				}
				r.give("n1", "n1")
				// The pod of the lowest priority decides for all.
				r.nodeOf(pods[slices.Index(tc.members, slices.Min(tc.members))])
				var got []string
				for _, s := range r.matches()[0].Expected {
					got = append(got, s.Key+"@"+s.Node)
				}
				if strings.Join(got, " ") != tc.want {
					t.Errorf("expected: %v, want %q", got, tc.want)
				}
			})
		})
	}
}

// The nomination takes the amount that the pod requests, and its end is an event that helps.
func TestAGroupWaitsForANominatedPodWithNumbers(t *testing.T) {
	cases := map[string]func(*rig){
		"until it is deleted":                func(r *rig) { r.remove("preemptor") },
		"until its nomination is taken back": func(r *rig) { r.update("preemptor", func(p *corev1.Pod) { p.Status.NominatedNodeName = "" }) },
		"until it has gone somewhere else":   func(r *rig) { r.update("preemptor", objects.OnNode("n2")) },
	}
	for name, end := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.node("n1", 4)
				r.pod("preemptor", nominatedFor("n1", 5), objects.CPU("3"))
				r.gang(2, 2)
				r.schedule()
				r.pass(time.Minute)
				if got := r.assigned(); len(got) > 0 {
					r.Fatalf("on nodes: %v, want none", got)
				}
				const want = "needs 2 pods with cpu 1; room for 1"
				if c := r.scheduledCondition(); c.Reason != reason.NoRoom || !strings.Contains(c.Message, want) {
					t.Errorf("condition %+v, want %s with %q", c, reason.NoRoom, want)
				}
				asked := len(r.matches())
				r.pass(time.Minute)
				if n := len(r.matches()) - asked; n > 0 {
					t.Errorf("%d more matches while nothing happened", n)
				}
				end(r)
				r.pass(2 * time.Second)
				for _, name := range []string{"g-0", "g-1"} {
					if got := r.assigned()[name]; got != "n1" {
						t.Errorf("pod %s is on %q, want n1", name, got)
					}
				}
			})
		})
	}
}

// update changes a pod.
func (r *rig) update(name string, edit ...func(*corev1.Pod)) {
	r.Helper()
	pods := r.client.CoreV1().Pods(ns)
	pod, err := pods.Get(r.ctx, name, metav1.GetOptions{})
	r.must(err)
	pod = pod.DeepCopy()
	for _, e := range edit {
		e(pod)
	}
	_, err = pods.Update(r.ctx, pod, metav1.UpdateOptions{})
	r.must(err)
	r.pass(0)
}
