// Package match is the contract between those who ask for resources and the
// engine that owns the resource graph.
//
// An engine keeps one graph and, by job, who holds what of it. It has no clock,
// keeps nothing on disk and decides nothing about the order of requests: its
// caller owns the truth, names every job, and after a restart of either side
// loads the engine anew. The rules that every implementation keeps are tested
// by package matchtest.
package match

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A JobID names a job. The caller chooses it, so that the same request made
// twice is one request.
type JobID uint64

// NewJobID derives an id from what names the job, for instance a group's UID
// and the number of its incarnation. It never returns 0, which names no job.
func NewJobID(parts ...string) JobID {
	h := sha256.New()
	for _, p := range parts {
		// Lengths go in front, so that ("ab","c") is not ("a","bc").
		h.Write(binary.AppendUvarint(nil, uint64(len(p))))
		h.Write([]byte(p))
	}
	return JobID(max(1, binary.BigEndian.Uint64(h.Sum(nil))))
}

// An Epoch names one filling of the graph, from a Reset to the next. It is
// never 0 and never the same twice, also across restarts of the engine.
type Epoch uint64

// An Op says what a Match is to do.
type Op int

const (
	// Allocate books the resources, now or not at all.
	Allocate Op = iota
	// AllocateOrElseReserve books them now or at the earliest later time.
	AllocateOrElseReserve
	// Satisfiability asks whether the request would fit if nobody held anything but
	// what is Shared, as on nodes that are empty but for what runs on every node. It
	// books nothing.
	Satisfiability
	// WithoutAllocating answers as Allocate would, and books nothing.
	WithoutAllocating
	// WithoutAllocatingFuture answers as AllocateOrElseReserve would, and books
	// nothing.
	WithoutAllocatingFuture
)

// A Request asks for the resources of one job.
type Request struct {
	// Epoch is the filling of the graph that the request was made against.
	Epoch Epoch
	Op    Op
	// ID is the job's. Asking again for a job that holds resources returns what
	// it holds if the request is the same, and ErrConflict if it is not. A job that
	// has only a reservation gives that up when it asks again, with this request or
	// another: it is given the resources if they are free now, else, where Op is
	// AllocateOrElseReserve, reserved anew.
	ID      JobID
	Jobspec *jobspec.Jobspec
	// Keys name the slots, in the order in which the jobspec lists them, slot
	// request by slot request. A key is unique within its job. Where a slot
	// request's count is a range and fewer slots are given out, the last keys
	// of that slot request go unused. Without keys, slots are numbered from "0".
	Keys []string
	// Now is the caller's clock.
	Now time.Time
	// Duration is how long the resources are wanted, from Now or, reserved,
	// from the reservation's start; 0 is no known end.
	Duration time.Duration
	// Policy is one of Policies; empty is the engine's own choice.
	Policy string
	// Holder names on whose behalf the request is made, across jobs: one holder
	// may have several, and its whole nodes are for all of them. Nodes that belong
	// to another holder are left out. Required with a policy that takes whole nodes,
	// which leaves out all nodes where others hold something.
	Holder string
	// Near names nodes: of those that fit, the closest in the graph are taken
	// first, before the policy has its say.
	Near []string
	// Expected lists what others are about to take and no job holds yet. It counts
	// as held for this request alone, whether or not there is room for it, and is
	// kept nowhere: it neither books anything nor makes a repeated request another
	// one. Keys and labels say nothing here, and nodes that the graph lacks are
	// passed over. Satisfiability does not look at it.
	Expected []Slot
	// Ignore names jobs whose resources count as free. It goes only with
	// Satisfiability, WithoutAllocating and WithoutAllocatingFuture.
	Ignore []JobID
}

// A Slot is one task slot given out: the resources of one pod.
type Slot struct {
	// Key is the caller's name for the slot.
	Key string
	// Label is the label of the slot request; empty in an Update.
	Label string
	// Node is the name of the node vertex that the slot stands on.
	Node string
	// R is what the slot holds. In an Update a vertex without a containment path
	// is found by its type among those below Node.
	R *resource.Set
	// Holder is the one whom the node belongs to as a whole for as long as the slot
	// is held, as a policy that takes whole nodes gives it; empty if the slot leaves
	// the rest of the node to others.
	Holder string
	// Shared says that what holds the slot runs on every node, whoever has it, and
	// keeps no node from being whole. It does not end for others to start: unless it
	// has a known end, what it holds counts as held in a verdict of "never" too. A shared slot has no
	// Holder, and only an Update brings one.
	Shared bool
}

// An Allocation is the answer to a Match that found room.
type Allocation struct {
	ID JobID
	// R is the whole, vertices in emission order.
	R *resource.Set
	// Slots is the same, slot by slot, in the order of the request's keys.
	Slots []Slot
	// Reserved says that the resources are promised from At on, not given now.
	Reserved bool
	Start    time.Time
	// End is zero where no end is known.
	End time.Time
	// Waited is how long the Match waited for other calls; 0 is not at all.
	Waited time.Duration
}

// A Job is what one job holds, or what is reserved for it.
type Job struct {
	ID    JobID
	Slots []Slot
	// Reserved says that the slots are promised from At on. An allocation holds
	// until it is released, also past its End.
	Reserved bool
	Start    time.Time
	// End is zero where no end is known.
	End time.Time
}

// MaxResourceTypes is how many types of resources the slots of one request may ask for in all: an
// engine that keeps a number for each of them on each node takes no more.
const MaxResourceTypes = 128

// MaxNodesPerPage is how many nodes one call of Nodes lists at the most.
const MaxNodesPerPage = 1024

// A Node is what an engine has under one name.
type Node struct {
	Name string
	// Graph is the node with the way down to it and its pools, as PutNode takes it:
	// the vertices above the node first, from the root down, then the node, then
	// what stands below. Numbers in it (UniqID, ID) are the engine's own. It is nil
	// where the graph has no such node, and jobs hold something there all the same.
	Graph *resource.Graph
	// Jobs are what jobs hold on the node, ordered by job id and in it by key: of
	// each job the slots that stand there.
	Jobs []Job
}

// An Engine matches requests against its resource graph. All methods are safe
// for concurrent use. Every call but Reset carries the epoch it was built on
// and fails with ErrStale, changing nothing, when the graph has another; so does
// every call on an engine that was never reset. Any method may fail with
// ErrInvalid, naming what is wrong with its arguments, and changes nothing then.
type Engine interface {
	// Match finds resources for a request and, where Op says so, books them: all
	// of them or none. Where there is no room the error is a *Refusal that wraps
	// ErrBusy or ErrUnsatisfiable. Before Ready it is ErrUnavailable.
	Match(ctx context.Context, r Request) (*Allocation, error)

	// Release gives back the slots of a job with these keys, or without keys all
	// of them. What is not held is no error.
	Release(ctx context.Context, e Epoch, id JobID, keys ...string) error

	// Update books what the cluster already holds, whether or not there is room,
	// and whosever the node is: each slot replaces the job's slot of that key.
	// Nodes, and pools of nodes, that the graph lacks are charged once they are
	// put.
	Update(ctx context.Context, e Epoch, jobs ...Job) error

	// PutNode adds nodes or brings them up to date: each graph holds one vertex
	// of type node, the path from the root down to it, and the pools below it.
	// The name of a node is unique in the graph. What is held there stays held,
	// even if it no longer fits. The engine numbers the nodes itself: those put
	// before Ready by name, those that come later as they come; a node keeps its
	// number while it is in the graph.
	PutNode(ctx context.Context, e Epoch, nodes ...*resource.Graph) error

	// RemoveNode takes the node of this name, with all below it, out of the
	// graph. What jobs hold there stays theirs until they are released. A node
	// that the graph lacks is no error.
	RemoveNode(ctx context.Context, e Epoch, name string) error

	// SetStatus marks the node of this name up or down or, where the name begins
	// with a slash, the vertex of a graph that was added with this containment path.
	// Down keeps new slots away, from all below it too, and touches none that are
	// held. A node that the graph lacks is ErrInvalid.
	SetStatus(ctx context.Context, e Epoch, name string, s resource.Status) error

	// Jobs lists what is held, ordered by job id and in it by key.
	Jobs(ctx context.Context, e Epoch) ([]Job, error)

	// Nodes lists what is there and what is held there, node by node in the order
	// of their names: the first limit of them from the name from on, or fewer where
	// no more follow. Names that jobs hold something at are listed whether or not
	// the graph has such a node. A limit that is not within 1 and MaxNodesPerPage is
	// ErrInvalid. Matches need not wait for longer than one page takes, however
	// large the graph is.
	Nodes(ctx context.Context, e Epoch, from string, limit int) ([]Node, error)

	// Reset empties the graph and begins an epoch, in which no verdict is given
	// until Ready.
	Reset(ctx context.Context) (Epoch, error)

	// Ready says that the graph is loaded: from here on verdicts are given.
	Ready(ctx context.Context, e Epoch) error
}

// A GraphEngine is an Engine that also takes resource graphs of any shape. In a
// graph that was added so, a vertex is given out whole, as Fluxion does, where
// the pools of nodes that were put are divided: after a Reset the first of
// AddSubgraph and PutNode decides what the epoch's graph is made of, and the
// other is ErrInvalid from there on. Requests to such a graph may have any shape
// of RFC 14. Near goes only with nodes that were put, and Holder says nothing.
//
// A Slot of such a graph is one task slot; where its vertices are not all below
// one node vertex, its Node is empty. What a request asks for outside of slots is
// one Slot more, with an empty Label.
type GraphEngine interface {
	Engine

	// AddSubgraph adds a graph, or a part of one that begins at the root, written
	// as JGF (see resource.ReadJGF). A vertex with path and rank of one that is
	// there is that one. The engine may read jgf only during the call.
	AddSubgraph(ctx context.Context, e Epoch, jgf []byte) error

	// RemoveSubgraph takes the vertex with this containment path out of a graph
	// that was added, with all below it. It is ErrInvalid where there is none, and
	// where jobs hold something there.
	RemoveSubgraph(ctx context.Context, e Epoch, path string) error

	// Find lists the vertices that meet criteria, with their sizes, in the order of
	// a walk, each after what it contains, and with the way up to the root as
	// Fluxion lists them. Criteria are those of Fluxion's find: status=up|down,
	// sched-now=allocated|free, sched-future=reserved|free, joined by and and or,
	// with parentheses; a blank is an and. Now is the caller's clock.
	Find(ctx context.Context, e Epoch, criteria string, now time.Time) (*resource.Set, error)
}
