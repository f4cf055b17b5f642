package store

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// Page copies one page of hosts: up to limit hosts, beginning with the first name that is not less
// than from. The first call sorts all names.
func (st *Store) Page(from string, limit int) []HostCopy {
	if st.hosts.names == nil {
		st.hosts.names = slices.Sorted(maps.Keys(st.hosts.byName))
	}
	first, _ := slices.BinarySearch(st.hosts.names, from)
	page := st.hosts.names[first:min(first+limit, len(st.hosts.names))]
	copies := make([]HostCopy, len(page))
	for i, name := range page {
		copies[i].copyHost(name, st.hosts.byName[name])
	}
	return copies
}

// ExportNodes converts copies of hosts. The store may have changed since.
func ExportNodes(copies []HostCopy) []match.Node {
	x := make(exporter)
	nodes := make([]match.Node, len(copies))
	for i := range copies {
		nodes[i] = match.Node{Name: copies[i].name, Graph: copies[i].graph(), Jobs: x.jobs(copies[i].slots)}
	}
	return nodes
}

// Jobs lists all allocations and reservations, ordered by job id, the slots of each by key. Slots
// that an Update booked are listed as they were given.
func (st *Store) Jobs() []match.Job {
	x := make(exporter)
	jobs := make([]match.Job, 0, len(st.jobs)+len(st.reservations.jobs))
	for _, of := range []map[match.JobID]*Job{st.jobs, st.reservations.jobs} {
		for _, j := range of {
			jobs = append(jobs, x.job(j))
		}
	}
	slices.SortFunc(jobs, func(a, b match.Job) int { return cmp.Compare(a.ID, b.ID) })
	return jobs
}

// job converts a job, its slots ordered by key.
func (x exporter) job(j *Job) match.Job {
	out := match.Job{ID: j.id, Slots: make([]match.Slot, 0, len(j.slots)), Reserved: j.reserved, Start: j.start, End: j.end}
	for _, s := range j.slots {
		out.Slots = append(out.Slots, x.slot(s))
	}
	slices.SortFunc(out.Slots, func(a, b match.Slot) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// A HostCopy is a copy of a host at one moment. It has nothing that may change later.
type HostCopy struct {
	name     string
	vertices []*resource.Vertex
	parents  []int // indexes into vertices; -1 for the root
	slots    []Slot
}

func (n *HostCopy) copyHost(name string, h *host) {
	n.name = name
	n.slots = make([]Slot, 0, len(h.slots))
	for s := range h.slots {
		n.slots = append(n.slots, *s)
	}
	if h.node == nil {
		return
	}
	for v := h.node.vertex; v != nil; v = v.parent {
		n.vertices = append(n.vertices, v.res)
	}
	slices.Reverse(n.vertices)
	for i := range n.vertices {
		n.parents = append(n.parents, i-1)
	}
	n.copyBelow(h.node.vertex, len(n.vertices)-1)
}

// copyBelow copies the vertices below v. The copy of v has the index at.
func (n *HostCopy) copyBelow(v *vertex, at int) {
	for _, c := range v.children {
		n.vertices, n.parents = append(n.vertices, c.res), append(n.parents, at)
		n.copyBelow(c, len(n.vertices)-1)
	}
}

// graph converts the node. It returns nil if there is none.
func (n *HostCopy) graph() *resource.Graph {
	if len(n.vertices) == 0 {
		return nil
	}
	g := &resource.Graph{
		Vertices: make([]resource.Vertex, len(n.vertices)),
		Edges:    make([]resource.Edge, 0, len(n.vertices)-1),
	}
	for i, v := range n.vertices {
		g.Vertices[i] = cloneVertex(v)
		if p := n.parents[i]; p >= 0 {
			g.Edges = append(g.Edges, resource.Edge{Source: p, Target: i, Subsystem: resource.Containment})
		}
	}
	return g
}

// jobs converts slots, job by job.
func (x exporter) jobs(slots []Slot) []match.Job {
	slices.SortFunc(slots, func(a, b Slot) int {
		return cmp.Or(cmp.Compare(a.job, b.job), strings.Compare(a.key, b.key))
	})
	var jobs []match.Job
	for i := range slots {
		s := &slots[i]
		if n := len(jobs); n == 0 || jobs[n-1].ID != s.job {
			jobs = append(jobs, match.Job{ID: s.job})
		}
		last := &jobs[len(jobs)-1]
		last.Slots = append(last.Slots, x.slot(s))
	}
	return jobs
}
