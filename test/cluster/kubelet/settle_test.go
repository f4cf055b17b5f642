package kubelet

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/test/objects"
)

// told returns verdicts in order: a pod's name, and the reason if it was rejected.
func told(verdicts []verdict) string {
	var out []string
	for _, v := range verdicts {
		out = append(out, strings.TrimSpace(v.pod.Name+" "+v.reason))
	}
	return strings.Join(out, ", ")
}

func TestSettle(t *testing.T) {
	a, b, c := pod("a", "cpu", "4"), pod("b", "cpu", "3"), pod("c", "cpu", "1")
	terminating := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }
	running := objects.InPhase(corev1.PodRunning)
	cases := map[string]struct {
		before []*corev1.Pod // put before the roster is taken
		listed []*corev1.Pod
		during func(*ledger) // called while the list is read
		want   string
		doubt  bool
		after  func(*ledger) []verdict
		then   string
	}{
		"a pod takes the room of one whose removal comes late": {
			before: []*corev1.Pod{a, b}, listed: []*corev1.Pod{b}, want: "b",
		},
		"a pod takes the room of one whose end comes late": {
			before: []*corev1.Pod{a, b}, listed: []*corev1.Pod{with(a, failed), b}, want: "b",
		},
		"a pod is rejected if the other is still there": {
			before: []*corev1.Pod{a, b}, listed: []*corev1.Pod{a, b}, want: "b OutOfcpu",
		},
		"a pod is rejected if the other is terminating": {
			before: []*corev1.Pod{a, b}, listed: []*corev1.Pod{with(a, terminating), b}, want: "b OutOfcpu",
		},
		"a rejection stays when the other goes later": {
			before: []*corev1.Pod{a, b}, listed: []*corev1.Pod{a, b}, want: "b OutOfcpu",
			after: func(l *ledger) []verdict { l.removePod(a); return l.putPod(b) },
		},
		"pods are decided in the order of arrival, whichever would fit": {
			before: []*corev1.Pod{pod("x", "cpu", "1"), a, b, c}, listed: []*corev1.Pod{c, b, a}, want: "a, b OutOfcpu, c OutOfcpu",
		},
		"a pod that is gone itself gets no verdict": {
			before: []*corev1.Pod{a, b, c}, listed: []*corev1.Pod{c}, want: "c",
		},
		"a pod that terminates meanwhile gets no verdict": {
			before: []*corev1.Pod{a, b, c}, listed: []*corev1.Pod{b, c}, want: "c",
			during: func(l *ledger) { l.putPod(with(b, terminating)) },
		},
		"a pod that came after the roster is not rejected by the list": {
			before: []*corev1.Pod{a, b}, listed: []*corev1.Pod{a, b}, want: "b OutOfcpu",
			during: func(l *ledger) { l.putPod(c) }, doubt: true,
			after: func(l *ledger) []verdict { return l.settle("n", l.roster("n"), []*corev1.Pod{c}) }, then: "c",
		},
		"a pod that came after the roster keeps its hold": {
			before: []*corev1.Pod{a, b}, listed: []*corev1.Pod{b}, want: "b OutOfcpu",
			during: func(l *ledger) { l.putPod(with(pod("d", "cpu", "2"), running)) },
		},
		"late news of a pod that is gone charge nothing": {
			before: []*corev1.Pod{a, b}, listed: []*corev1.Pod{b}, want: "b",
			after: func(l *ledger) []verdict {
				return append(append(l.putPod(with(a, running)), l.putPod(a)...), l.putPod(c)...)
			},
			then: "c",
		},
		"a late removal gives nothing back twice": {
			before: []*corev1.Pod{a, b}, listed: []*corev1.Pod{b}, want: "b",
			after: func(l *ledger) []verdict { l.removePod(a); return l.putPod(pod("d", "cpu", "2")) },
		},
		"a node that is gone meanwhile decides nothing": {
			before: []*corev1.Pod{a, b}, listed: []*corev1.Pod{b},
			during: func(l *ledger) { l.removeNode("n") },
			after:  func(l *ledger) []verdict { return l.putNode(node("cpu", "4", "pods", "9")) }, then: "b",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			l.putNode(node("cpu", "4", "pods", "9"))
			for i, p := range tc.before {
				if got := told(l.putPod(p)); i > 0 && p != a && got != "" {
					t.Fatalf("pod %s: verdicts %q before the node is settled", p.Name, got)
				}
			}
			before := l.roster("n")
			if tc.during != nil {
				tc.during(l)
			}
			if diff := cmp.Diff(tc.want, told(l.settle("n", before, tc.listed))); diff != "" {
				t.Errorf("verdicts (-want +got):\n%s", diff)
			}
			if got := l.inDoubt("n"); got != tc.doubt {
				t.Errorf("in doubt: %t, want %t", got, tc.doubt)
			}
			if tc.after == nil {
				return
			}
			if diff := cmp.Diff(tc.then, told(tc.after(l))); diff != "" {
				t.Errorf("verdicts after that (-want +got):\n%s", diff)
			}
		})
	}
}

func TestALaterPodTakesNoRoomOfOneInDoubt(t *testing.T) {
	l := newLedger()
	l.putNode(node("cpu", "4", "pods", "9"))
	l.putPod(pod("a", "cpu", "2"))
	if got := told(append(l.putPod(pod("b", "cpu", "3")), l.putPod(pod("c", "cpu", "2"))...)); got != "" {
		t.Errorf("verdicts %q while b is in doubt", got)
	}
	if got := told(l.putNode(node("cpu", "5", "pods", "9"))); got != "b" {
		t.Errorf("verdicts %q once the node has grown, want b", got)
	}
	if !l.inDoubt("n") {
		t.Error("c does not fit behind b, and is not in doubt")
	}
}
