package store

import (
	"crypto/sha256"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A Fingerprint tells two requests of a job apart.
type Fingerprint [sha256.Size]byte

// A Job is what one job holds. A job that holds nothing is forgotten.
type Job struct {
	id    match.JobID
	slots map[string]*Slot
	// answersRequest says that all the job holds was given out for one request, so that
	// the request can be answered again. Not so once a slot was added or
	// released; a slot that changed in place is still the answer.
	answersRequest bool
	fingerprint    Fingerprint
	// ancestors is what the nodes of the job stand in, each after what it contains.
	ancestors  []*resource.Vertex
	start, end time.Time
	// reserved says that the slots are promised, not held.
	reserved bool
	// ignoredBy is the number of the last match that ignored the job.
	ignoredBy uint64
}

// A Slot is what a job holds on one node.
type Slot struct {
	job        match.JobID
	key, label string
	node       string
	index      int // among the slots given out for the request
	// host is the host where the slot stands, or stood last.
	host *host
	// ignoredBy is the number of the last match that ignored the slot.
	ignoredBy uint64
	// holder is the one whose node it is as a whole; empty for none.
	holder string
	// shared slots keep no node from being whole.
	shared     bool
	seq        uint64
	start, end time.Time
	shares     []share
	// charges say where the shares weigh on the graph at present: nowhere while
	// the node, or its pools of these types, are not there.
	charges []charge
}

// A share is what a slot holds of one vertex.
type share struct {
	res    *resource.Vertex
	amount int64
	// container marks a vertex that is only on the way to others.
	container bool
}

// A charge is an amount booked on a leaf.
type charge struct {
	pool   int // index into the node's pools
	leaf   *vertex
	amount int64
	// permanent says that it is held by a slot that stays.
	permanent bool
}

// Job returns the job of an id if it holds anything; nil if not.
func (st *Store) Job(id match.JobID) *Job { return st.jobs[id] }

// Book gives a job what was allocated to it for a request.
func (st *Store) Book(j *Job, f Fingerprint) {
	j.answersRequest, j.fingerprint = true, f
	st.jobs[j.id] = j
	for _, s := range j.slots {
		st.addSlot(s)
	}
}

// Answers says whether what the job holds was given out for a request, and is still its answer.
func (j *Job) Answers(f func() Fingerprint) bool { return j.answersRequest && j.fingerprint == f() }

// IsReserved says whether the slots are promised, not held.
func (j *Job) IsReserved() bool { return j.reserved }

// MarkReserved has the slots be promised, not held.
func (j *Job) MarkReserved() { j.reserved = true }

// JobID returns the id of the job that the slot is of; 0 for none.
func (s *Slot) JobID() match.JobID { return s.job }

// IsPermanent says whether the slot is there for good, whoever else may end: what runs on
// every node and has no known end.
func (s *Slot) IsPermanent() bool { return s.shared && s.end.IsZero() }
