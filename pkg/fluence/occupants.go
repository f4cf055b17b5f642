package fluence

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/flux-k8s/fluence/pkg/admission"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/placement"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// occupants has the pods that hold room on nodes. The zero value is ready for use.
type occupants struct {
	mu sync.Mutex
	// pods has all these pods. The key is the job ID made from "pod" and the UID. The
	// matcher's graph uses this ID only for a pod that this scheduler did not match: a
	// pod of another scheduler, or a pod that was bound before this scheduler started.
	pods map[match.JobID]*corev1.Pod
	// byNode has the pods by node and UID. Pods that run on
	// every node (DaemonSets, static pods) are left out.
	byNode map[string]map[types.UID]occupant
}

// occupant is a pod on a node.
type occupant struct {
	namespace string
	// job is the pod's job ID in the matcher's graph if this scheduler did not match the pod.
	job match.JobID
	// endless reports whether the pod does not end by itself.
	endless bool
}

// update records the present state of a pod.
func (r *occupants) update(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	job := match.NewJobID("pod", string(pod.UID))
	if !translate.Holds(pod) {
		r.forget(job)
		return
	}
	if r.pods == nil {
		r.pods = map[match.JobID]*corev1.Pod{}
	}
	r.pods[job] = pod
	if node := pod.Spec.NodeName; !translate.OnEveryNode(pod) {
		if r.byNode == nil {
			r.byNode = map[string]map[types.UID]occupant{}
		}
		if r.byNode[node] == nil {
			r.byNode[node] = map[types.UID]occupant{}
		}
		r.byNode[node][pod.UID] = occupant{pod.Namespace, job, placement.IsEndless(pod)}
	}
}

// forget removes the pod of a job.
func (r *occupants) forget(job match.JobID) {
	if pod := r.pods[job]; pod != nil {
		node := pod.Spec.NodeName
		if delete(r.byNode[node], pod.UID); len(r.byNode[node]) == 0 {
			delete(r.byNode, node)
		}
	}
	delete(r.pods, job)
}

// blockers returns what has to end on nodes before a group of a namespace can use them. Pods that
// do not end by themselves are left out: nodes are reserved only where the group fits next to them.
func (r *occupants) blockers(nodes []string, namespace string) (l blockers) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, node := range nodes {
		mine := 0
		for _, p := range r.byNode[node] {
			switch {
			case p.endless:
			case p.namespace == namespace:
				mine = 1
			default:
				l.foreign++
			}
		}
		l.ownNodes += mine
	}
	return l
}

// podsOf returns the pods of a namespace on nodes, and also
// the pods in before (an earlier result) that still exist.
func (r *occupants) podsOf(nodes []string, namespace string, before sets.Set[types.UID]) sets.Set[types.UID] {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := sets.New[types.UID]()
	for uid := range before {
		if r.pods[match.NewJobID("pod", string(uid))] != nil {
			own.Insert(uid)
		}
	}
	for _, node := range nodes {
		for uid, p := range r.byNode[node] {
			if p.namespace == namespace {
				own.Insert(uid)
			}
		}
	}
	return own
}

// isDrained reports whether no pod on nodes is expected to end. stays
// reports whether a pod is treated as one that does not end.
func (r *occupants) isDrained(nodes []string, stays func(*corev1.Pod) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, node := range nodes {
		for _, p := range r.byNode[node] {
			if !p.endless && !stays(r.pods[p.job]) {
				return false
			}
		}
	}
	return true
}

// jobOf returns the job ID under which the matcher's
// graph has a pod that this scheduler did not match.
func (r *occupants) jobOf(pod *corev1.Pod) match.JobID {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p, ok := r.byNode[pod.Spec.NodeName][pod.UID]; ok {
		return p.job
	}
	return match.NewJobID("pod", string(pod.UID))
}

// hasForeign reports whether a pod of another namespace is on a node.
// Pods that run on every node (DaemonSets, static pods) do not count.
func (r *occupants) hasForeign(node, namespace string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.byNode[node] {
		if p.namespace != namespace {
			return true
		}
	}
	return false
}

// remove removes a pod that is gone.
func (r *occupants) remove(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(match.NewJobID("pod", string(pod.UID)))
}

// countOtherSchedulers returns the number of pods of other schedulers than this one.
func (r *occupants) countOtherSchedulers(scheduler string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, pod := range r.pods {
		if pod.Spec.SchedulerName != scheduler {
			n++
		}
	}
	return n
}

// on returns the pods on a node, ordered by UID. It leaves out pods that run on every node.
func (r *occupants) on(node string) (pods []*corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, uid := range slices.Sorted(maps.Keys(r.byNode[node])) {
		if pod := r.pods[r.byNode[node][uid].job]; pod != nil {
			pods = append(pods, pod)
		}
	}
	return pods
}

// podOf returns the pod of a job. It returns nil if there is none.
func (r *occupants) podOf(job match.JobID) *corev1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pods[job]
}

// mayName reports whether a message to users of the namespace asks may name objects of namespace.
func (b *base) mayName(namespace, reader string) bool {
	return namespace == reader || b.args.TellNames == TellNamesAll
}

// describeGroup names a group in a message to users of the namespace asks. A
// group whose name the message may not contain is described by its priority.
func (b *base) describeGroup(key types.NamespacedName, priority int32, reader string) string {
	if b.mayName(key.Namespace, reader) {
		return key.String()
	}
	return fmt.Sprintf("a group of another namespace (priority %d)", priority)
}

// describeJob names a job of a queue in a message to users of a namespace.
func describeJob(b *base, o admission.Owner, reader string) string {
	if b.mayName(o.Job.Namespace, reader) {
		return o.Workload
	}
	return fmt.Sprintf("a job of another namespace (priority %d)", o.Priority)
}

// blockerOf names the group or pod of r.Blocker, whose end would
// help, for a message to the group asks. It returns "" if there is no
// blocker, if the blocker is not known, or if it is the group itself.
func (b *base) blockerOf(r match.Reason, reader types.NamespacedName) string {
	if r.Blocker == nil {
		return ""
	}
	key, lonePod, ok := b.groups.GroupOfJob(r.Blocker.Job)
	pod, word := lonePod, "group "+key.String()
	if !ok {
		if o, is := b.queues.Owner(r.Blocker.Job); is {
			return describeJob(b, o, reader.Namespace)
		}
		if pod = b.occupants.podOf(r.Blocker.Job); pod == nil {
			return ""
		}
		if m, ok := b.groups.GroupOf(pod.UID); ok && m.InPodGroup {
			// The pod belongs to a group that started before this scheduler.
			key, word = m.Key, "pod "+podName(pod)+" of group "+m.Key.String()
		} else {
			word = "pod " + podName(pod)
		}
	} else if lonePod != nil {
		word = "pod " + podName(lonePod)
	}
	switch {
	case key == reader:
		return ""
	case pod != nil && !b.mayName(pod.Namespace, reader.Namespace):
		return fmt.Sprintf("a pod of another namespace (priority %d)", corev1helpers.PodPriority(pod))
	case pod == nil && !b.mayName(key.Namespace, reader.Namespace):
		return fmt.Sprintf("a group of another namespace (priority %d)", b.groups.PriorityOf(key))
	}
	return word
}

// podName returns the namespace and name of a pod.
func podName(pod *corev1.Pod) string {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}.String()
}
