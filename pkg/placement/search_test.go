package placement

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/placement/interpod"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
)

// Reserved nodes also block a group whose pods the filters reject on the other nodes.
// The group retries when the reservation has ended.
func TestRejectionRefusalNamesReservations(t *testing.T) {
	turns := []gang.Turn{{Namespace: "first"}}
	q := &attempt{cluster: ClusterState{Reserved: Reservations{Nodes: []string{"n1"}, Messages: []string{"1 node is reserved"}, Turns: turns}}}
	refused := q.rejectionRefusal("the filters say no")
	if refused.Message != "the filters say no; 1 node is reserved" || !slices.Contains(refused.RetryOn, gang.ReservationEnded) {
		t.Errorf("it is refused %+v", refused)
	}
	if !slices.Equal(q.blockingTurns, turns) {
		t.Errorf("contested is what is reserved for %v, want %v", q.blockingTurns, turns)
	}
}

// A group with too many constraints gets a message about these. A group whose budget
// is used up gets a message about that.
func TestBudgetRefusalMessages(t *testing.T) {
	const half = 33
	for name, tc := range map[string]struct {
		apart int
		most  time.Duration
		want  string
	}{
		"too many ways": {half, time.Hour, "its anti-affinity terms or host ports make more than 1024 sets of pods that exclude each other: use one anti-affinity term that selects all of them"},
		"its time":      {1, -time.Second, "finding nodes for 2 pods of 2 kinds takes longer than -1s: use fewer kinds of pods, affinity terms or spread constraints"},
	} {
		t.Run(name, func(t *testing.T) {
			var shapes []*interpod.Shape
			for i := range 2 * tc.apart {
				pod := objects.Pod(fmt.Sprint(i), objects.OfApp(fmt.Sprint(i)), func(p *corev1.Pod) {
					var terms []corev1.PodAffinityTerm
					for j := range tc.apart {
						terms = append(terms, objects.TermOn(corev1.LabelHostname, fmt.Sprint(tc.apart-i/tc.apart*tc.apart+j)))
					}
					p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
				})
				shapes = append(shapes, &interpod.Shape{Pods: []*corev1.Pod{pod}, Required: 1})
			}
			siblings, err := interpod.New(shapes, false, "", nil, nil, func(string) labels.Set { return nil }, func() bool { return false })
			if err != nil {
				t.Fatal(err)
			}
			siblings.Alternatives(nil, make([]map[string]bool, len(shapes)), 1)
			q := &attempt{shapes: shapes, constraints: siblings, budget: NewBudget(t.Context(), time.Now, time.Now(), tc.most)}
			q.budget.sizeText = "2 pods of 2 kinds"
			if got := q.budgetRefusal(); got.Reason != reason.TooHard || got.Message != tc.want {
				t.Errorf("it is refused %+v, want %q", got, tc.want)
			}
		})
	}
}
