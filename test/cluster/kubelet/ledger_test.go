package kubelet

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/test/objects"
)

func node(pairs ...string) *corev1.Node {
	return objects.ReadyNode("n", 0, objects.Having(pairs...))
}

func pod(name string, pairs ...string) *corev1.Pod {
	return objects.Pod(name, objects.CreatedOn("n"), objects.Asking(pairs...))
}

func with(p *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
	p = p.DeepCopy()
	change(p)
	return p
}

func failed(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }

// step is an event and the expected verdicts after it, by the pod's name: ""
// for admitted, otherwise the reason. A node in doubt is settled at once.
type step struct {
	put, remove *corev1.Pod
	node        *corev1.Node
	want        map[string]string
}

func TestLedger(t *testing.T) {
	small := node("cpu", "4", "memory", "1Gi", "pods", "3")
	cases := map[string][]step{
		"pods are admitted in order of arrival while they fit": {
			{node: small},
			{put: pod("a", "cpu", "3"), want: map[string]string{"a": ""}},
			{put: pod("b", "cpu", "2"), want: map[string]string{"b": "OutOfcpu"}},
			{put: pod("c", "cpu", "1"), want: map[string]string{"c": ""}},
		},
		"each resource has its reason": {
			{node: node("cpu", "4", "memory", "1Gi", "pods", "3", "example.com/gpu", "2")},
			{put: pod("a", "memory", "2Gi"), want: map[string]string{"a": "OutOfmemory"}},
			{put: pod("b", "example.com/gpu", "3"), want: map[string]string{"b": "OutOfexample.com/gpu"}},
			{put: pod("c", "ephemeral-storage", "1"), want: map[string]string{"c": "OutOfephemeral-storage"}},
			{put: pod("d", "cpu", "9", "memory", "9Gi", "example.com/gpu", "9"), want: map[string]string{"d": "OutOfcpu"}},
		},
		"the node's number of pods is a limit, and named first": {
			{node: node("cpu", "1", "pods", "1")},
			{put: pod("a"), want: map[string]string{"a": ""}},
			{put: pod("b", "cpu", "2"), want: map[string]string{"b": "OutOfpods"}},
		},
		"a pod that ends or goes gives its share back": {
			{node: small},
			{put: pod("a", "cpu", "4"), want: map[string]string{"a": ""}},
			{put: with(pod("a", "cpu", "4"), failed)},
			{put: pod("b", "cpu", "4"), want: map[string]string{"b": ""}},
			{remove: pod("b")},
			{put: pod("c", "cpu", "4"), want: map[string]string{"c": ""}},
		},
		"a rejection is final, and holds nothing": {
			{node: small},
			{put: pod("a", "cpu", "4"), want: map[string]string{"a": ""}},
			{put: pod("b", "cpu", "1"), want: map[string]string{"b": "OutOfcpu"}},
			{remove: pod("a")},
			{put: pod("b", "cpu", "1")},
			{put: with(pod("b", "cpu", "1"), failed)},
			{put: pod("c", "cpu", "4"), want: map[string]string{"c": ""}},
		},
		"a terminating pod holds until it is gone": {
			{node: small},
			{put: pod("a", "cpu", "4"), want: map[string]string{"a": ""}},
			{put: with(pod("a", "cpu", "4"), func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} })},
			{put: pod("b", "cpu", "1"), want: map[string]string{"b": "OutOfcpu"}},
		},
		"pods wait for a node that is not known yet": {
			{put: pod("a", "cpu", "3")},
			{put: pod("b", "cpu", "3")},
			{put: pod("a", "cpu", "3")}, // again, in its old place
			{put: pod("c", "cpu", "1")},
			{remove: pod("c")},
			{node: small, want: map[string]string{"a": "", "b": "OutOfcpu"}},
		},
		"a pod that runs already is charged without a verdict": {
			{node: small},
			{put: with(pod("a", "cpu", "5"), objects.InPhase(corev1.PodRunning))},
			{put: pod("b", "cpu", "1"), want: map[string]string{"b": "OutOfcpu"}},
		},
		"what was admitted stays when the node shrinks": {
			{node: small},
			{put: pod("a", "cpu", "3"), want: map[string]string{"a": ""}},
			{node: node("cpu", "2", "pods", "3")},
			{put: pod("a", "cpu", "3")},
			{put: pod("b", "cpu", "1"), want: map[string]string{"b": "OutOfcpu"}},
		},
		"a resize is charged": {
			{node: small},
			{put: pod("a", "cpu", "1"), want: map[string]string{"a": ""}},
			{put: pod("a", "cpu", "4")},
			{put: pod("b", "cpu", "1"), want: map[string]string{"b": "OutOfcpu"}},
			{put: pod("a", "cpu", "2")},
			{put: pod("c", "cpu", "2"), want: map[string]string{"c": ""}},
		},
	}
	for name, steps := range cases {
		t.Run(name, func(t *testing.T) {
			l, present := newLedger(), map[types.UID]*corev1.Pod{}
			for i, s := range steps {
				var verdicts []verdict
				switch {
				case s.node != nil:
					verdicts = l.putNode(s.node)
				case s.put != nil:
					present[s.put.UID] = s.put
					verdicts = l.putPod(s.put)
				default:
					delete(present, s.remove.UID)
					l.removePod(s.remove)
				}
				if l.inDoubt("n") {
					verdicts = append(verdicts, l.settle("n", l.roster("n"), slices.Collect(maps.Values(present)))...)
				}
				got := map[string]string{}
				for _, v := range verdicts {
					got[v.pod.Name] = v.reason
					if v.admitted != (v.reason == "") {
						t.Errorf("step %d: admitted %t for reason %q", i, v.admitted, v.reason)
					}
				}
				if s.want == nil {
					s.want = map[string]string{}
				}
				if diff := cmp.Diff(s.want, got); diff != "" {
					t.Errorf("step %d: verdicts (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

func TestARejectionSaysWhatAKubeletSays(t *testing.T) {
	l := newLedger()
	l.putNode(node("cpu", "4", "pods", "10"))
	a, b := pod("a", "cpu", "3"), pod("b", "cpu", "2")
	l.putPod(a)
	l.putPod(b)
	v := l.settle("n", l.roster("n"), []*corev1.Pod{a, b})[0]
	if want := "Pod was rejected: Node didn't have enough resource: cpu, requested: 2000, used: 3000, capacity: 4000"; v.message != want {
		t.Errorf("message %q, want %q", v.message, want)
	}
}

func TestEndOf(t *testing.T) {
	admitted := time.Date(2030, 1, 2, 3, 4, 5, 600, time.UTC)
	cases := map[string]struct {
		annotations map[string]string
		deadline    *int64
		want        *corev1.PodCondition
	}{
		"no annotation, no end": {},
		"a deadline": {
			annotations: map[string]string{RunFor: "1m"},
			deadline:    new(int64(10)),
			want:        &corev1.PodCondition{Type: Ends, Status: corev1.ConditionTrue, Reason: DeadlineExceeded, Message: "2030-01-02T03:04:15.0000006Z"},
		},
		"an end before the deadline": {
			annotations: map[string]string{RunFor: "2s"},
			deadline:    new(int64(10)),
			want:        &corev1.PodCondition{Type: Ends, Status: corev1.ConditionTrue, Reason: "Succeeded", Message: "2030-01-02T03:04:07.0000006Z"},
		},
		"success": {
			annotations: map[string]string{RunFor: "1m"},
			want:        &corev1.PodCondition{Type: Ends, Status: corev1.ConditionTrue, Reason: "Succeeded", Message: "2030-01-02T03:05:05.0000006Z"},
		},
		"failure": {
			annotations: map[string]string{FailAfter: "500ms"},
			want:        &corev1.PodCondition{Type: Ends, Status: corev1.ConditionTrue, Reason: "Failed", Message: "2030-01-02T03:04:05.5000006Z"},
		},
		"the earlier of both": {
			annotations: map[string]string{RunFor: "2s", FailAfter: "1s"},
			want:        &corev1.PodCondition{Type: Ends, Status: corev1.ConditionTrue, Reason: "Failed", Message: "2030-01-02T03:04:06.0000006Z"},
		},
		"a typing error": {
			annotations: map[string]string{RunFor: "2 s"},
			want:        &corev1.PodCondition{Type: Ends, Status: corev1.ConditionFalse, Reason: "BadAnnotation", Message: RunFor + `: time: unknown unit " s" in duration "2 s"`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := pod("a")
			p.Annotations, p.Spec.ActiveDeadlineSeconds = tc.annotations, tc.deadline
			if diff := cmp.Diff(tc.want, endOf(p, admitted)); diff != "" {
				t.Errorf("endOf() (-want +got):\n%s", diff)
			}
		})
	}
}
