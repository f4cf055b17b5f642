package engine

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// Release implements match.Engine.
func (e *Engine) Release(ctx context.Context, at match.Epoch, id match.JobID, keys ...string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.admit(ctx, at); err != nil {
		return err
	}
	j := e.jobs[id]
	if j == nil {
		return nil
	}
	if len(keys) == 0 {
		for _, s := range j.slots {
			e.unstand(s)
		}
		delete(e.jobs, id)
		return nil
	}
	for _, k := range keys {
		if s := j.slots[k]; s != nil {
			e.unstand(s)
			delete(j.slots, k)
			j.asked = false
		}
	}
	if len(j.slots) == 0 {
		delete(e.jobs, id)
	}
	return nil
}

// Update implements match.Engine. A slot that the job holds as it is given
// stays as it is, so that the job's request can be answered again. Shares held
// exclusively are match.ErrInvalid: pools are held by amount here.
func (e *Engine) Update(ctx context.Context, at match.Epoch, jobs ...match.Job) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.admit(ctx, at); err != nil {
		return err
	}
	for i := range jobs {
		if err := checkHeld(&jobs[i]); err != nil {
			return err
		}
	}
	bare := make(map[[2]string]*resource.Vertex)
	for i := range jobs {
		e.hold(&jobs[i], bare)
	}
	return nil
}

// checkHeld fails for a job that cannot be booked as given.
func checkHeld(j *match.Job) error {
	if j.ID == 0 {
		return invalid("update: job 0 names no job")
	}
	for i := range j.Slots {
		s := &j.Slots[i]
		switch {
		case s.Node == "":
			return invalid("update job %d: slot %q names no node", j.ID, s.Key)
		case s.R == nil:
			return invalid("update job %d: slot %q has no R", j.ID, s.Key)
		}
		for k := range s.R.Vertices {
			switch h := &s.R.Vertices[k]; {
			case h.Type == "":
				return invalid("update job %d: slot %q holds a vertex without a type", j.ID, s.Key)
			case h.Amount < 0:
				return invalid("update job %d: slot %q holds %d of %s", j.ID, s.Key, h.Amount, h.Type)
			case h.Exclusively:
				return invalid("update job %d: slot %q holds %s exclusively, which this engine does not take", j.ID, s.Key, h.Type)
			}
		}
	}
	return nil
}

// hold books the slots of a job in place of those with the same keys. Vertices
// that are no more than a type and a unit are kept once, in bare: a loaded
// cluster holds a great many.
func (e *Engine) hold(from *match.Job, bare map[[2]string]*resource.Vertex) {
	if len(from.Slots) == 0 {
		return
	}
	j := e.jobs[from.ID]
	if j == nil {
		j = &job{id: from.ID, slots: make(map[string]*slot, len(from.Slots))}
		e.jobs[from.ID] = j
	}
	moved := false
	for i := range from.Slots {
		f := &from.Slots[i]
		was := j.slots[f.Key]
		if was != nil && was.holds(f) {
			continue
		}
		s := &slot{key: f.Key, node: f.Node, start: f.R.Start, end: f.R.Expiration}
		s.shares = readShares(f.R, bare)
		if was != nil {
			s.label, s.index = was.label, was.index
			moved = moved || s.node != was.node
			e.unstand(was)
		} else {
			j.asked = false
		}
		j.slots[f.Key] = s
		e.stand(s)
	}
	if moved && j.asked {
		j.above = e.above(j.given())
	}
}

// readShares copies what a set holds.
func readShares(r *resource.Set, bare map[[2]string]*resource.Vertex) []share {
	shares := make([]share, len(r.Vertices))
	for i := range r.Vertices {
		h := &r.Vertices[i]
		shares[i] = share{amount: h.Amount, way: onTheWay(h.Type)}
		if h.Name != "" || len(h.Paths) > 0 || len(h.Properties) > 0 {
			v := cloneVertex(&h.Vertex)
			shares[i].about = &v
			continue
		}
		key := [2]string{h.Type, h.Unit}
		about := bare[key]
		if about == nil {
			about = &resource.Vertex{Type: h.Type, Unit: h.Unit, Rank: resource.NoRank}
			bare[key] = about
		}
		shares[i].about = about
	}
	return shares
}

// onTheWay says whether vertices of a type are never pools.
func onTheWay(kind string) bool {
	return kind == resource.TypeNode || kind == resource.TypeCluster
}

// holds says whether the slot already is what f says: as much of every type of
// pool, on the same node, and of the same vertices where f names them.
func (s *slot) holds(f *match.Slot) bool {
	if s.node != f.Node {
		return false
	}
	had, have := make(map[string]tally), make(map[string]tally)
	for _, h := range s.shares {
		if !h.way {
			count(had, h.about.Type, h.amount)
		}
	}
	for i := range f.R.Vertices {
		h := &f.R.Vertices[i]
		path := h.Paths[resource.Containment]
		if onTheWay(h.Type) || s.passes(h.Type, path) {
			continue
		}
		if tail := below(path, s.node); tail != "" && s.amount(h.Type, tail) != h.Amount {
			return false
		}
		count(have, h.Type, h.Amount)
	}
	return maps.Equal(had, have)
}

// count adds an amount to what there is of a type.
func count(sums map[string]tally, kind string, amount int64) {
	if amount > 0 {
		t := sums[kind]
		t.add(amount)
		sums[kind] = t
	}
}

// passes says whether the vertex with this path is one that the slot has on the
// way to what it holds.
func (s *slot) passes(kind, path string) bool {
	return slices.ContainsFunc(s.shares, func(h share) bool {
		return h.way && h.about.Type == kind && h.about.Paths[resource.Containment] == path
	})
}

// amount returns what the slot holds of the vertex at a path below its node.
func (s *slot) amount(kind, tail string) int64 {
	for _, h := range s.shares {
		if h.about.Type == kind && below(h.about.Paths[resource.Containment], s.node) == tail {
			return h.amount
		}
	}
	return -1
}

// Jobs implements match.Engine. Slots that an Update brought are listed as it
// gave them.
func (e *Engine) Jobs(ctx context.Context, at match.Epoch) ([]match.Job, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.admit(ctx, at); err != nil {
		return nil, err
	}
	x := make(exporter)
	jobs := make([]match.Job, 0, len(e.jobs))
	for _, j := range e.jobs {
		held := match.Job{ID: j.id, Slots: make([]match.Slot, 0, len(j.slots))}
		for _, s := range j.slots {
			held.Slots = append(held.Slots, x.slot(s))
		}
		slices.SortFunc(held.Slots, func(a, b match.Slot) int { return strings.Compare(a.Key, b.Key) })
		jobs = append(jobs, held)
	}
	slices.SortFunc(jobs, func(a, b match.Job) int { return cmp.Compare(a.ID, b.ID) })
	return jobs, nil
}
