package preemption

import (
	"cmp"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// An Index knows the pods that hold room on nodes, and which of them belong together. It is kept by events,
// so that candidates are found without a look at each pod's owners. It is safe for concurrent use.
type Index struct {
	owners group.Owners

	mu   sync.Mutex
	pods map[types.UID]*occupant
	// units has the pods that belong together, by the keys of their groups.
	units map[types.NamespacedName]*unit
	// controllers has the direct controllers of the pods.
	controllers map[types.UID]*controller
	// unseen has the pods with an owner that was not seen yet.
	unseen map[types.UID]*occupant
	// searches counts the searches.
	searches uint64
	// priorities counts the pods of each priority.
	priorities map[int32]int
}

// An occupant is a pod that holds room on a node.
type occupant struct {
	pod      *corev1.Pod
	victim   VictimPod
	unit     *unit
	priority int32
	bound    time.Time
	// marked is when a scheduler has written onto the pod that it evicts it. It is zero if none has.
	marked time.Time
	// controller is the object that controls the pod. It is nil if there is none.
	controller *controller
}

// A unit is pods with the same group.
type unit struct {
	key types.NamespacedName
	// inPodGroup is true if key is the key of a PodGroup, whether or not the PodGroup exists.
	inPodGroup bool
	// pods are ordered by name if sorted is true.
	pods   []*occupant
	sorted bool
}

// A controller is an object that controls pods itself.
type controller struct {
	namespace string
	owner     group.Owner
	pods      int
	// above is what the search with this number has found above it.
	above  line
	search uint64
}

// NewIndex returns an empty Index. owners finds the groups of pods.
func NewIndex(owners group.Owners) *Index {
	return &Index{
		owners: owners, pods: map[types.UID]*occupant{}, units: map[types.NamespacedName]*unit{},
		controllers: map[types.UID]*controller{}, unseen: map[types.UID]*occupant{}, priorities: map[int32]int{},
	}
}

// PutPod records a pod as it is now. Pods that hold no room, that are ending, or that run on every node are
// not kept.
func (x *Index) PutPod(pod *corev1.Pod) {
	if !translate.Holds(pod) || translate.OnEveryNode(pod) || pod.DeletionTimestamp != nil {
		x.RemovePod(pod.UID)
		return
	}
	id := group.IdentityOf(pod, x.owners)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.put(pod, id)
}

// put is PutPod with the lock held.
func (x *Index) put(pod *corev1.Pod, id group.Identity) {
	victim := VictimPod{Name: pod.Name, UID: pod.UID, Node: pod.Spec.NodeName}
	if was := x.pods[pod.UID]; was != nil {
		victim.Slot = was.victim.Slot
		x.remove(was)
	} else {
		victim.Slot.Job = match.NewJobID("pod", string(pod.UID))
	}
	o := &occupant{pod: pod, victim: victim, priority: corev1helpers.PodPriority(pod), bound: boundAt(pod), marked: markedAt(pod)}
	if c := group.ControllerOf(pod); c != (group.Owner{}) {
		o.controller = x.controllers[c.UID]
		if o.controller == nil {
			o.controller = &controller{namespace: pod.Namespace, owner: c}
			x.controllers[c.UID] = o.controller
		}
		o.controller.pods++
	}
	o.unit = x.units[id.Key]
	if o.unit == nil {
		o.unit = &unit{key: id.Key}
		x.units[id.Key] = o.unit
	}
	o.unit.inPodGroup = o.unit.inPodGroup || id.InPodGroup
	o.unit.pods, o.unit.sorted = append(o.unit.pods, o), false
	x.pods[pod.UID] = o
	x.priorities[o.priority]++
	if id.MissingOwner != (group.Owner{}) {
		x.unseen[pod.UID] = o
	}
}

// RemovePod records that a pod is gone.
func (x *Index) RemovePod(uid types.UID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if o := x.pods[uid]; o != nil {
		x.remove(o)
	}
}

// remove removes a pod.
func (x *Index) remove(o *occupant) {
	delete(x.pods, o.pod.UID)
	delete(x.unseen, o.pod.UID)
	if x.priorities[o.priority]--; x.priorities[o.priority] == 0 {
		delete(x.priorities, o.priority)
	}
	if u := o.unit; len(u.pods) == 1 {
		delete(x.units, u.key)
	} else {
		i := slices.Index(u.pods, o)
		u.pods[i] = u.pods[len(u.pods)-1]
		u.pods, u.sorted = slices.Delete(u.pods, len(u.pods)-1, len(u.pods)), false
	}
	if c := o.controller; c != nil {
		if c.pods--; c.pods == 0 {
			delete(x.controllers, c.owner.UID)
		}
	}
}

// HasBelow reports whether a pod on a node has a lower priority.
func (x *Index) HasBelow(priority int32) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for has := range x.priorities {
		if has < priority {
			return true
		}
	}
	return false
}

// lookAgain finds the groups of the pods whose owner was not seen when they were put.
func (x *Index) lookAgain() {
	for _, o := range x.unseen {
		if id := group.IdentityOf(o.pod, x.owners); id.MissingOwner == (group.Owner{}) {
			x.put(o.pod, id)
		}
	}
}

// sort orders the pods of a unit by name.
func (u *unit) sort() {
	if !u.sorted {
		slices.SortFunc(u.pods, func(a, b *occupant) int { return cmp.Compare(a.victim.Name, b.victim.Name) })
		u.sorted = true
	}
}

// markedAt returns when a scheduler has written onto a pod that it evicts it. It is zero if none has.
func markedAt(pod *corev1.Pod) time.Time {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonPreemptionByScheduler {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// boundAt returns when a pod was bound: what the condition PodScheduled says, or what the kubelet says. For a
// pod of which neither is known it returns the time of its creation.
func boundAt(pod *corev1.Pod) time.Time {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	if pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time
	}
	return pod.CreationTimestamp.Time
}
