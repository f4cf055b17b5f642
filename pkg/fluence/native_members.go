package fluence

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// nativeMembers counts two kinds of pods that name native PodGroups. Some ask for another scheduler: package
// gang does not know them. The others wait for a node, and are counted by their preemption policy.
type nativeMembers struct {
	profile string

	mu   sync.Mutex
	pods map[types.UID]nativeMember
	// counts has the number of the pods of each kind by the keys of their groups.
	counts map[types.NamespacedName]map[memberKind]int
}

// A nativeMember is a pod that is counted.
type nativeMember struct {
	key types.NamespacedName
	memberKind
}

// A memberKind is what a pod is counted as. One of the fields is set.
type memberKind struct {
	// scheduler is the other scheduler that the pod asks for.
	scheduler string
	// policy is the preemption policy of a pod that waits.
	policy corev1.PreemptionPolicy
}

func newNativeMembers(profile string) *nativeMembers {
	return &nativeMembers{profile: profile, pods: map[types.UID]nativeMember{}, counts: map[types.NamespacedName]map[memberKind]int{}}
}

// kindOf returns what a pod is counted as. It returns false if the pod is not counted.
func (n *nativeMembers) kindOf(pod *corev1.Pod) (memberKind, bool) {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	waits := pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && !ended
	switch {
	case !waits && !translate.Holds(pod):
		return memberKind{}, false
	case pod.Spec.SchedulerName != n.profile:
		return memberKind{scheduler: cmp.Or(pod.Spec.SchedulerName, corev1.DefaultSchedulerName)}, true
	case waits:
		policy := corev1.PreemptLowerPriority // as the API server fills it in
		if p := pod.Spec.PreemptionPolicy; p != nil {
			policy = *p
		}
		return memberKind{policy: policy}, true
	}
	return memberKind{}, false
}

// update counts a pod as it is now. It returns the key of its group,
// and whether what has to be said of the group may have changed.
func (n *nativeMembers) update(pod *corev1.Pod) (types.NamespacedName, bool) {
	name := group.NativePodGroupOf(&pod.Spec)
	if name == "" {
		return types.NamespacedName{}, false
	}
	key := group.NativeKey(pod.Namespace, name)
	kind, counts := n.kindOf(pod)
	n.mu.Lock()
	defer n.mu.Unlock()
	was, counted := n.pods[pod.UID]
	if counted == counts && was.memberKind == kind {
		return key, false
	}
	changed := counted && n.add(was, -1)
	delete(n.pods, pod.UID)
	if counts {
		is := nativeMember{key, kind}
		n.pods[pod.UID] = is
		changed = n.add(is, 1) || changed
	}
	return key, changed
}

// remove drops a pod that was deleted. It returns what update returns.
func (n *nativeMembers) remove(pod *corev1.Pod) (types.NamespacedName, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	was, counted := n.pods[pod.UID]
	delete(n.pods, pod.UID)
	return was.key, counted && n.add(was, -1)
}

// add changes the number of pods like m by one. It reports whether that may change what
// is said: each pod of another scheduler does, and the first and the last one of a policy.
func (n *nativeMembers) add(m nativeMember, by int) bool {
	all := n.counts[m.key]
	if all == nil {
		all = map[memberKind]int{}
		n.counts[m.key] = all
	}
	before := all[m.memberKind]
	if all[m.memberKind] += by; all[m.memberKind] == 0 {
		delete(all, m.memberKind)
	}
	if len(all) == 0 {
		delete(n.counts, m.key)
	}
	return m.scheduler != "" || before == 0 || before+by == 0
}

// describe adds to a group what its pods say: that some ask for another scheduler, so
// that they do not count, and that the preemption policies differ, so that it may not start.
func (n *nativeMembers) describe(native *schedulingv1beta1.PodGroup, g *gang.PodGroup) {
	key := group.NativeKey(native.Namespace, native.Name)
	n.mu.Lock()
	all := maps.Clone(n.counts[key])
	n.mu.Unlock()
	policies := map[string]bool{}
	if p := native.Spec.PreemptionPolicy; p != nil {
		policies[string(*p)] = true
	}
	var others []string
	for kind, count := range all {
		if kind.scheduler == "" {
			policies[string(kind.policy)] = true
			continue
		}
		others = append(others, fmt.Sprintf("%s with schedulerName %s", reason.Plural(count, "pod"), kind.scheduler))
	}
	slices.Sort(others)
	if len(others) > 0 {
		g.WhyNotExpected = "not counted: " + strings.Join(others, ", ")
	}
	if len(policies) > 1 && g.Fault == (gang.Fault{}) {
		g.Fault = gang.Fault{Reason: reason.InvalidPriority, Message: fmt.Sprintf("%s and its pods have the preemption policies %s: they must all have the same",
			group.KeyText(key), strings.Join(slices.Sorted(maps.Keys(policies)), " and "))}
	}
}
