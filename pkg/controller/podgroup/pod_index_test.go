package podgroup

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/test/trials"
)

// A podWorld is what the API server has, and the index that receives its events.
type podWorld struct {
	*testing.T
	*rand.Rand
	pods  map[string]*corev1.Pod
	index *podIndex
	uids  int
}

// change draws a pod that comes, changes, goes, or is replaced by another of its name. A change is of
// several fields at once, and a replacement without a removal, as after a watch that was interrupted.
func (w *podWorld) change() {
	name := fmt.Sprint("p", w.IntN(12))
	pod := w.pods[name]
	switch what := w.IntN(10); {
	case pod == nil:
		pod = w.newPod(name)
	case what == 0:
		delete(w.pods, name)
		w.index.remove(pod)
		return
	case what == 1:
		pod = w.newPod(name)
	default:
		pod = pod.DeepCopy()
		for range 1 + w.IntN(3) {
			w.edit(pod)
		}
	}
	w.pods[name] = pod
	w.index.set(pod)
}

func (w *podWorld) newPod(name string) *corev1.Pod {
	w.uids++
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pick(w.Rand, "ns", "ns", "other"), Name: name, UID: types.UID(fmt.Sprint(w.uids)), Labels: map[string]string{"job-index": name}}}
	if had := w.pods[name]; had != nil {
		pod.Namespace = had.Namespace // a name is unique in its namespace
	}
	w.edit(pod)
	w.edit(pod)
	return pod
}

// edit changes one thing about a pod that decisions read.
func (w *podWorld) edit(pod *corev1.Pod) {
	label := func(key string, values ...string) {
		if value := pick(w.Rand, append(values, "-")...); value == "-" {
			delete(pod.Labels, key)
		} else {
			pod.Labels[key] = value
		}
	}
	switch w.IntN(8) {
	case 0:
		label(group.Label, "g", "h", "")
	case 1:
		label(group.SizeLabel, "4", "x", "")
	case 2:
		label(group.MinLabel, "2", "")
	case 3:
		pod.Annotations = map[string]string{group.IncompletePolicyAnnotation: pick(w.Rand, "wait", "restart"), "other": pick(w.Rand, "a", "b")}
	case 4:
		pod.Spec.NodeName = pick(w.Rand, "", "n1", "n2")
	case 5:
		pod.Status.Phase = pick(w.Rand, corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed)
	case 6:
		pod.DeletionTimestamp = pick(w.Rand, nil, new(metav1.NewTime(now)))
	case 7:
		pod.OwnerReferences = nil
		if kind := pick(w.Rand, "", "Job", "StatefulSet", "Crew"); kind != "" {
			name := pick(w.Rand, "a", "b")
			ownedBy("v1", kind, name, types.UID(kind+name))(pod)
		}
	}
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// check counts anew what the index has under each name.
func (w *podWorld) check() {
	w.Helper()
	want := map[types.NamespacedName][]*corev1.Pod{}
	for _, pod := range w.pods {
		for _, name := range possibleGroupNames(pod) {
			key := types.NamespacedName{Namespace: pod.Namespace, Name: name}
			want[key] = append(want[key], pod)
		}
	}
	if len(w.index.byName) != len(want) {
		w.Errorf("there are %d names, want %d", len(w.index.byName), len(want))
	}
	for key, pods := range want {
		sets := w.index.under(key.Namespace, key.Name)
		if got := countOf(sets); got != countOf(each(pods)) {
			w.Errorf("%s: counts %+v, want %+v", key, got, countOf(each(pods)))
		}
		have := w.index.all(sets)
		byName := func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) }
		slices.SortFunc(have, byName)
		slices.SortFunc(pods, byName)
		if !slices.Equal(have, pods) {
			w.Errorf("%s: %d pods are in the index, want the %d that exist", key, len(have), len(pods))
		}
		for _, set := range sets {
			for _, pod := range w.index.all([]podSet{set}) {
				w.mustBeAlike(set.pod, pod)
			}
		}
		// Each pod is there once, whichever names it is found by.
		if twice := w.index.under(key.Namespace, key.Name, "h", key.Name); len(w.index.all(twice)) != len(union(pods, want[types.NamespacedName{Namespace: key.Namespace, Name: "h"}])) {
			w.Errorf("%s: %d pods are found by two names", key, len(w.index.all(twice)))
		}
	}
}

// mustBeAlike fails if a decision could read something else of two pods of a set.
func (w *podWorld) mustBeAlike(a, b *corev1.Pod) {
	w.Helper()
	one, other := observation{pods: each([]*corev1.Pod{a})}, observation{pods: each([]*corev1.Pod{b})}
	sizeA, errA := one.userSize()
	sizeB, errB := other.userSize()
	if !slices.Equal(possibleGroupNames(a), possibleGroupNames(b)) || countOf(one.pods) != countOf(other.pods) || sizeA != sizeB || (errA == nil) != (errB == nil) ||
		len(one.livePods()) != len(other.livePods()) || !maps.Equal(group.ProjectAnnotations(a.Annotations), group.ProjectAnnotations(b.Annotations)) ||
		!slices.EqualFunc(group.ControllerReference(a), group.ControllerReference(b), func(x, y metav1.OwnerReference) bool { return x.UID == y.UID && x.Kind == y.Kind && x.Name == y.Name }) {
		w.Errorf("these pods are in one set:\n%+v\n%+v", a, b)
	}
}

func union(a, b []*corev1.Pod) map[*corev1.Pod]bool {
	all := map[*corev1.Pod]bool{}
	for _, pod := range append(slices.Clone(a), b...) {
		all[pod] = true
	}
	return all
}

// After any events the index has what a count of all pods finds.
func TestTheIndexHasWhatThereIs(t *testing.T) {
	for seed := range trials.Seeds(200) {
		w := &podWorld{T: t, Rand: rand.New(rand.NewPCG(seed, 0)), pods: map[string]*corev1.Pod{}, index: newPodIndex()}
		for range 60 {
			w.change()
			w.check()
			if t.Failed() {
				t.Fatalf("-run=%s -seed=%d -trials=1", t.Name(), seed)
			}
		}
		for _, pod := range w.pods {
			w.index.remove(pod)
		}
		if x := w.index; len(x.pods)+len(x.sets)+len(x.byName) > 0 {
			t.Errorf("-seed=%d -trials=1: without pods the index has %d pods, %d sets and %d names", seed, len(x.pods), len(x.sets), len(x.byName))
		}
	}
}
