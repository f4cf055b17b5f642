package admission

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/queue"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A job is a FluxJob as the Driver knows it. There may be very many, so it has only what is read, and shares what many have in
// common. The lock of the jobs guards it.
type job struct {
	key types.NamespacedName
	uid types.UID
	// of is the workload.
	of workload
	asked
	told
	said
	// class is nil once the job has ended.
	class *class
	// room is what the job was given. It is nil while it waits.
	room *room
	// promise is what the job is promised. It is nil if it is not.
	promise *promise
	// attempt is the number of the last allocation.
	attempt int64
	// refusals counts the allocations on which filters have refused nodes, since the job was last edited.
	refusals int32
	// takenBack is the number of the allocation that is about to be taken back. It is 0 if there is none. The job has its room until the
	// FluxJob does not show the allocation any more: otherwise two could have the same room after a restart.
	takenBack int64
	// leaving is true while a job that was preempted has pods on nodes.
	leaving bool
	// takenIn is the queue in which the job counts as waiting. It is empty if it does not.
	takenIn string
	// retryAt is when a job may ask again whose allocation the API server has not taken. It is zero otherwise.
	retryAt time.Time
}

// A workload is the object whose pods a job has.
type workload struct {
	isPod bool
	name  string
	uid   types.UID
}

// kind returns the kind of the workload.
func (w *workload) kind() string {
	if w.isPod {
		return "Pod"
	}
	return "Job"
}

// apiVersion returns the API version of the workload.
func (w *workload) apiVersion() string {
	if w.isPod {
		return corev1.SchemeGroupVersion.String()
	}
	return batchv1.SchemeGroupVersion.String()
}

// An asked is what a FluxJob asks for, besides its class.
type asked struct {
	queue    string
	priority int32
	// created is status.creationTime. It is zero until the controller has written it and the condition Valid. A job that the controller
	// has adopted as it ran has only the first, also when it waits again.
	created time.Time
	// duration is spec.duration, a Flux Standard Duration.
	duration string
	held     bool
	// invalidReason and invalid are why the job cannot run as it is, by its condition Valid. They are empty if it can.
	invalidReason, invalid string
	// generation is metadata.generation.
	generation int64
}

// A told is what the FluxJob says already.
type told struct {
	version string
	phase   v1alpha1.JobPhase
	// These are the fields of the condition Admitted. admitted is true if its status is True. since is its last transition.
	admitted        bool
	reason, message string
	since           time.Time
	promised        *v1alpha1.JobPromise
	requeues        int32
	// shown is the number of the allocation, 0 if there is none.
	shown int64
	// delay is the message of the condition Valid if its reason is WouldDelay.
	delay string
}

// A said is what the FluxJob is to say.
type said struct {
	// sayReason and sayMessage are what the condition Admitted is to say while the job has no room.
	sayReason, sayMessage string
	// refusedWhy is why its pods could not take the last room that they were refused, in words fit for a user.
	refusedWhy string
	// readAgain is set if the FluxJob is to be read again.
	readAgain bool
	// sayDelay is why a longer time limit does not count. It is empty if it does.
	sayDelay string
	// writtenAt is when the FluxJob was last written.
	writtenAt time.Time
}

// A room is the room that a job was given.
type room struct {
	id      match.JobID
	attempt int64
	at, end time.Time
	// seats are the nodes as status.allocation has them. The job loses its room on refused nodes as soon as it has them no more.
	seats   []v1alpha1.Seats
	refused []string
	// slots are all slots in order, and left says which of them no pod has taken.
	slots []Slot
	left  []bool
	// set is what each slot holds, until end.
	set *resource.Set
	// holder is the holder of the nodes if they are held whole.
	holder string
	// announced is true once others were told that the FluxJob shows the room.
	announced bool
	// written is true once the FluxJob shows the room, and shownEnd is the end that it shows.
	written  bool
	shownEnd time.Time
	// unsure is true if it is not known whether the matcher has booked what is left. bookedAt is when it was last booked anew.
	unsure   bool
	bookedAt time.Time
}

// A promise is the room that a job will have.
type promise struct {
	job match.Job
	// nodes has the names of the nodes on which job has slots.
	nodes map[string]struct{}
	since time.Time
	// why says what has moved it later, in words fit for a user.
	why string
}

// rank returns the place of a job among groups that are in no queue.
func (j *job) rank() gang.Rank {
	return gang.Rank{Priority: j.priority, Since: j.created, Key: j.key}
}

// jobID returns the matcher's job of an allocation.
func (j *job) jobID(attempt int64) match.JobID {
	return v1alpha1.MatchJobID(j.uid, attempt)
}

// nextAttempt returns the number of the next allocation. None has had it in this process.
func (j *job) nextAttempt() int64 { return max(j.attempt, int64(j.requeues)) + 1 }

// isOver reports whether the job has ended.
func (j *job) isOver() bool { return j.phase == v1alpha1.Finished }

// isAdmitted reports whether the FluxJob shows the room of the job, and will show it.
func (j *job) isAdmitted() bool { return j.room != nil && j.room.written && j.takenBack == 0 }

// core returns the job as package queue takes it, in a queue that may be nil.
func (j *job) core(duration time.Duration) queue.Job {
	return queue.Job{
		Key: j.key, Queue: j.queue, Priority: j.priority, Created: j.created, Class: j.class.name, Pods: j.class.pods,
		Requests: j.class.requests, Duration: duration, Held: j.held, Unplaceable: j.refusals >= maxRefusals,
	}
}

// maxRefusals is the number of allocations of one job on which filters refuse nodes until it asks no more.
const maxRefusals = 3

// remaining returns the slots that no pod has taken.
func (r *room) remaining() []Slot {
	var slots []Slot
	for i, s := range r.slots {
		if r.left[i] {
			slots = append(slots, s)
		}
	}
	return slots
}

// onOffer returns the slots that pods may take.
func (r *room) onOffer() []Slot {
	return slices.DeleteFunc(r.remaining(), func(s Slot) bool { return slices.Contains(r.refused, s.Node) })
}

// booking returns the matcher's job of some slots.
func (r *room) booking(slots []Slot) match.Job {
	job := match.Job{ID: r.id, Start: r.at, End: r.end}
	for _, s := range slots {
		job.Slots = append(job.Slots, match.Slot{Key: s.Key, Node: s.Node, R: r.set, Holder: r.holder})
	}
	return job
}

// setEnd sets when the room is free again.
func (r *room) setEnd(end time.Time) {
	r.end = end
	r.set = &resource.Set{Vertices: r.set.Vertices, Expiration: end}
}

// toShow returns the seats that status.allocation is to have. It cannot be without any.
func (r *room) toShow() []v1alpha1.Seats {
	if len(r.refused) > 0 {
		if slots, _, _ := r.keep(r.refused); len(slots) > 0 {
			return seatsOf(slots)
		}
	}
	return r.seats
}

// keep returns the slots of a room without those on some nodes that no pod has taken, and which of them no pod has taken. It also
// returns the others.
func (r *room) keep(without []string) (slots []Slot, left []bool, lost match.SlotRef) {
	lost.Job = r.id
	for i, s := range r.slots {
		if r.left[i] && slices.Contains(without, s.Node) {
			lost.Keys = append(lost.Keys, s.Key)
			continue
		}
		slots, left = append(slots, s), append(left, r.left[i])
	}
	return slots, left, lost
}

// mayShow reports whether an allocation has the seats of a room, but for some on refused nodes. More nodes may have been refused
// since it was written, and a pod may have taken room on one.
func (r *room) mayShow(a *v1alpha1.JobAllocation) bool {
	if slices.Equal(r.seats, a.Seats) {
		return true
	}
	shown, err := a.Nodes()
	if err != nil {
		return false // nobody but the scheduler and the controller writes it
	}
	n := 0
	for _, s := range r.slots {
		switch {
		case n < len(shown) && shown[n] == s.Node:
			n++
		case !slices.Contains(r.refused, s.Node):
			return false
		}
	}
	return n == len(shown)
}

// show records the seats that the FluxJob shows by now, as mayShow has them. If it shows fewer slots of a refused node than before,
// the job loses the slots of that node that no pod has taken. show returns the lost slots.
func (r *room) show(seats []v1alpha1.Seats) (lost match.SlotRef) {
	shown, _ := (&v1alpha1.JobAllocation{Seats: seats}).Nodes() // mayShow has read it
	fewer := map[string]int{}
	for _, s := range r.slots {
		fewer[s.Node]++
	}
	for _, node := range shown {
		fewer[node]--
	}
	var gone, later []string
	for _, node := range r.refused {
		if fewer[node] > 0 {
			gone = append(gone, node)
		} else {
			later = append(later, node)
		}
	}
	r.seats, r.refused = seats, later
	r.slots, r.left, lost = r.keep(gone)
	return lost
}
