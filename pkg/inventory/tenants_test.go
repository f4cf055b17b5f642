package inventory

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/flux-k8s/fluence/pkg/match/matchtest"
)

// Whether a node of two CPUs has room for one more, by what happened there.
func TestANodeIsShortByWhatIsThereAndWhatWasSent(t *testing.T) {
	mate := pod("mate", "m", "", "1")
	cases := map[string]struct {
		happens func(w *world)
		// short is what there is too little of for a pod of one CPU.
		short string
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
			w.pods.update(pod("b", "b", "n1", "1", phase(corev1.PodSucceeded)))
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
			w.pods.add(pod("a", "a", "n1", "2"))
			w.BindSent(pod("a", "a", "", "1"), "n1")
		}, "cpu 1 wanted, 0 of 2 free"},
		"it is told of on another node": {func(w *world) {
			w.BindSent(pod("a", "a", "", "2"), "n1")
			w.pods.add(pod("a", "a", "n2", "2"))
		}, ""},
		"it fails": {func(w *world) {
			w.BindSent(pod("a", "a", "", "2"), "n1")
			w.BindFailed(pod("a", "a", "", "2"))
		}, ""},
		"it fails, as it seems, and is told of": {func(w *world) {
			w.BindSent(pod("a", "a", "", "2"), "n1")
			w.pods.add(pod("a", "a", "n1", "2"))
			w.BindFailed(pod("a", "a", "", "2"))
		}, "cpu 1 wanted, 0 of 2 free"},
		"another of its name failed": {func(w *world) {
			w.BindSent(pod("a", "a", "", "2"), "n1")
			w.BindFailed(pod("a", "other", "", "2"))
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
			w.pods.update(pod("a", "a", "n1", "2", phase(corev1.PodFailed)))
		}, ""},
		"its pod was deleted and another has its name": {func(w *world) {
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
				if got := w.Short("n1", mate); got != tc.short {
					t.Errorf("short of %q, want %q", got, tc.short)
				}
				w.pods.remove(pod("a", "a", "n1", "1"))
				w.pods.remove(pod("b", "b", "n1", "1"))
				w.BindFailed(mate)
				if n := len(w.tenants.pods) + len(w.tenants.nodes); n > 0 {
					t.Errorf("%d pods and nodes are kept of pods that are gone: %+v", n, w.tenants)
				}
			})
		})
	}
}

// Pods that are asked about together share what is free.
func TestANodeIsShortForPodsTogether(t *testing.T) {
	run(t, matchtest.NewFake, nil, func(w *world) {
		w.nodes.add(node("n1", "3"))
		w.begin()
		a, b := pod("a", "a", "", "1"), pod("b", "b", "", "2")
		w.BindSent(a, "n1")
		if got := w.Short("n1", a, b); got != "" {
			t.Errorf("short of %q, want room for both", got)
		}
		w.pods.add(pod("c", "c", "n1", "500m"))
		if got, want := w.Short("n1", a, b), "cpu 3 wanted, 2500m of 3 free"; got != want {
			t.Errorf("short of %q, want %q", got, want)
		}
	})
}
