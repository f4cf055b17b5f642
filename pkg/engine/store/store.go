// Package store keeps the graph of nodes with pools, and who holds what of it, now and later.
//
// Its files, each of which uses those before it:
//
//	sum128.go         how are amounts added up that pass an int64?
//	vertex.go        what is a vertex, and what is free of it?
//	column.go        what do matchers read of all nodes at once?
//	node.go          which pools has a node?
//	window.go        which time does a request look at?
//	job.go           what does a job hold, slot by slot?
//	timetable.go     what happens when?
//	export.go        how is a job written out?
//	host.go          what stands at a name, and where does it weigh?
//	exclusivity.go   whose is a node?
//	read_node.go     what is wrong with the graph of a node?
//	partition.go     into which domains does a level divide the nodes?
//	graph.go         how do nodes come, move and go?
//	timeline.go      what is free of a node, and when?
//	reservations.go  what is promised?
//	store.go         what is there at all?
//	slot_equal.go          is a slot what the cluster says?
//	update.go          how is booked what the cluster says?
//	list.go          how is it listed, page by page?
//	order.go         in which order are nodes taken?
//	ignore.go        what if some jobs held nothing?
//	expect.go        what if others took something?
//	window_view.go   what is free all through a window?
//	allocate.go      which leaves does a slot get?
//	snapshot.go      what does a match look at that goes on beside the store?
package store

import (
	"errors"
	"fmt"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A Store is the graph of one epoch with its jobs. Its methods are not safe for concurrent use.
type Store struct {
	graph        Graph
	hosts        hosts
	jobs         map[match.JobID]*Job
	reservations Reservations
	lastSeq      uint64 // counts the slots ever stood, to keep their order
	slotCount    int    // counts the slots that stand
	ignoring     ignoreState
	// order and distance are memory for the order of nodes, and walk counts the walks that measured
	// distances.
	order    []int32
	distance []int
	walks    uint64
}

// New returns a store of nothing.
func New() *Store {
	st := &Store{graph: newGraph(), hosts: hosts{byName: make(map[string]*host)}, jobs: make(map[match.JobID]*Job)}
	st.reservations = newReservations(&st.hosts)
	return st
}

// Graph returns the graph as matchers read it.
func (st *Store) Graph() *Graph { return &st.graph }

// Reservations returns what is reserved.
func (st *Store) Reservations() *Reservations { return &st.reservations }

// NumberNodes gives the nodes their numbers, by name. Nodes that come later are numbered as they come.
func (st *Store) NumberNodes() { st.graph.numberNodes() }

// Sizes returns how many jobs hold something, how many slots that is, and how many nodes there are.
func (st *Store) Sizes() (jobs, slots, nodes int) {
	return len(st.jobs), st.slotCount, len(st.graph.nodes)
}

// PutNodes adds nodes, or brings them up to date. It fails with match.ErrInvalid, changing nothing.
func (st *Store) PutNodes(nodes ...*resource.Graph) error {
	var root *resource.Vertex
	if st.graph.root != nil {
		root = st.graph.root.res
	}
	sites := make([]*nodeGraph, len(nodes))
	for i, g := range nodes {
		s, err := readNodeGraph(g)
		if err == nil {
			err = st.graph.checkRoot(s, root)
		}
		if err != nil {
			return fmt.Errorf("put node %d of %d: %w", i+1, len(nodes), err)
		}
		sites[i], root = s, s.ancestors[0]
	}
	for _, s := range sites {
		h := st.hosts.ensure(s.node.Name)
		h.node = st.graph.put(h.node, s)
		h.updateExclusivity(&st.graph.columns)
		h.rebuild()
	}
	return nil
}

// RemoveNode takes a node out of the graph. One that is not there is no error.
func (st *Store) RemoveNode(name string) {
	h := st.hosts.byName[name]
	if h == nil || h.node == nil {
		return
	}
	st.graph.remove(h.node)
	h.node = nil
	st.hosts.removeIfEmpty(name)
}

// SetStatus marks a node up or down. It fails with match.ErrInvalid where there is none.
func (st *Store) SetStatus(name string, status resource.Status) error {
	h := st.hosts.byName[name]
	if h == nil || h.node == nil {
		return invalid("set the status of node %q: the graph has no such node", name)
	}
	about := *h.node.vertex.res
	about.Status = status
	h.node.vertex.res = &about
	st.graph.columns.up[h.node.position] = h.node.vertex.isUp()
	return nil
}

// CheckSlot fails for a slot that cannot count as held.
func CheckSlot(s *match.Slot) error {
	switch {
	case s.Node == "":
		return errors.New("names no node")
	case s.R == nil:
		return errors.New("has no R")
	case s.Shared && s.Holder != "":
		return fmt.Errorf("is shared and has the holder %q", s.Holder)
	}
	for k := range s.R.Vertices {
		switch h := &s.R.Vertices[k]; {
		case h.Type == "":
			return errors.New("holds a vertex without a type")
		case h.Amount < 0:
			return fmt.Errorf("holds %d of %s", h.Amount, h.Type)
		case h.Exclusively:
			return fmt.Errorf("holds %s exclusively, which this engine does not take", h.Type)
		}
	}
	return nil
}

// invalid is the error for arguments that are wrong.
func invalid(format string, a ...any) error {
	return fmt.Errorf("%w: %w", match.ErrInvalid, fmt.Errorf(format, a...))
}
