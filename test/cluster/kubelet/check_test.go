package kubelet

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/flux-k8s/fluence/test/objects"
)

func TestCheck(t *testing.T) {
	a, b := pod("a", "cpu", "4"), pod("b", "cpu", "4")
	cases := map[string]struct {
		listed []corev1.Pod
		err    error
		want   []mark
	}{
		"admits when the pod in the way is gone": {
			listed: []corev1.Pod{*b},
			want:   []mark{{uid: "b", condition: corev1.PodCondition{Status: corev1.ConditionTrue, Reason: "Fits"}}},
		},
		"rejects when it is there": {
			listed: []corev1.Pod{*a, *b},
			want:   []mark{{uid: "b", condition: corev1.PodCondition{Status: corev1.ConditionFalse, Reason: "OutOfcpu"}}},
		},
		"says nothing without a list": {err: errors.New("no answer")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			k := newKubelet(client)
			defer k.doubts.ShutDown()
			defer k.queue.ShutDown()
			client.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				list := action.(clienttesting.ListActionImpl)
				if got := list.ListRestrictions.Fields.String(); got != "spec.nodeName=n" {
					t.Errorf("listed pods by %q", got)
				}
				if got := list.ListOptions.ResourceVersion; got != "" {
					t.Errorf("listed pods of version %q, want the most recent", got)
				}
				if !k.mu.TryLock() {
					t.Error("listed pods under the lock")
				} else {
					k.mu.Unlock()
				}
				return true, &corev1.PodList{Items: tc.listed}, tc.err
			})
			k.begin(t.Context())
			k.putNode(t.Context(), node("cpu", "4", "pods", "9"))
			k.putPod(t.Context(), a)
			k.putPod(t.Context(), b)
			key := types.NamespacedName{Namespace: objects.Namespace, Name: "b"}
			if got := k.unsaid[key]; got != nil {
				t.Fatalf("said %v before the node was settled", got)
			}
			if got := k.doubts.Len(); got != 1 {
				t.Fatalf("%d nodes to settle, want 1", got)
			}
			if err := k.settle(t.Context(), "n"); !errors.Is(err, tc.err) {
				t.Fatalf("settle: %v, want %v", err, tc.err)
			}
			got := k.unsaid[key]
			if len(got) != len(tc.want) {
				t.Fatalf("said %v, want %v", got, tc.want)
			}
			for i, w := range tc.want {
				if g := got[i]; g.uid != w.uid || g.condition.Status != w.condition.Status || g.condition.Reason != w.condition.Reason {
					t.Errorf("said %v, want %v", g, w)
				}
			}
		})
	}
}

func TestAPodThatReplacesAnotherOfItsNameEndsItsHold(t *testing.T) {
	k := newKubelet(fake.NewClientset())
	defer k.doubts.ShutDown()
	defer k.queue.ShutDown()
	k.begin(t.Context())
	k.putNode(t.Context(), node("cpu", "4", "pods", "9"))
	was := pod("a", "cpu", "4")
	k.putPod(t.Context(), was)
	k.replacePod(t.Context(), was, with(was, func(p *corev1.Pod) { p.UID = "new" }))
	if _, ok := k.at["new"]; !ok {
		t.Error("the new pod was not admitted")
	}
}
