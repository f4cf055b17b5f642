package fluence

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// restarts has the room that pods of started groups leave, while it is kept for the pods that
// the owners of the groups make in their place. To the matches of other groups of the same or a lower
// priority the room is taken. The group itself may use it. A scheduler that does not lead keeps none,
// and a restart of the scheduler ends it. The zero value is ready for use.
type restarts struct {
	mu     sync.Mutex
	groups map[types.NamespacedName]*keptRoom
}

// keptRoom is the room that is kept for one group.
type keptRoom struct {
	gang.Restart
	pods map[types.UID]*leavingPod
	// last is when the last of the pods left, or when one was last seen that still has to.
	last time.Time
}

// leavingPod is a pod that has failed or is being deleted, and its room.
type leavingPod struct {
	name     types.NamespacedName
	slot     match.Slot
	requests string
	priority int32
	// left is when the pod was seen to hold its node no longer. It is zero while it does.
	left time.Time
}

// keep keeps the room of a pod that fails or is being deleted.
func (r *restarts) keep(of gang.Restart, pod *corev1.Pod, slot match.Slot, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.groups[of.Key]
	if k == nil {
		k = &keptRoom{pods: map[types.UID]*leavingPod{}}
		if r.groups == nil {
			r.groups = map[types.NamespacedName]*keptRoom{}
		}
		r.groups[of.Key] = k
	}
	k.Restart, k.last = of, now
	if k.pods[pod.UID] == nil && len(k.pods) < of.Pods {
		k.pods[pod.UID] = &leavingPod{
			name: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, slot: slot, requests: requestsText(pod), priority: of.Priority,
		}
	}
}

// use records that pods of a group were assigned to nodes. With all, the group needs no more room.
// Otherwise each pod uses the room of one that has left, on the same node if there is one. It
// reports whether room was given up. The pods may take less of it than those before them.
func (r *restarts) use(key types.NamespacedName, nodes []string, all bool) (freed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.groups[key]
	if k == nil {
		return false
	}
	onNode := map[string][]types.UID{}
	for _, uid := range k.uids() {
		node := k.pods[uid].slot.Node
		onNode[node] = append(onNode[node], uid)
	}
	elsewhere := 0
	for _, node := range nodes {
		if there := onNode[node]; len(there) > 0 {
			delete(k.pods, there[0])
			onNode[node] = there[1:]
			freed = true
		} else {
			elsewhere++
		}
	}
	for _, uid := range k.uids() {
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

// uids returns the pods in the order of their UIDs.
func (k *keptRoom) uids() []types.UID { return slices.Sorted(maps.Keys(k.pods)) }

// unused is room of a group that was given up, since the first of its pods left.
type unused struct {
	gang.Restart
	pods  int
	since time.Time
}

// expire gives up the room that was kept for long enough, and that the groups do not need any more. holds
// reports whether a pod still holds its node. lacks returns how many pods a group lacks.
func (r *restarts) expire(now time.Time, holds func(types.NamespacedName, types.UID) bool, lacks func(types.NamespacedName) int) (all []unused) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, k := range r.groups {
		left := 0
		for uid, p := range k.pods {
			switch {
			case holds(p.name, uid):
				p.left = time.Time{}
				k.last = now
			case p.left.IsZero():
				p.left, k.last = now, now
				left++
			default:
				left++
			}
		}
		over := left - lacks(key)
		u := unused{Restart: k.Restart, since: now}
		for _, uid := range k.uids() {
			p := k.pods[uid]
			if p.left.IsZero() || over <= 0 && now.Sub(k.last) < k.Timeout && now.Sub(p.left) < k.Total {
				continue
			}
			delete(k.pods, uid)
			over--
			u.pods++
			if p.left.Before(u.since) {
				u.since = p.left
			}
		}
		if u.pods > 0 {
			all = append(all, u)
		}
		if len(k.pods) == 0 {
			delete(r.groups, key)
		}
	}
	return all
}

// leaving returns the pods whose room is kept.
func (r *restarts) leaving() sets.Set[types.UID] {
	r.mu.Lock()
	defer r.mu.Unlock()
	uids := sets.New[types.UID]()
	for _, k := range r.groups {
		uids = uids.Union(sets.KeySet(k.pods))
	}
	return uids
}

// isEmpty reports whether no room is kept.
func (r *restarts) isEmpty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.groups) == 0
}

// clear gives up all room.
func (r *restarts) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.groups)
}

// slots returns the room that a match for a group has to leave: what is kept for other
// groups of this or a higher priority. A pod that still holds its node is left out, because the matcher has it.
func (r *restarts) slots(of types.NamespacedName, priority int32, holds func(types.NamespacedName, types.UID) bool) (all []match.Slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.others(of) {
		for _, uid := range k.uids() {
			if p := k.pods[uid]; p.priority >= priority && !holds(p.name, uid) {
				all = append(all, p.slot)
			}
		}
	}
	return all
}

// others returns the room that is kept for other groups, the largest first. The caller holds the lock.
func (r *restarts) others(of types.NamespacedName) (all []*keptRoom) {
	for key, k := range r.groups {
		if key != of {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(a, b *keptRoom) int {
		return cmp.Or(cmp.Compare(len(b.pods), len(a.pods)), cmp.Compare(a.Key.String(), b.Key.String()))
	})
	return all
}

// nodesOf returns the nodes on which room is kept for a group.
func (r *restarts) nodesOf(key types.NamespacedName) (nodes []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.groups[key]; k != nil {
		for _, p := range k.pods {
			nodes = append(nodes, p.slot.Node)
		}
	}
	return nodes
}

// nodesFor returns the nodes on which room is kept for the pods of a plan. It returns none unless each of the
// pods requests the same as one that has left: others do not come past reservations.
func (r *restarts) nodesFor(plan *gang.Plan) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.groups[plan.Key]
	if k == nil {
		return nil
	}
	var nodes []string
	left := map[string]int{}
	for _, p := range k.pods {
		nodes = append(nodes, p.slot.Node)
		left[p.requests]++
	}
	for _, pod := range slices.Concat(plan.Required, plan.Optional) {
		if requests := requestsText(pod); left[requests] > 0 {
			left[requests]--
		} else {
			return nil
		}
	}
	return nodes
}

// requestsText returns a text that is the same for pods with the same requests.
func requestsText(pod *corev1.Pod) string {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		amount := requests[name]
		fmt.Fprintf(&text, "%s=%s ", name, amount.String())
	}
	return text.String()
}

// describe says for which groups room is kept that a match for a group had to leave. It returns nothing if
// there is none. name returns the words for a group. A report leaves this text out when it compares
// messages.
func (r *restarts) describe(of types.NamespacedName, priority int32, now time.Time, name func(types.NamespacedName, int32) string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.DeleteFunc(r.others(of), func(k *keptRoom) bool { return k.Priority < priority })
	if len(all) == 0 {
		return ""
	}
	k := all[0]
	text := fmt.Sprintf("; the room of %s that ended is kept until %s for %s, which restarts",
		reason.Plural(len(k.pods), "pod"), reason.Time(k.last.Add(k.Timeout), now), name(k.Key, k.Priority))
	if more := len(all) - 1; more > 0 {
		text += fmt.Sprintf(", and for %s", reason.Plural(more, "other group"))
	}
	return text
}

// holdsNode reports whether a pod still holds its node, by the informer's store, which is
// brought up to date before any event handler is called.
func (b *base) holdsNode(name types.NamespacedName, uid types.UID) bool {
	pod, err := b.pods.Pods(name.Namespace).Get(name.Name)
	return err == nil && pod.UID == uid && translate.Holds(pod)
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
	if _, queued := w.queues.End(jobOf(of.Key)); queued {
		return // its job has the room until all of its pods have ended
	}
	if !ok || was.Status.StartTime == nil || w.evictor.IsVictim(was.UID) || !w.groupReporter.reporter.Leads() {
		return
	}
	// Otherwise pods that run for a moment now and then would hold room for ever.
	if of.Timeout = min(of.Timeout, now.Sub(was.Status.StartTime.Time)); of.Timeout <= 0 {
		return
	}
	w.restarts.keep(of, was, w.heldSlot(was), now)
}

// heldSlot returns the slot of a pod, with the holder of its node.
func (w *watcher) heldSlot(pod *corev1.Pod) match.Slot {
	slot := translate.HeldSlot(pod)
	if !slot.Shared {
		slot.Holder = w.groups.HolderOf(pod)
	}
	return slot
}

// endRestarts gives up the room of groups that have not used it in time, or do not need it any more.
func (w *watcher) endRestarts(now time.Time) {
	if w.restarts.isEmpty() {
		return
	}
	if !w.groupReporter.reporter.Leads() {
		w.restarts.clear()
		return
	}
	ended := w.restarts.expire(now, w.holdsNode, func(key types.NamespacedName) int { return w.groups.Lacks(key, now) })
	for _, u := range ended {
		w.log.V(2).Info("Room is no longer kept for pods that are made again", "group", u.Key, "pods", u.pods, "for", now.Sub(u.since))
		w.groups.NoteKept(u.Restart, u.since, u.pods)
	}
	if len(ended) > 0 {
		roomFreed(w.base, gang.Released)
	}
}
