package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/translate"
	"github.com/flux-k8s/fluence/test/objects"
)

// Whether a node of two CPUs has room for one more, after what happened there.
func TestWhatANodeLacksIsByWhatIsThereAndWhatWasSent(t *testing.T) {
	mate := pod("mate", "m", "", "1")
	cases := map[string]struct {
		happens func(w *world)
		// lacking is the answer for a pod of one CPU.
		lacking string
	}{
		"nothing": {func(*world) {}, ""},
		"one is there": {func(w *world) {
			w.pods.add(pod("a", "a", "n1", "1"))
		}, ""},
		"two are there": {func(w *world) {
			w.pods.add(pod("a", "a", "n1", "1"), pod("b", "b", "n1", "1"))
		}, "cpu 1 wanted, 0 of 2 free"},
		"one of them ends": {func(w *world) {
			w.pods.add(pod("a", "a", "n1", "1"), pod("b", "b", "n1", "1"))
			w.pods.update(pod("b", "b", "n1", "1", objects.InPhase(corev1.PodSucceeded)))
		}, ""},
		"one of them is deleted": {func(w *world) {
			w.pods.add(pod("a", "a", "n1", "1"), pod("b", "b", "n1", "1"))
			w.pods.remove(pod("b", "b", "n1", "1"))
		}, ""},
		"one of them shrinks": {func(w *world) {
			w.pods.add(pod("a", "a", "n1", "2"))
			w.pods.update(pod("a", "a", "n1", "1"))
		}, ""},
		"they are elsewhere": {func(w *world) {
			w.pods.add(pod("a", "a", "n2", "1"), pod("b", "b", "n2", "1"))
		}, ""},
		"a bind is sent": {func(w *world) {
			w.BindSent(pod("a", "a", "", "1.5"), "n1")
		}, "cpu 1 wanted, 500m of 2 free"},
		"and is told of": {func(w *world) {
			w.BindSent(pod("a", "a", "", "1"), "n1")
			w.pods.add(pod("a", "a", "n1", "1"))
		}, ""},
		"it was told of before": {func(w *world) {
			w.pods.add(pod("a", "a", "n1", "1"))
			w.BindSent(pod("a", "a", "", "1"), "n1")
		}, ""},
		"it is told of on another node": {func(w *world) {
			w.BindSent(pod("a", "a", "", "2"), "n1")
			w.pods.add(pod("a", "a", "n2", "2"))
		}, ""},
		"it fails": {func(w *world) {
			w.BindSent(pod("a", "a", "", "2"), "n1")
			w.ForgetBind(pod("a", "a", "", "2"))
		}, ""},
		"it fails, as it seems, and is told of": {func(w *world) {
			w.BindSent(pod("a", "a", "", "2"), "n1")
			w.pods.add(pod("a", "a", "n1", "2"))
			w.ForgetBind(pod("a", "a", "", "2"))
		}, "cpu 1 wanted, 0 of 2 free"},
		"it is sent where another of its name was": {func(w *world) {
			w.pods.add(pod("a", "other", "n1", "1"))
			w.BindSent(pod("a", "a", "", "1"), "n1")
		}, "cpu 1 wanted, 0 of 2 free"},
		"the other, which waited, is told of as gone": {func(w *world) {
			w.pods.add(pod("a", "other", "", "1"))
			w.BindSent(pod("a", "a", "", "2"), "n1")
			w.pods.remove(pod("a", "other", "", "1"))
		}, "cpu 1 wanted, 0 of 2 free"},
		"the other, which waited, changes": {func(w *world) {
			w.pods.add(pod("a", "other", "", "1"))
			w.BindSent(pod("a", "a", "", "2"), "n1")
			w.pods.update(pod("a", "other", "", "1"))
		}, "cpu 1 wanted, 0 of 2 free"},
		"another that has its name is bound elsewhere and goes": {func(w *world) {
			w.pods.add(pod("a", "a", "", "2"))
			w.BindSent(pod("a", "a", "", "2"), "n1")
			w.pods.update(pod("a", "other", "n2", "1"))
			w.pods.remove(pod("a", "other", "n2", "1"))
		}, ""},
		"the other is told of as gone": {func(w *world) {
			w.pods.add(pod("a", "other", "n1", "1"))
			w.BindSent(pod("a", "a", "", "2"), "n1")
			w.pods.remove(pod("a", "other", "n1", "1"))
		}, "cpu 1 wanted, 0 of 2 free"},
		"the amounts exceed all numbers": {func(w *world) {
			w.pods.add(pod("a", "a", "n1", "9e15"))
			w.BindSent(pod("b", "b", "", "9e15"), "n1")
		}, "cpu 1 wanted, 0 of 2 free"},
		"another of its name failed": {func(w *world) {
			w.BindSent(pod("a", "a", "", "2"), "n1")
			w.ForgetBind(pod("a", "other", "", "2"))
		}, "cpu 1 wanted, 0 of 2 free"},
		"its pod changes before it is told of": {func(w *world) {
			w.BindSent(pod("a", "a", "", "2"), "n1")
			w.pods.update(pod("a", "a", "", "2"))
		}, "cpu 1 wanted, 0 of 2 free"},
		"its pod is deleted": {func(w *world) {
			w.BindSent(pod("a", "a", "", "2"), "n1")
			w.pods.remove(pod("a", "a", "n1", "2"))
		}, ""},
		"its pod ends before anything else is told": {func(w *world) {
			w.BindSent(pod("a", "a", "", "2"), "n1")
			w.pods.update(pod("a", "a", "n1", "2", objects.InPhase(corev1.PodFailed)))
		}, ""},
		"its pod was deleted and another has its name": {func(w *world) {
			w.pods.add(pod("a", "a", "", "2"))
			w.BindSent(pod("a", "a", "", "2"), "n1")
			w.pods.update(pod("a", "other", "", "2"))
		}, ""},
		"a pod with a node came to wait under its name": {func(w *world) {
			w.pods.add(pod("a", "a", "n1", "2"))
			w.pods.update(pod("a", "a", "", "2"))
		}, ""},
		"what is asked about is there": {func(w *world) {
			w.BindSent(mate, "n1")
			w.pods.add(pod("a", "a", "n1", "1"))
		}, ""},
		"the node shrinks": {func(w *world) {
			w.nodes.update(node("n1", "500m"))
		}, "cpu 1 wanted, 500m of 500m free"},
		"the node shrinks below what is there": {func(w *world) {
			w.pods.add(pod("a", "a", "n1", "1"))
			w.nodes.update(node("n1", "500m"))
		}, "cpu 1 wanted, 0 of 500m free"},
		"the node goes": {func(w *world) {
			w.pods.add(pod("a", "a", "n1", "2"))
			w.nodes.remove(node("n1", "2"))
		}, ""},
		"pods fill it whatever they ask for": {func(w *world) {
			n := node("n1", "2")
			n.Status.Allocatable[corev1.ResourcePods] = apiresource.MustParse("1")
			w.nodes.update(n)
			w.pods.add(pod("a", "a", "n1", "0"))
		}, "pods 1 wanted, 0 of 1 free"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run(t, matchtest.NewFake, nil, func(w *world) {
				w.nodes.add(node("n1", "2"), node("n2", "2"))
				w.begin()
				tc.happens(w)
				if got := w.WhyNoRoom("n1", mate); got != tc.lacking {
					t.Errorf("lacking %q, want %q", got, tc.lacking)
				}
			})
		})
	}
}

// Pods that are checked together share what is free.
func TestWhatANodeLacksForPodsTogether(t *testing.T) {
	run(t, matchtest.NewFake, nil, func(w *world) {
		w.nodes.add(node("n1", "3"))
		w.begin()
		a, b := pod("a", "a", "", "1"), pod("b", "b", "", "2")
		w.BindSent(a, "n1")
		if got := w.WhyNoRoom("n1", a, b); got != "" {
			t.Errorf("lacking %q, want room for both", got)
		}
		w.pods.add(pod("c", "c", "n1", "500m"))
		if got, want := w.WhyNoRoom("n1", a, b), "cpu 3 wanted, 2500m of 3 free"; got != want {
			t.Errorf("lacking %q, want %q", got, want)
		}
	})
}

// misplaced returns in words where the pods that an
// inventory has on each node differ from the given ones.
func misplaced(i *Inventory, pods []*corev1.Pod) string {
	want := map[string]sets.Set[types.NamespacedName]{}
	for _, p := range pods {
		if !translate.Holds(p) {
			continue
		}
		if want[p.Spec.NodeName] == nil {
			want[p.Spec.NodeName] = sets.New[types.NamespacedName]()
		}
		want[p.Spec.NodeName].Insert(nameOf(p))
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if diff := cmp.Diff(want, i.podsOn); diff != "" {
		return "on nodes (-cluster +inventory):\n" + diff
	}
	return ""
}

// The inventory forgets pods that are gone.
func TestNothingIsKeptOfPodsThatAreGone(t *testing.T) {
	run(t, matchtest.NewFake, nil, func(w *world) {
		w.begin()
		for _, gone := range []func(p *corev1.Pod){
			func(p *corev1.Pod) { w.pods.remove(p) },
			func(p *corev1.Pod) { w.pods.lose("default/" + p.Name) },
			func(p *corev1.Pod) { w.pods.update(pod(p.Name, p.UID, "n1", "1", objects.InPhase(corev1.PodFailed))) },
			func(p *corev1.Pod) { w.pods.update(pod(p.Name, "other", "", "1")) },
		} {
			for _, there := range []func(p *corev1.Pod){
				func(p *corev1.Pod) { w.pods.add(pod(p.Name, p.UID, "n1", "1")) },
				func(p *corev1.Pod) { w.BindSent(p, "n1") },
			} {
				p := pod("a", "a", "", "1")
				w.pods.add(p)
				there(p)
				gone(p)
				if len(w.podsOn)+len(w.sentBinds)+len(w.Inventory.pods) > 0 {
					t.Fatalf("kept: %v, %v, %v", w.podsOn, w.sentBinds, w.Inventory.pods)
				}
			}
		}
	})
}
