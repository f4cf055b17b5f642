package fluence

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// restarts has the room that pods of started groups have left, while it is kept for the pods
// that the owners of the groups make in their place. To the matches of other groups of the same or a
// lower priority the room is taken. The group itself may use it. It is kept in memory alone: a
// restart of the scheduler ends it. The zero value is ready for use.
type restarts struct {
	mu     sync.Mutex
	groups map[types.NamespacedName]*keptRoom
}

// keptRoom is the room that is kept for one group.
type keptRoom struct {
	gang.Restart
	pods map[types.UID]leavingPod
	// first is when the first of the pods left, and last when the last did.
	first, last time.Time
}

// leavingPod is a pod that has failed or is being deleted, and its room.
type leavingPod struct {
	name types.NamespacedName
	slot match.Slot
}

// until returns when the room is given up.
func (k *keptRoom) until() time.Time {
	if end := k.first.Add(k.Total); end.Before(k.last.Add(k.Timeout)) {
		return end
	}
	return k.last.Add(k.Timeout)
}

// keep keeps the room of a pod that fails or is being deleted.
func (r *restarts) keep(of gang.Restart, pod *corev1.Pod, slot match.Slot, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.groups[of.Key]
	if k == nil {
		k = &keptRoom{pods: map[types.UID]leavingPod{}, first: now}
		if r.groups == nil {
			r.groups = map[types.NamespacedName]*keptRoom{}
		}
		r.groups[of.Key] = k
	}
	k.Restart = of
	if _, is := k.pods[pod.UID]; !is {
		k.pods[pod.UID], k.last = leavingPod{types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, slot}, now
	}
}

// giveUp gives up the room of a group, and reports whether there was any.
func (r *restarts) giveUp(key types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, was := r.groups[key]
	delete(r.groups, key)
	return was
}

// use records that pods of a group were assigned to nodes. With all, the group needs no more room.
// Otherwise each pod uses the room of one that has left, on the same node if there is one. It
// reports whether room was given up on nodes that none of the pods is assigned to.
func (r *restarts) use(key types.NamespacedName, nodes []string, all bool) (freed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.groups[key]
	if k == nil {
		return false
	}
	onNode := map[string][]types.UID{}
	for _, uid := range slices.Sorted(maps.Keys(k.pods)) {
		node := k.pods[uid].slot.Node
		onNode[node] = append(onNode[node], uid)
	}
	elsewhere := 0
	for _, node := range nodes {
		if there := onNode[node]; len(there) > 0 {
			delete(k.pods, there[0])
			onNode[node] = there[1:]
		} else {
			elsewhere++
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(k.pods)) {
		if all || elsewhere > 0 {
			delete(k.pods, uid)
			elsewhere--
			freed = true
		}
	}
	if len(k.pods) == 0 {
		delete(r.groups, key)
	}
	return freed
}

// expire gives up the room that was kept for long enough.
func (r *restarts) expire(now time.Time) (ended []*keptRoom) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, k := range r.groups {
		if !now.Before(k.until()) {
			ended = append(ended, k)
			delete(r.groups, key)
		}
	}
	return ended
}

// slots returns the room that a match for a group has to leave: what is kept for
// other groups of this or a higher priority. A pod that is still on its node, by the lister, is left
// out, because the matcher has it.
func (r *restarts) slots(of types.NamespacedName, priority int32, pods corelisters.PodLister, now time.Time) (all []match.Slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.before(of, priority, now) {
		for _, uid := range slices.Sorted(maps.Keys(k.pods)) {
			p := k.pods[uid]
			if pod, err := pods.Pods(p.name.Namespace).Get(p.name.Name); err == nil && pod.UID == uid && translate.Holds(pod) {
				continue
			}
			all = append(all, p.slot)
		}
	}
	return all
}

// before returns the room that is kept for other groups of this or a higher priority, in the order of the
// groups' names. The caller holds the lock.
func (r *restarts) before(of types.NamespacedName, priority int32, now time.Time) (all []*keptRoom) {
	for key, k := range r.groups {
		if key != of && k.Priority >= priority && now.Before(k.until()) {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(a, b *keptRoom) int { return cmp.Compare(a.Key.String(), b.Key.String()) })
	return all
}

// describe says for which groups room is kept that a match for a group had to
// leave. It returns nothing if there is none. name returns the words for a group.
func (r *restarts) describe(of types.NamespacedName, priority int32, now time.Time, name func(types.NamespacedName, int32) string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.before(of, priority, now)
	if len(all) == 0 {
		return ""
	}
	k := all[0]
	text := fmt.Sprintf("; the room of %s that ended is kept until %s for %s, which restarts",
		reason.Plural(len(k.pods), "pod"), k.until().UTC().Format(time.RFC3339), name(k.Key, k.Priority))
	if more := len(all) - 1; more > 0 {
		text += fmt.Sprintf(", and for %s", reason.Plural(more, "other group"))
	}
	return text
}

// keepForRestart keeps the room of a pod for the pod that is made in its place, if its group asks for that. The
// argument is the last state of the pod before it failed, was being deleted or was gone. Call it before
// the groups forget the pod.
func (w *watcher) keepForRestart(was *corev1.Pod) {
	if was.Spec.SchedulerName != w.profile || was.DeletionTimestamp != nil || !translate.Holds(was) {
		return
	}
	now := w.now()
	of, ok := w.groups.RestartOf(was.UID, now)
	if !ok {
		return
	}
	slot := translate.HeldSlot(was)
	if !slot.Shared {
		slot.Holder = w.groups.HolderOf(was)
	}
	w.restarts.keep(of, was, slot, now)
}

// endRestarts gives up the room of groups that have not used it in time.
func (w *watcher) endRestarts(now time.Time) {
	ended := w.restarts.expire(now)
	for _, k := range ended {
		w.log.V(2).Info("Room is no longer kept for pods that are made again", "group", k.Key, "pods", len(k.pods), "for", now.Sub(k.first))
		w.groups.NoteKept(k.Restart, k.first, len(k.pods))
	}
	if len(ended) > 0 {
		w.observeEvent(gang.Released)
	}
}

// endRestart gives up the room of a group that has ended or is suspended.
func (w *watcher) endRestart(key types.NamespacedName) {
	if w.restarts.giveUp(key) {
		w.observeEvent(gang.Released)
	}
}
