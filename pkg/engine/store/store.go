// Package store keeps a graph of nodes with pools, and the allocations and reservations of jobs.
//
// Its files, listed so that a file mostly uses those above it:
//
//	sum128.go        how are amounts summed beyond an int64?
//	vertex.go        what is a vertex, and how much of it is free?
//	block_index.go   how much do the nodes of a block have at most?
//	column.go        what does a solver read of all nodes at once?
//	node.go          which pools has a node?
//	window.go        which time does a request cover?
//	job.go           what does a job hold, slot by slot?
//	timetable.go     which slots start or end when?
//	export.go        how is a job converted to an answer?
//	host.go          which slots are on a node, and which leaves are they charged to?
//	exclusivity.go   which holder has a node?
//	read_node.go     what is wrong with the graph of a node?
//	partition.go     into which domains does a level divide the nodes?
//	graph.go         how are nodes added, moved and removed?
//	timeline.go      what is free of a node, and when?
//	reservations.go  which slots are reserved for later?
//	store.go         what does a store have?
//	slot_equal.go    is a slot already what an update describes?
//	update.go        how are allocations and reservations updated and released?
//	list.go          how is the store listed, page by page?
//	order.go         in which order are nodes taken?
//	room.go          which nodes may have room for a slot?
//	ignore.go        what if some jobs held nothing?
//	expect.go        what if others held something more?
//	window_view.go   what is free during a whole window?
//	releases.go      what would be free of a node over time without reservations?
//	allocate.go      which leaves does a slot get?
//	occupancy.go     what do units hold on each node?
//	snapshot.go      what does an unlocked search read while the store changes?
package store

import (
	"errors"
	"fmt"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A Store has the graph of one epoch and its jobs. Its methods are not safe for concurrent use.
type Store struct {
	graph        Graph
	hosts        hosts
	jobs         map[match.JobID]*Job
	reservations Reservations
	// shown is the window that the columns show. See WindowView.
	shown Window
	// lastSeq is the number of slots that were ever booked. It numbers the bookings.
	lastSeq uint64
	// slotCount is the number of slots that are booked now.
	slotCount int
	ignoring  ignoreState
	// occupancies is the number of calls of Occupancy.
	occupancies uint64
	// order and distance are memory for Order.
	order    []int32
	distance []int
	// orderCalls is the number of calls of Order.
	orderCalls uint64
}

// New returns an empty store.
func New() *Store {
	st := &Store{graph: newGraph(), hosts: hosts{byName: make(map[string]*host)}, jobs: make(map[match.JobID]*Job)}
	st.graph.hosts = &st.hosts
	st.reservations = newReservations(&st.hosts, &st.graph.columns)
	return st
}

// Graph returns the graph.
func (st *Store) Graph() *Graph { return &st.graph }

// Reservations returns the reservations.
func (st *Store) Reservations() *Reservations { return &st.reservations }

// NumberNodes numbers the nodes by name. A node that is added later gets the next number.
func (st *Store) NumberNodes() { st.graph.numberNodes() }

// Sizes returns the number of jobs that hold something, the number of their slots, and the number
// of nodes.
func (st *Store) Sizes() (jobs, slots, nodes int) {
	return len(st.jobs), st.slotCount, len(st.graph.nodes)
}

// PutNodes adds nodes or updates them. If it fails with match.ErrInvalid, nothing is changed.
func (st *Store) PutNodes(nodes ...*resource.Graph) error {
	var root *resource.Vertex
	if st.graph.root != nil {
		root = st.graph.root.res
	}
	nodeGraphs := make([]*nodeGraph, len(nodes))
	for i, g := range nodes {
		s, err := readNodeGraph(g)
		if err == nil {
			err = st.graph.checkRoot(s, root)
		}
		if err != nil {
			return fmt.Errorf("put node %d of %d: %w", i+1, len(nodes), err)
		}
		nodeGraphs[i], root = s, s.ancestors[0]
	}
	for _, s := range nodeGraphs {
		h := st.hosts.ensure(s.node.Name)
		h.node = st.graph.put(h.node, s)
		h.updateExclusivity(&st.graph.columns)
		h.rebuild()
	}
	return nil
}

// RemoveNode removes a node from the graph. A node that is not there is no error.
func (st *Store) RemoveNode(name string) {
	h := st.hosts.byName[name]
	if h == nil || h.node == nil {
		return
	}
	st.graph.remove(h.node)
	h.node = nil
	st.hosts.removeIfEmpty(name)
}

// SetStatus marks a node up or down. It fails with match.ErrInvalid if there is no such node.
func (st *Store) SetStatus(name string, status resource.Status) error {
	h := st.hosts.byName[name]
	if h == nil || h.node == nil {
		return invalid("set the status of node %q: the graph has no such node", name)
	}
	about := *h.node.vertex.res
	about.Status = status
	h.node.vertex.res = &about
	st.graph.columns.setUp(h.node.position, h.node.vertex.isUp())
	return nil
}

// CheckSlot fails for a slot that cannot be booked.
func CheckSlot(s *match.Slot) error {
	switch {
	case s.Node == "":
		return errors.New("has no node name")
	case s.R == nil:
		return errors.New("has no resource set (R)")
	case s.Shared && s.Holder != "":
		return fmt.Errorf("is shared and must not have a holder, has %q", s.Holder)
	}
	for k := range s.R.Vertices {
		switch h := &s.R.Vertices[k]; {
		case h.Type == "":
			return errors.New("has a resource without a type")
		case h.Amount < 0:
			return fmt.Errorf("the amount of %s must be at least 0, is %d", h.Type, h.Amount)
		case h.Exclusively:
			return fmt.Errorf("holds %s exclusively, which is not supported for nodes added with PutNode", h.Type)
		}
	}
	return nil
}

// invalid returns an error that wraps match.ErrInvalid.
func invalid(format string, a ...any) error {
	return fmt.Errorf("%w: %w", match.ErrInvalid, fmt.Errorf(format, a...))
}
