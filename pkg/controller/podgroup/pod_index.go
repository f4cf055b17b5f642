package podgroup

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
)

// A podIndex has the pods of the cache, in sets of pods that are alike. The events of pods keep it
// up to date, each at a constant cost. A group has few sets, however many pods it has, so that a
// reconcile does not read each pod: see podSet.
//
// Pods of StatefulSets are in a set each. Any of them may lead a unit of a LeaderWorkerSet, which is
// named for its leader.
type podIndex struct {
	mu   sync.RWMutex
	pods map[types.NamespacedName]*indexedPod
	sets map[podTraits]*alikePods
	// byName has the sets under the possibleGroupNames of their pods.
	byName map[types.NamespacedName]map[*alikePods]struct{}
	// lost has a member that was lost, under the possibleGroupNames of the pod. See takeLost.
	lost map[types.NamespacedName]lostMember
}

// An indexedPod is a pod, and its place in its set.
type indexedPod struct {
	pod *corev1.Pod
	set *alikePods
	at  int
}

// alikePods is a set of pods with the same traits, and so with the same possibleGroupNames.
type alikePods struct {
	traits podTraits
	names  []string
	pods   []*indexedPod
}

// A podSet is a number of pods of a group that are alike.
type podSet struct {
	// pod is one of the pods. It is the same one for as long as it is in the set. It is the
	// cache's own and must not be changed.
	pod *corev1.Pod
	// n is the number of the pods. It is not zero.
	n int32
	// traits are what the pods have in common.
	traits podTraits
}

// podTraits is what decisions read of a pod, apart from its name in messages.
type podTraits struct {
	namespace, apiVersion, kind, owner string
	ownerUID                           types.UID
	// name and uid are the pod's own if it is a pod of a StatefulSet.
	name string
	uid  types.UID
	// labels and annotations have the keys and values of package group.
	labels, annotations string
	// native is the native PodGroup that the pod names.
	native           string
	phase            corev1.PodPhase
	onNode, deleting bool
}

// decidingLabels are the labels of pods that are read.
var decidingLabels = [...]string{group.Label, group.SizeLabel, group.MinLabel}

func traitsOf(pod *corev1.Pod) podTraits {
	t := podTraits{
		namespace: pod.Namespace, phase: pod.Status.Phase, native: group.NativePodGroupOf(&pod.Spec),
		onNode: pod.Spec.NodeName != "", deleting: pod.DeletionTimestamp != nil,
	}
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		t.apiVersion, t.kind, t.owner, t.ownerUID = ref.APIVersion, ref.Kind, ref.Name, ref.UID
		if ref.Kind == "StatefulSet" {
			t.name, t.uid = pod.Name, pod.UID
		}
	}
	var labels strings.Builder
	for _, key := range decidingLabels {
		if value, ok := pod.Labels[key]; ok {
			labels.WriteString(key + strconv.Quote(value))
		}
	}
	t.labels = labels.String()
	if own := group.ProjectAnnotations(pod.Annotations); len(own) > 0 {
		var annotations strings.Builder
		for _, key := range slices.Sorted(maps.Keys(own)) {
			annotations.WriteString(key + strconv.Quote(own[key]))
		}
		t.annotations = annotations.String()
	}
	return t
}

func newPodIndex() *podIndex {
	return &podIndex{
		pods:   map[types.NamespacedName]*indexedPod{},
		sets:   map[podTraits]*alikePods{},
		byName: map[types.NamespacedName]map[*alikePods]struct{}{},
		lost:   map[types.NamespacedName]lostMember{},
	}
}

// set puts a pod into the index as it is now. It replaces what the index has of a pod of this name.
func (x *podIndex) set(pod *corev1.Pod) {
	key, t := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, traitsOf(pod)
	x.mu.Lock()
	defer x.mu.Unlock()
	if have := x.pods[key]; have != nil && have.set.traits == t {
		have.pod = pod
		return
	} else if have != nil {
		x.noteLost(have, pod)
	}
	x.drop(key)
	s := x.sets[t]
	if s == nil {
		names := possibleGroupNames(pod)
		if len(names) == 0 {
			return
		}
		s = &alikePods{traits: t, names: names}
		x.sets[t] = s
		for _, name := range names {
			under := types.NamespacedName{Namespace: t.namespace, Name: name}
			if x.byName[under] == nil {
				x.byName[under] = map[*alikePods]struct{}{}
			}
			x.byName[under][s] = struct{}{}
		}
	}
	p := &indexedPod{pod: pod, set: s, at: len(s.pods)}
	s.pods, x.pods[key] = append(s.pods, p), p
}

// remove takes the pod of this name out of the index.
func (x *podIndex) remove(pod *corev1.Pod) {
	x.mu.Lock()
	defer x.mu.Unlock()
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	if have := x.pods[key]; have != nil {
		x.noteLost(have, nil)
	}
	x.drop(key)
}

// drop is remove for callers that hold the lock.
func (x *podIndex) drop(key types.NamespacedName) {
	p := x.pods[key]
	if p == nil {
		return
	}
	delete(x.pods, key)
	s, last := p.set, len(p.set.pods)-1
	s.pods[p.at] = s.pods[last]
	s.pods[p.at].at = p.at
	s.pods[last] = nil
	if s.pods = s.pods[:last]; last > 0 {
		return
	}
	delete(x.sets, s.traits)
	for _, name := range s.names {
		under := types.NamespacedName{Namespace: s.traits.namespace, Name: name}
		delete(x.byName[under], s)
		if len(x.byName[under]) == 0 {
			delete(x.byName, under)
		}
	}
}

// under returns the pods that have one of these names among their possibleGroupNames, each once, by
// the names of the pods that stand for their sets.
func (x *podIndex) under(namespace string, names ...string) []podSet {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var all []podSet
	for i, name := range names {
		for s := range x.byName[types.NamespacedName{Namespace: namespace, Name: name}] {
			if !slices.ContainsFunc(names[:i], func(earlier string) bool { return slices.Contains(s.names, earlier) }) {
				all = append(all, podSet{pod: s.pods[0].pod, n: int32(len(s.pods)), traits: s.traits})
			}
		}
	}
	slices.SortFunc(all, func(a, b podSet) int { return cmp.Compare(a.pod.Name, b.pod.Name) })
	return all
}

// nativesUnder returns the names of the native PodGroups' groups in which are
// pods that have one of these names among their possibleGroupNames.
func (x *podIndex) nativesUnder(namespace string, names ...string) []string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var natives []string
	for _, name := range names {
		for s := range x.byName[types.NamespacedName{Namespace: namespace, Name: name}] {
			if s.traits.native == "" {
				continue
			}
			if native := group.NativeKey(namespace, s.traits.native).Name; !slices.Contains(natives, native) {
				natives = append(natives, native)
			}
		}
	}
	return natives
}

// all returns each pod that is in these sets now.
func (x *podIndex) all(sets []podSet) []*corev1.Pod {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var pods []*corev1.Pod
	for _, s := range sets {
		if now := x.sets[s.traits]; now != nil {
			for _, p := range now.pods {
				pods = append(pods, p.pod)
			}
		}
	}
	return pods
}
