package engine

import (
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A job is what one job holds. A job that holds nothing is forgotten.
type job struct {
	id    match.JobID
	slots map[string]*slot
	// asked says that all the job holds was given out for one request, so that
	// the request can be answered again. Not so once a slot was added or
	// released; a slot that changed in place is still the answer.
	asked   bool
	request fingerprint
	// above is what the nodes of the job stand in, each after what it contains.
	above   []*resource.Vertex
	at, end time.Time
	// reserved says that the slots are promised, not held.
	reserved bool
	// ignored is the number of the last match that ignored the job.
	ignored uint64
}

// A slot is what a job holds on one node.
type slot struct {
	job        match.JobID
	key, label string
	node       string
	index      int // among the slots given out for the request
	// on is the host where the slot stands, or stood last.
	on *host
	// ignored is the number of the last match that ignored the slot.
	ignored uint64
	// holder is the one whose node it is as a whole; empty for none.
	holder string
	// shared slots keep no node from being whole.
	shared     bool
	order      uint64
	start, end time.Time
	shares     []share
	// charges say where the shares weigh on the graph at present: nowhere while
	// the node, or its pools of these types, are not there.
	charges []charge
}

// stays says whether the slot is there for good, whoever else may end: what runs on
// every node and has no known end.
func (s *slot) stays() bool { return s.shared && s.end.IsZero() }

// A share is what a slot holds of one vertex.
type share struct {
	about  *resource.Vertex
	amount int64
	// way marks a vertex that is only on the way to others.
	way bool
}

// A charge is an amount booked on a leaf.
type charge struct {
	pool   int // index into the node's pools
	leaf   *vertex
	amount int64
	// stays says that it is held by a slot that stays.
	stays bool
}
