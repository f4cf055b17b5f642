// Package match defines the Engine interface: the contract between callers that ask for resources
// and the engine that owns the resource graph.
//
// An engine keeps one graph and, for each job, the resources that the job holds. It has no clock,
// writes nothing to disk and does not order requests. The caller is the source of truth: it chooses
// the job ids, and after a restart of either side it loads the graph and the jobs again. Package
// matchtest tests the rules that every implementation keeps.
package match

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A JobID identifies a job. The caller chooses it, so that a retried request is recognised as the
// same request.
type JobID uint64

// NewJobID hashes the parts that identify a job, for instance a group's UID and the number of its
// incarnation. It never returns 0, which means no job.
func NewJobID(parts ...string) JobID {
	h := sha256.New()
	for _, p := range parts {
		// Each part is preceded by its length, so that ("ab","c") and ("a","bc") differ.
		h.Write(binary.AppendUvarint(nil, uint64(len(p))))
		h.Write([]byte(p))
	}
	return JobID(max(1, binary.BigEndian.Uint64(h.Sum(nil))))
}

// An Epoch identifies one load of the graph: from a Reset to the next. It is never 0 and never used
// twice, not even after a restart of the engine.
type Epoch uint64

// An Op is the operation of a Match.
type Op int

const (
	// Allocate books the resources now. It fails if they are not free now.
	Allocate Op = iota
	// AllocateOrElseReserve books the resources now or, if they are not free now, at the earliest
	// later time.
	AllocateOrElseReserve
	// Satisfiability asks whether the request would fit if all jobs had ended. Only
	// Shared slots (pods that run on every node) hold resources then. It books nothing.
	Satisfiability
	// WithoutAllocating gives the answer that Allocate would give, and books nothing.
	WithoutAllocating
	// WithoutAllocatingFuture gives the answer that AllocateOrElseReserve would give, and books
	// nothing.
	WithoutAllocatingFuture
)

// A Request asks for the resources of one job.
type Request struct {
	// Epoch is the epoch of the graph that the request was made for.
	Epoch Epoch
	Op    Op
	// ID is the ID of the job. If the job already holds resources, the same request
	// returns these resources again, and another request is ErrConflict. If the job
	// has only a reservation, a request that books first drops the reservation,
	// even if the two requests differ. (The reservation stays if the match is too
	// hard or its context ends.) The job then gets resources if they are free now.
	// If not, and Op is AllocateOrElseReserve, the job gets a new reservation.
	ID      JobID
	Jobspec *jobspec.Jobspec
	// Keys names the slots, in the order of the jobspec's slot requests. A key is unique within its
	// job. A slot request whose count is a range has as many keys as its maximum. If fewer slots are
	// given out, the last keys of that slot request stay unused. Without keys, slots are numbered
	// from "0".
	Keys []string
	// Now is the caller's clock.
	Now time.Time
	// Duration is how long the resources are needed, counted from Now or, for a reservation, from its
	// start. Zero means that the end is not known.
	Duration time.Duration
	// Policy is one of Policies or, for a graph that was added (see GraphEngine), of GraphPolicies.
	// Empty means the engine's default.
	Policy string
	// Holder is the owner of the job. Several jobs may have the same holder, and share the nodes that
	// the holder has as a whole. Nodes that belong to another holder are left out. Holder is required
	// with a policy that takes whole nodes. Such a policy also leaves out every node with a slot of
	// another holder or of no holder. Shared slots do not count.
	Holder string
	// Near is a list of node names. Nodes are ordered by their distance in the graph to these nodes
	// first, and by the policy second.
	Near []string
	// Expected lists slots that no job has to hold, such as slots that others are about to take. The
	// slots count as held for this request alone, even if there is no room for them. They are not
	// booked, and a repeated request is the same request even if Expected differs. Their keys and
	// labels are not read. Slots on nodes that are not in the graph are skipped. Satisfiability ignores
	// Expected.
	Expected []Slot
	// Ignore lists jobs whose resources count as free. Jobs that have nothing are skipped. With an
	// operation that books, the jobs may have reservations only: a job that holds resources is
	// ErrInvalid, and so is the job of the request. The reservations stay as they are. What is booked
	// may overlap them, until their jobs ask again or release them. A repeated request is the same
	// request even if Ignore differs, and it is answered whatever the listed jobs hold by then.
	Ignore []JobID
	// Ending lists slots whose resources count as free, because their pods are about to end. Unlike
	// Ignore it can name a part of a job. It is allowed only with operations that book nothing
	// (Satisfiability, WithoutAllocating and WithoutAllocatingFuture), and must not name
	// the job of the request. Slots that no job holds are skipped. Satisfiability ignores Ending. An
	// engine that cannot leave out a part of a job answers ErrInvalid.
	Ending []SlotRef
	// Displace lists units that may be taken away if the request does not fit without that. The engine
	// looks for the placement that does the least harm, and says in Allocation.Displaced which units
	// stand in its way. Displace is allowed only with WithoutAllocating: nothing is taken away. Units
	// must not hold slots of the job of the request. An engine that cannot choose answers ErrInvalid.
	// More than MaxUnits units are ErrInvalid.
	//
	// Of two sets of units, that one does less harm that is less in the first of these in which they
	// differ: the protected slots; then, for each class from the highest to the lowest, the units of
	// several slots, and after them the slots; the largest Cost; the indices in Displace in ascending
	// order.
	Displace []Unit
	// Replaces is a job from which the request takes over slots: the slots with ReplacesKeys or, without keys, all
	// slots. The answer is as if Release had freed them before, held ones and reserved ones. If the request books,
	// they are freed in the same step as it is booked. If it does not book, is refused or fails, the job keeps them.
	// Slots that the job does not have are skipped.
	//
	// Replaces must not be the job of the request, and not be set with AllocateOrElseReserve, because it would be
	// open who has the slots until a reservation begins. ReplacesKeys need Replaces. A job in Ignore that holds
	// resources stays ErrInvalid, even if it is replaced. A repeated request is the same request even if Replaces
	// and ReplacesKeys differ. It frees nothing, whatever the job has by then. Satisfiability ignores Replaces.
	Replaces     JobID
	ReplacesKeys []string
	// Terse leaves out of a refusal what takes more work than the verdict. Reason then has what Reason.Terse
	// keeps, and WaitingHelps with each ErrBusy. A repeated request is the same request even if Terse
	// differs.
	Terse bool
}

// MaxUnits is the maximum number of units in one request.
const MaxUnits = 1 << 16

// A Unit is what can be taken away only as a whole, for example all pods of one gang.
type Unit struct {
	// Slots are the slots of the unit. Slots that no job holds are skipped. No slot is in two units.
	Slots []SlotRef
	// Class is at least 0. Units of lower classes are taken away rather than units of higher ones.
	Class int32
	// Protected is the number of slots that are not to be taken away if others will do.
	Protected int64
	// Cost decides between sets that are otherwise equal.
	Cost int64
}

// A SlotRef names slots of a job.
type SlotRef struct {
	Job JobID
	// Keys are the keys of the slots. Without keys, all slots of the job are meant.
	Keys []string
}

// A Slot is one task slot that was given out: the resources of one pod.
type Slot struct {
	// Key is the caller's name for the slot.
	Key string
	// Label is the label of the slot request; empty in an Update.
	Label string
	// Node is the name of the node that the slot is on.
	Node string
	// R is the set of resources that the slot holds. In an Update, a vertex without a containment path
	// means any vertices of its type below Node.
	R *resource.Set
	// Holder has the whole node for as long as the slot is held. A policy that takes whole nodes sets
	// Holder. It is empty if others may use the rest of the node.
	Holder string
	// Shared reports whether the slot's pod runs on every node, whoever has the node. Such a slot does
	// not keep a node from being given out whole. It does not end to make room for others: unless it
	// has a known end, its resources count as held even in the empty graph that decides between
	// ErrBusy and ErrUnsatisfiable. A shared slot has no Holder. Only an Update books one.
	Shared bool
}

// An Allocation is the answer to a Match that found room.
type Allocation struct {
	ID JobID
	// R is everything that the job was given, its vertices in Fluxion's emission order.
	R *resource.Set
	// Slots is R divided into slots, in the order of the request's keys.
	Slots []Slot
	// Reserved reports whether this is a reservation that begins at Start, not an allocation.
	Reserved bool
	Start    time.Time
	// End is the zero time if no end is known.
	End time.Time
	// Displaced are the indices in Request.Displace of the units that have to go before the slots are
	// free, in ascending order. It is empty if the request fits without that. No unit in it can stay
	// with this placement.
	Displaced []int
	// Waited is how long the Match waited for other calls. Zero means that it did not wait.
	Waited time.Duration
}

// A Job is the allocation or the reservation of one job.
type Job struct {
	ID    JobID
	Slots []Slot
	// Reserved reports whether the slots are reserved from Start on, not held. An allocation holds
	// until it is released, even past its End.
	Reserved bool
	Start    time.Time
	// End is the zero time if no end is known.
	End time.Time
}

// MaxResourceTypes is the maximum number of different resource types in one request. An engine
// keeps a number for each type on each node, so the maximum bounds its memory.
const MaxResourceTypes = 128

// MaxNodesPerPage is the maximum number of nodes that one call of Nodes lists.
const MaxNodesPerPage = 1024

// A Node is what an engine knows under one node name.
type Node struct {
	Name string
	// Graph is the node with its ancestors and its pools, in the form that PutNode takes: first the
	// vertices above the node from the root down, then the node, then the vertices below it. UniqID
	// and ID are the engine's numbers. Graph is nil if the graph has no such node but jobs hold slots
	// under its name.
	Graph *resource.Graph
	// Jobs lists the slots on the node by job, ordered by job id and then by key. A job's slots on
	// other nodes are left out.
	Jobs []Job
}

// An Engine matches requests against its resource graph. All methods are safe for concurrent use.
// Every call except Reset names the epoch that it was made for. If the graph has another epoch, or
// the engine was never reset, the call fails with ErrStale and changes nothing. Any method may fail
// with ErrInvalid if its arguments are wrong. The error names what is wrong, and nothing is
// changed.
type Engine interface {
	// Match finds resources for a request and, if Op demands it, books them: all of them or none. If
	// there is no room, the error is a *Refusal that wraps ErrBusy or ErrUnsatisfiable. Before Ready,
	// the error is ErrUnavailable.
	Match(ctx context.Context, r Request) (*Allocation, error)

	// Release frees the slots of a job with these keys, or all its slots if no keys are given.
	// Releasing what is not held is no error.
	Release(ctx context.Context, e Epoch, id JobID, keys ...string) error

	// Update books slots that the cluster already holds, even if there is no room, and whoever has the
	// node. Each slot replaces the job's slot with the same key, and ends when R does. A job with an End
	// and without slots changes the ends of all its slots. Slots on nodes, or on pools of nodes,
	// that the graph lacks are charged once PutNode adds these.
	Update(ctx context.Context, e Epoch, jobs ...Job) error

	// PutNode adds nodes or updates them. Each graph has one vertex of type node, the vertices above
	// it up to the root, and the pools below it. The name of a node is unique in the engine's graph.
	// Slots on an updated node stay held, even if they no longer fit. The engine numbers the nodes: at
	// Ready it numbers all nodes in the order of their names, and a node that is added later gets the
	// next number. A node keeps its number while it is in the graph.
	PutNode(ctx context.Context, e Epoch, nodes ...*resource.Graph) error

	// RemoveNode removes the node with this name, and everything below it, from the graph. Jobs keep
	// what they hold there until it is released. Removing a node that the graph lacks is no error.
	RemoveNode(ctx context.Context, e Epoch, name string) error

	// SetStatus marks a vertex up or down: the node with this name or, if the name begins with a
	// slash, the vertex with this containment path. Paths are for graphs that were added with
	// AddSubgraph. No new slots are placed on a vertex that is down, or below it. Slots that are held
	// there stay. SetStatus fails with ErrInvalid if the graph has no such vertex.
	SetStatus(ctx context.Context, e Epoch, name string, s resource.Status) error

	// Jobs lists all allocations and reservations, ordered by job id, the slots of each by key.
	Jobs(ctx context.Context, e Epoch) ([]Job, error)

	// Nodes lists one page of the nodes, with what jobs hold on them: up to limit nodes, ordered by
	// name, beginning with the first name that is not less than from. A name where jobs hold slots is
	// listed even if the graph has no such node. A limit below 1 or above MaxNodesPerPage is
	// ErrInvalid. A match waits at most for one page, however large the graph is.
	Nodes(ctx context.Context, e Epoch, from string, limit int) ([]Node, error)

	// Reset empties the graph and begins a new epoch. Until Ready, Match fails with ErrUnavailable.
	Reset(ctx context.Context) (Epoch, error)

	// Ready tells the engine that the graph is complete. From then on Match gives answers. An engine
	// that takes long may answer ErrLoading, also to a Match after later changes of the graph. Then the
	// caller calls it again, until it succeeds or fails otherwise. After it has succeeded, another call
	// waits for nothing, and fails if the engine could not take in later changes. The graph is not
	// lost by that, and the engine tries again by itself.
	Ready(ctx context.Context, e Epoch) error
}

// A GraphEngine is an Engine that also takes resource graphs of any shape. There are two kinds of
// graph. Nodes that were put with PutNode have pools, which are divided by amount. In a graph that
// was added with AddSubgraph, each vertex is given out whole, as Fluxion does. After a Reset, the
// first call of AddSubgraph or PutNode decides the kind for the epoch, and the other method is
// ErrInvalid from then on. For a graph that was added, a request may have any shape of RFC 14. Near
// is allowed only for nodes that were put. Holder is ignored in a graph that was added.
//
// In a graph that was added, a Slot is one task slot. Its Node is empty if its vertices are not all
// below one node vertex. The resources that a request asks for outside of slots are one more Slot,
// with an empty Label.
type GraphEngine interface {
	Engine

	// AddSubgraph adds a graph, or a part of a graph that begins at the root. The text is JGF (see
	// resource.ReadJGF). A vertex with the path and rank of an existing vertex is not added
	// again. The engine may read jgf only during the call.
	AddSubgraph(ctx context.Context, e Epoch, jgf []byte) error

	// RemoveSubgraph removes the vertex with this containment path, and everything below it, from a
	// graph that was added. It fails with ErrInvalid if there is no such vertex, or if jobs hold
	// something there.
	RemoveSubgraph(ctx context.Context, e Epoch, path string) error

	// Find lists the vertices that meet criteria, with their sizes, in post-order: each vertex after
	// those below it. The vertices up to the root are listed too, as Fluxion lists them. Criteria are
	// those of Fluxion's find: status=up|down, sched-now=allocated|free, sched-future=reserved|free.
	// They are combined with "and", "or" and parentheses. A blank between two criteria means "and".
	// Now is the caller's clock.
	Find(ctx context.Context, e Epoch, criteria string, now time.Time) (*resource.Set, error)
}
