package store

import (
	"crypto/sha256"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A Fingerprint is a hash of a request. It tells two requests of a job apart.
type Fingerprint [sha256.Size]byte

// A Job is the allocation or the reservation of one job. A job without slots is removed.
type Job struct {
	id    match.JobID
	slots map[string]*Slot
	// answersRequest reports whether the job holds exactly the slots that were given out for its
	// request, so that the request can be answered again. It becomes false when a slot is added or
	// released. A slot that is replaced is still a part of the answer.
	answersRequest bool
	fingerprint    Fingerprint
	// ancestors are the vertices above the nodes of the job, the deepest first.
	ancestors  []*resource.Vertex
	start, end time.Time
	// reserved reports whether the slots are reserved, not held.
	reserved bool
	// ignoredBy is the number of the last match that ignored the job.
	ignoredBy uint64
}

// A Slot is one task slot of a job: the resources of one pod on one node.
type Slot struct {
	job        match.JobID
	key, label string
	node       string
	// index is the index among the slots that were given out for the request.
	index int
	// host is the host where the slot is. It is nil for a reserved slot.
	host *host
	// ignoredBy is the number of the last match that ignored the slot.
	ignoredBy uint64
	// occupancy is the number of the last call of Occupancy that counted the slot.
	occupancy uint64
	// holder has the slot's node as a whole. It is empty if the node is not given out whole.
	holder string
	// onEveryNode reports whether the slot's pod runs on every node. Such a slot does not keep its node
	// from being given out whole.
	onEveryNode bool
	// seq is the number of the booking. Slots are charged in this order.
	seq        uint64
	start, end time.Time
	shares     []share
	// charges are the charges of the shares on the graph. There are none while the graph lacks the
	// node, or the node's pools of these types.
	charges []charge
}

// A share is what a slot holds of one vertex.
type share struct {
	res    *resource.Vertex
	amount int64
	// container marks a vertex that is listed only because it contains others.
	container bool
}

// A charge is an amount booked on a leaf.
type charge struct {
	// pool is an index into the node's pools.
	pool   int
	leaf   *vertex
	amount int64
	// permanent reports whether the slot is permanent.
	permanent bool
}

// Job returns the job with this id. It returns nil if the job holds nothing.
func (st *Store) Job(id match.JobID) *Job { return st.jobs[id] }

// Book books a job that was allocated for a request.
func (st *Store) Book(j *Job, f Fingerprint) {
	j.answersRequest, j.fingerprint = true, f
	st.jobs[j.id] = j
	for _, s := range j.slots {
		st.addSlot(s)
	}
}

// Answers reports whether the job still holds exactly the slots that were given out for the request
// with this fingerprint.
func (j *Job) Answers(f func() Fingerprint) bool { return j.answersRequest && j.fingerprint == f() }

// IsReserved reports whether the slots are reserved, not held.
func (j *Job) IsReserved() bool { return j.reserved }

// Size returns the number of slots of the job.
func (j *Job) Size() int { return len(j.slots) }

// Slots returns the slots of a job that holds something, in no order, except ignored ones.
func (j *Job) Slots() []*Slot {
	slots := make([]*Slot, 0, len(j.slots))
	for _, s := range j.slots {
		if s.host.counts(s) {
			slots = append(slots, s)
		}
	}
	return slots
}

// MarkReserved makes the job a reservation.
func (j *Job) MarkReserved() { j.reserved = true }

// JobID returns the id of the slot's job. Zero means that no job has the slot.
func (s *Slot) JobID() match.JobID { return s.job }

// NodeName returns the name of the node that the slot is on.
func (s *Slot) NodeName() string { return s.node }

// IsPermanent reports whether the slot never ends to make room for others: its pod runs on every
// node, and it has no known end.
func (s *Slot) IsPermanent() bool { return s.onEveryNode && s.end.IsZero() }
