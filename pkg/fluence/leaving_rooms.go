package fluence

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/flux-k8s/fluence/pkg/admission"
	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
)

// leavingFor is for how long room is left by others that a pod of a job has left, if the job makes another pod. The driver
// books it for that pod by then.
const leavingFor = time.Second

// leavingRooms is the room that pods of jobs have just left, and that is their jobs' still. The matcher may offer it to
// others before the driver has booked it again. The zero value is ready for use.
type leavingRooms struct {
	mu   sync.Mutex
	pods map[string]leavingRoom // by the key of the slot
}

// A leavingRoom is the room that one pod has left.
type leavingRoom struct {
	job types.NamespacedName
	// of is the Job.
	of    group.Owner
	slot  match.Slot
	until time.Time
}

func (l *leavingRooms) add(job types.NamespacedName, of group.Owner, slot match.Slot, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pods == nil {
		l.pods = map[string]leavingRoom{}
	}
	l.pods[slot.Key] = leavingRoom{job, of, slot, now.Add(leavingFor)}
}

// rooms returns the room that is left to others than one job, by the key of the slot.
func (l *leavingRooms) rooms(except types.NamespacedName, now time.Time) (all []leavingRoom) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(l.pods)) {
		if r := l.pods[key]; r.job != except && now.Before(r.until) {
			all = append(all, r)
		}
	}
	return all
}

// leftRooms returns the room that all but one job have to leave, because another pod may come to it.
func leftRooms(b *base, except types.NamespacedName, now time.Time) []leavingRoom {
	all := b.queues.leaving.rooms(except, now)
	gone := map[types.UID]bool{}
	for _, r := range all {
		gone[types.UID(r.slot.Key)] = true
	}
	makes := map[types.NamespacedName]bool{} // of each job once: a large one may have left a room a pod
	return slices.DeleteFunc(all, func(r leavingRoom) bool {
		another, known := makes[r.job]
		if !known {
			another = makesAnother(b, r, gone)
			makes[r.job] = another
		}
		return !another
	})
}

// makesAnother reports whether the job of a room may make another pod, beyond those on nodes that are not gone.
func makesAnother(b *base, r leavingRoom, gone map[types.UID]bool) bool {
	job, ok := b.queues.owners.find(r.job.Namespace, r.of).(*batchv1.Job)
	if !ok {
		return false
	}
	n := admission.PodsOf(job, int(job.Status.Succeeded))
	if n == 0 {
		return false
	}
	for uid := range b.groups.Placed(r.job) {
		if !gone[uid] {
			n--
		}
	}
	return n > 0
}

// leftSlots is leftRooms for the slots.
func leftSlots(b *base, except types.NamespacedName, now time.Time) (all []match.Slot) {
	for _, r := range leftRooms(b, except, now) {
		all = append(all, r.slot)
	}
	return all
}

// describeLeft says to which job a match of a group had to leave room, for a user of a namespace. It returns nothing if there is none.
func describeLeft(b *base, except types.NamespacedName, reader string, now time.Time) string {
	all := leftRooms(b, except, now)
	if len(all) == 0 {
		return ""
	}
	name := "a job of another namespace"
	if b.mayName(all[0].job.Namespace, reader) {
		name = "Job " + all[0].job.Namespace + "/" + all[0].of.Name
	}
	return fmt.Sprintf("; the room that a pod has just left on node %s is kept a moment for %s, which may make another pod", all[0].slot.Node, name)
}

// expire forgets what is not left any more. It reports whether there was anything.
func (l *leavingRooms) expire(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := len(l.pods)
	maps.DeleteFunc(l.pods, func(_ string, r leavingRoom) bool { return !now.Before(r.until) })
	return len(l.pods) < before
}

// drop forgets the room of a job. It reports whether there was any.
func (l *leavingRooms) drop(job types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := len(l.pods)
	maps.DeleteFunc(l.pods, func(_ string, r leavingRoom) bool { return r.job == job })
	return len(l.pods) < before
}

// keepForJob keeps the room that a pod has just left for the pod that its job may make in its place: the informer does not tell
// whether a pod that is gone has succeeded. Call it before the matcher knows of the end.
func keepForJob(w *watcher, was *corev1.Pod) {
	of := group.ControllerOf(was)
	if was.Spec.SchedulerName != w.profile || !isJob(of) {
		return // a single pod is not made again
	}
	job, ok := w.owners.find(was.Namespace, of).(*batchv1.Job)
	if !ok || ptr.Deref(job.Spec.Suspend, false) {
		return
	}
	key := w.queues.workloadOf(was).job
	end, admitted := w.queues.End(key)
	if !admitted {
		return
	}
	slot := w.heldSlot(was)
	slot.R.Expiration = end
	w.queues.leaving.add(key, of, slot, w.now())
}

// keepAtEnd is keepForJob for the slot of a pod, of whose end the plugin may not have been told yet.
func keepAtEnd(w *watcher, s match.Slot) {
	if was := w.occupants.podOf(match.NewJobID("pod", s.Key)); was != nil {
		keepForJob(w, was)
	}
}

// endLeavingRooms lets others have the room that pods of jobs have left some time ago.
func endLeavingRooms(b *base, now time.Time) {
	if b.queues.leaving.expire(now) {
		roomFreed(b, gang.Released)
	}
}
