package traverser

import (
	"fmt"
	"slices"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/planner"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// Update books what jobs hold, whether or not there is room. Each slot replaces the job's slot
// with the same key. Only the vertices of R that are held exclusively count. They are found by
// their containment path. A vertex without a path is found by type and id on the node of the slot,
// or on the node with its rank. Update fails with match.ErrInvalid, and changes nothing then.
func (t *Traverser) Update(jobs ...match.Job) error {
	books := make([]*job, len(jobs))
	for i := range jobs {
		var err error
		if books[i], err = t.read(&jobs[i]); err != nil {
			return invalid("update job %d: %w", jobs[i].ID, err)
		}
	}
	for _, j := range books {
		if len(j.keys) > 0 {
			t.replace(j)
		}
	}
	return nil
}

// read returns a job that holds only the given slots.
func (t *Traverser) read(from *match.Job) (*job, error) {
	j := &job{id: from.ID, reserved: from.Reserved, start: Instant(from.Start), end: planner.Forever}
	if !from.End.IsZero() {
		j.end = Instant(from.End)
	}
	if j.end == lastInstant {
		j.end = planner.Forever
	}
	if j.end <= j.start {
		return nil, fmt.Errorf("end: %s: not after its start, %s", from.End, from.Start)
	}
	j.at, j.until = j.start, j.end
	if from.ID == 0 {
		return nil, fmt.Errorf("the job id must not be 0")
	}
	seen := make(map[vid]bool)
	for i := range from.Slots {
		s := &from.Slots[i]
		if slices.Contains(j.keys, s.Key) {
			return nil, fmt.Errorf("two slots have the key %q", s.Key)
		}
		j.keys, j.labels = append(j.keys, s.Key), append(j.labels, s.Label)
		if err := t.readSlot(j, s, int32(i), seen); err != nil { //nolint:gosec // few
			return nil, fmt.Errorf("slot %q: %w", s.Key, err)
		}
	}
	return j, nil
}

func (t *Traverser) readSlot(j *job, s *match.Slot, number int32, seen map[vid]bool) error {
	if s.R == nil {
		return fmt.Errorf("has no resource set (R)")
	}
	before := len(j.emissions)
	for i := range s.R.Vertices {
		h := &s.R.Vertices[i]
		if !h.Exclusively {
			continue
		}
		u := t.g.locate(h, s.Node)
		if u == none {
			return fmt.Errorf("vertex %s %s (%s): is not in the graph", h.Type, h.Name, h.Path)
		}
		if h.Amount < 0 || h.Amount > t.g.size[u] {
			return fmt.Errorf("vertex %s: holds %d of %d", t.g.path(u), h.Amount, t.g.size[u])
		}
		if seen[u] {
			return fmt.Errorf("vertex %s: appears twice", t.g.path(u))
		}
		seen[u] = true
		j.emissions = append(j.emissions, emission{u: u, slot: number, exclusive: true, amount: h.Amount})
	}
	if len(j.emissions) == before {
		return fmt.Errorf("must hold at least one vertex exclusively")
	}
	return nil
}

// locate returns the vertex of a share, or none.
func (g *graph) locate(h *resource.Share, node string) vid {
	if path := h.Path; path != "" {
		u := g.find(path, h.Rank)
		if u == none || g.types[g.typ[u]] != h.Type {
			return none
		}
		return u
	}
	typ, known := g.typeIDs[h.Type]
	if !known {
		return none
	}
	for u := range g.typ {
		n := vid(u) //nolint:gosec // fewer than maxVertices
		if typeID(g.typ[n]) != typeNode || !g.attached(n) {
			continue
		}
		if node != "" && g.name(n) == node || node == "" && h.Rank >= 0 && g.rank[n] == h.Rank {
			return g.below(n, typ, h.ID)
		}
	}
	return none
}

// attached reports whether containment reaches a vertex.
func (g *graph) attached(u vid) bool { return u == g.root || g.parent[u] != none }

// below returns the vertex with this type and id among u and the vertices below u, or none.
func (g *graph) below(u vid, typ typeID, id int64) vid {
	if typeID(g.typ[u]) == typ && g.id[u] == id {
		return u
	}
	if in := g.in(u); in != nil {
		for _, c := range in.children {
			if at := g.below(c, typ, id); at != none {
				return at
			}
		}
	}
	return none
}

// replace books a job's slots in place of the slots with the same keys.
func (t *Traverser) replace(j *job) {
	was := t.jobs[j.id]
	if was == nil {
		given := j.emissions
		t.compose(j, func(yield func(*emission)) {
			for i := range given {
				yield(&given[i])
			}
		})
		t.hold(j)
		return
	}
	if was.same(j) {
		return
	}
	t.forget(was)
	given := j.emissions
	offset := int32(len(was.keys)) //nolint:gosec // few
	keep := func(e *emission) bool { return e.exclusive && !slices.Contains(j.keys, was.keys[e.slot]) }
	t.compose(j, func(yield func(*emission)) {
		for i := range was.emissions {
			if e := &was.emissions[i]; keep(e) {
				yield(e)
			}
		}
		for i := range given {
			e := given[i]
			e.slot += offset
			yield(&e)
		}
	})
	j.keys, j.labels = append(slices.Clone(was.keys), j.keys...), append(slices.Clone(was.labels), j.labels...)
	j.dropUnused()
	t.hold(j)
}

// dropUnused removes the keys under which nothing is held.
func (j *job) dropUnused() {
	used := make([]int32, len(j.keys))
	for i := range j.emissions {
		if s := j.emissions[i].slot; s >= 0 && j.emissions[i].exclusive {
			used[s] = 1
		}
	}
	n := int32(0)
	for s := range used {
		if used[s] == 0 {
			continue
		}
		j.keys[n], j.labels[n] = j.keys[s], j.labels[s]
		used[s] = n
		n++
	}
	j.keys, j.labels = j.keys[:n], j.labels[:n]
	for i := range j.emissions {
		if e := &j.emissions[i]; e.slot >= 0 && e.exclusive {
			e.slot = used[e.slot]
		}
	}
}

// same reports whether everything that is given is already held, for the same time.
func (j *job) same(given *job) bool {
	if j.reserved != given.reserved || j.at != given.at || j.until != given.until {
		return false
	}
	held := make(map[vid]emission, len(j.emissions))
	for _, e := range j.emissions {
		held[e.u] = e
	}
	counts := make(map[string]int)
	for _, e := range given.emissions {
		h, ok := held[e.u]
		if !ok || !h.exclusive || h.amount != e.amount || j.keys[h.slot] != given.keys[e.slot] {
			return false
		}
		counts[given.keys[e.slot]]++
	}
	for _, e := range j.emissions {
		if e.exclusive {
			if n, given := counts[j.keys[e.slot]]; given {
				counts[j.keys[e.slot]] = n - 1
			}
		}
	}
	for _, n := range counts {
		if n != 0 {
			return false
		}
	}
	return true
}

// setAside takes off the bookings of the ignored jobs and of the slots that the request
// replaces, and books what the request expects others to take. restore undoes all of it.
func (t *Traverser) setAside(ignored []match.JobID, r *match.Request, now int64) (restore func()) {
	if len(ignored) == 0 && r.Replaces == 0 && len(r.Expected) == 0 {
		return func() {}
	}
	var away []*job
	for _, id := range ignored {
		if j := t.jobs[id]; j != nil && !slices.Contains(away, j) {
			t.book(j, false)
			away = append(away, j)
		}
	}
	left := &job{} // what the replaced job would keep
	if j := t.jobs[r.Replaces]; j != nil && !slices.Contains(away, j) {
		left = t.rest(j, r.ReplacesKeys)
		t.book(j, false)
		t.book(left, true)
		away = append(away, j)
	}
	expected := &job{start: now, end: planner.Forever, passing: true}
	for i := range r.Expected {
		for k := range r.Expected[i].R.Vertices {
			h := &r.Expected[i].R.Vertices[k]
			if u := t.g.locate(h, r.Expected[i].Node); u != none && h.Exclusively {
				amount := min(max(0, h.Amount), t.g.size[u])
				expected.emissions = append(expected.emissions, emission{u: u, exclusive: true, amount: amount})
			}
		}
	}
	given := expected.emissions
	t.compose(expected, func(yield func(*emission)) {
		for i := range given {
			yield(&given[i])
		}
	})
	t.book(expected, true)
	return func() {
		t.book(expected, false)
		t.book(left, false)
		for _, j := range away {
			t.book(j, true)
		}
	}
}
