package fluence

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/placement"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// Running are the pods that hold something, by the jobs that stand for them where
// nobody known has matched them: those of other schedulers, and all that were there
// before this scheduler. The zero value is ready for use.
type occupants struct {
	mu   sync.Mutex
	pods map[match.JobID]*corev1.Pod
	// byNode has by node the pods there, by their UIDs, but for those that run on every node.
	byNode map[string]map[types.UID]occupant
}

// An occupant is a pod on a node.
type occupant struct {
	namespace string
	// job is what it is to the matcher where it was not matched, and endless says that it does
	// not end.
	job     match.JobID
	endless bool
}

// update takes note of a pod as it is now.
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

func (r *occupants) forget(job match.JobID) {
	if pod := r.pods[job]; pod != nil {
		node := pod.Spec.NodeName
		if delete(r.byNode[node], pod.UID); len(r.byNode[node]) == 0 {
			delete(r.byNode, node)
		}
	}
	delete(r.pods, job)
}

// blockers is what stands on nodes for a group of a namespace that waits for them.
func (r *occupants) blockers(nodes []string, own string) (l blockers) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, node := range nodes {
		mine := 0
		for _, p := range r.byNode[node] {
			if p.namespace == own {
				mine = 1
			} else {
				l.foreign++
			}
		}
		l.ownNodes += mine
	}
	return l
}

// podsOf returns the pods of a namespace on nodes, with those of some before that are there still.
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

// isFree says whether nothing is on nodes that ends, but for what stays.
func (r *occupants) isFree(nodes []string, stays func(*corev1.Pod) bool) bool {
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

// jobOf returns what a pod is to the matcher where it was not matched.
func (r *occupants) jobOf(pod *corev1.Pod) match.JobID {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p, ok := r.byNode[pod.Spec.NodeName][pod.UID]; ok {
		return p.job
	}
	return match.NewJobID("pod", string(pod.UID))
}

// hasForeign says whether a pod of another namespace is on a node, but for those that run on every
// node.
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

// remove takes note that a pod is gone.
func (r *occupants) remove(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(match.NewJobID("pod", string(pod.UID)))
}

// countOtherSchedulers counts the pods that ask for another scheduler than the one named.
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

// podOf returns the pod that a job stands for, or nil.
func (r *occupants) podOf(job match.JobID) *corev1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pods[job]
}

// mayName says whether a message for one namespace names what is of another.
func (b *base) mayName(namespace, asks string) bool {
	return namespace == asks || b.args.TellNames == TellNamesAll
}

// describeGroup names a group to one that asks; of another namespace it tells the priority alone.
func (b *base) describeGroup(key types.NamespacedName, priority int32, asks string) string {
	if b.mayName(key.Namespace, asks) {
		return key.String()
	}
	return fmt.Sprintf("a group of another namespace, priority %d", priority)
}

// blockerOf says in words whose end would help: that of a group, or of a pod. It is empty
// if none would, or nobody known holds what is named, or it is the group's own.
func (b *base) blockerOf(r match.Reason, asks types.NamespacedName) string {
	if r.Blocker == nil {
		return ""
	}
	key, alone, ok := b.groups.GroupOfJob(r.Blocker.Job)
	pod, word := alone, "group "+key.String()
	if !ok {
		if pod = b.occupants.podOf(r.Blocker.Job); pod == nil {
			return ""
		}
		if m, ok := b.groups.GroupOf(pod.UID); ok && m.InPodGroup {
			// One pod of a group that started before this scheduler.
			key, word = m.Key, "pod "+podName(pod)+" of group "+m.Key.String()
		} else {
			word = "pod " + podName(pod)
		}
	} else if alone != nil {
		word = "pod " + podName(alone)
	}
	switch {
	case key == asks:
		return ""
	case pod != nil && !b.mayName(pod.Namespace, asks.Namespace):
		return fmt.Sprintf("a pod of another namespace, priority %d,", corev1helpers.PodPriority(pod))
	case pod == nil && !b.mayName(key.Namespace, asks.Namespace):
		return fmt.Sprintf("a group of another namespace, priority %d,", b.groups.PriorityOf(key))
	}
	return word
}

func podName(pod *corev1.Pod) string {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}.String()
}
