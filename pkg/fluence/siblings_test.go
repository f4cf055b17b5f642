package fluence

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/test/objects"
)

// unscheduled returns the message of the condition
// PodScheduled=False of a pod, or "" if the pod has none.
func (r *rig) unscheduled(name string) string {
	r.Helper()
	pod, err := r.client.CoreV1().Pods(ns).Get(r.ctx, name, metav1.GetOptions{})
	r.must(err)
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return c.Message
		}
	}
	return ""
}

// podStatusWrites returns the number of writes of pods' conditions.
func (r *rig) podStatusWrites() int {
	n := 0
	for _, a := range r.client.Actions() {
		if p, ok := a.(clienttesting.PatchAction); ok && p.GetResource().Resource == "pods" && p.GetSubresource() == "status" {
			n++
		}
	}
	return n
}

// TestAllPodsOfAGroupSayThatThereIsNoRoom: autoscalers count pods with this condition.
func TestAllPodsOfAGroupSayThatThereIsNoRoom(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 4)
		r.pod("old", objects.CPU("2"), objects.OnNode("n1"))
		r.pod("small", objects.OnNode("n1"))
		r.pass(time.Second)
		r.schedule()
		r.gang(3, 3)
		const room1 = "needs 3 pods with cpu 1; room for 1: cpu is not enough for all pods (at most 1 free on a node)"
		r.pass(4 * time.Second)
		if a, b := r.unscheduled("g-0"), r.unscheduled("g-1"); !strings.Contains(a, room1) || b != "" {
			t.Errorf("at once the pods say %q and %q, want the one that asks alone to say that there is no room", a, b)
		}
		r.pass(12 * time.Second)
		for _, name := range []string{"g-0", "g-1", "g-2"} {
			if got := r.unscheduled(name); !strings.Contains(got, room1) {
				t.Errorf("pod %s says %q, want %q", name, got, room1)
			}
		}
		// Nothing is written again, not even another number.
		before := r.podStatusWrites()
		r.remove("small")
		r.pass(time.Minute)
		if got := r.unscheduled("g-0"); !strings.Contains(got, "room for 2") {
			t.Errorf("the one that asks says %q, want the new number", got)
		}
		if got := r.podStatusWrites() - before; got > 1 {
			t.Errorf("%d pods were told again, want at the most the one that asks", got)
		}
		// The new reason is reported, although more room would not help.
		r.remove("g-2")
		r.pass(12 * time.Second)
		if got, want := r.unscheduled("g-1"), "waits for 1 more pod: has 2 of minMember 3"; got != want {
			t.Errorf("pod g-1 says %q, want %q", got, want)
		}
	})
}

// The pods of an array that started have the condition, too, and not only the one that was tried.
func TestTheWaitingPodsOfAnArraySayThatThereIsNoRoom(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 2)
		r.gang(1, 6, func(p *corev1.Pod) { p.Annotations = map[string]string{group.ArrayAnnotation: "true"} })
		r.schedule()
		r.pass(12 * time.Second)
		for i := range 6 {
			name := fmt.Sprintf("g-%d", i)
			if got := r.unscheduled(name); !r.runs(name) && !strings.Contains(got, "room for 0") {
				t.Errorf("pod %s says %q, want that there is no room", name, got)
			}
		}
		before := r.podStatusWrites()
		r.pass(time.Minute)
		if got := r.podStatusWrites() - before; got > 1 {
			t.Errorf("%d pods were told again, want at the most the one that asks", got)
		}
	})
}

func TestSiblingsAreReportedByTheLeaderAlone(t *testing.T) {
	cases := map[string]struct {
		refuse    error
		standby   bool
		minMember int32 // more than the three existing pods; 0 means three
		want      int
	}{
		"there is no room": {refuse: match.ErrBusy, want: 2},
		"it never fits":    {refuse: match.ErrUnsatisfiable, want: 2},
		"a pod is missing": {refuse: match.ErrBusy, minMember: 4},
		"another decides":  {refuse: match.ErrBusy, standby: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, nil, func(r *rig) {
				r.standby.Store(tc.standby)
				pods := r.gang(max(3, tc.minMember), 3)
				r.matcherFake.Refuse(tc.refuse, match.Reason{Code: match.TooFew, Wanted: 3, WaitingHelps: true})
				r.preFilter(pods[0])
				r.pass(12 * time.Second)
				if got := r.podStatusWrites(); got != tc.want {
					t.Errorf("%d pods were told, want %d", got, tc.want)
				}
			})
		})
	}
}

// A large group has many siblings. Their statuses are written at siblingReportRate, which the API server bears.
func TestSiblingsAreToldAtALimitedRate(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		const siblings = 300
		pods := r.gang(siblings+1, siblings+1)
		r.matcherFake.Refuse(match.ErrBusy, match.Reason{Code: match.TooFew, Wanted: siblings + 1, WaitingHelps: true})
		r.preFilter(pods[0])
		r.pass(siblingReportEvery)
		var told, most int
		for range 20 {
			before := told
			r.pass(time.Second)
			told = r.podStatusWrites()
			most = max(most, told-before)
		}
		// A round begins at once after one that took long. It may not see the last write yet, and repeats it.
		if told < siblings || told > siblings+1 || most > siblingReportRate+1 {
			t.Errorf("%d writes to %d siblings, at most %d in a second; want one each, and at most %d in a second", told, siblings, most, siblingReportRate)
		}
	})
}

// The pods of a group that waits are not written to whenever another group has its turn.
func TestReservationsOfOthersMakeNoNewMessage(t *testing.T) {
	const text = "needs 2 pods with cpu 1; room for 0"
	for _, nodes := range []int{1, 2, 1000} {
		for _, group := range []string{"ns/big", "a group of another namespace (priority -5)"} {
			for _, waited := range []time.Duration{time.Second, 10 * time.Minute, 3*time.Hour + 4*time.Minute, 50 * time.Hour} {
				more := text + "; " + describeReserved(nodes, group, waited)
				if got := report.StableText(more); got != report.StableText(text) {
					t.Errorf("the stable text of %q is %q", more, got)
				}
			}
		}
	}
}
