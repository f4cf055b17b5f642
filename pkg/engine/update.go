package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// Update implements match.Engine. A slot that the job holds as it is given
// stays as it is, so that the job's request can be answered again; whose its node
// is, and when it ends, may change all the same. A job that has an End has it for
// all its slots, also those that are not named; without one a slot ends as its R
// says. Shares held exclusively are match.ErrInvalid: pools are held by amount
// here.
//
// A reservation is kept whether or not there is room for it. It is
// match.ErrInvalid for a job that holds something, and goes with the first slot
// that its job is said to hold.
func (e *Engine) Update(ctx context.Context, at match.Epoch, jobs ...match.Job) error {
	e.mu.Lock()
	defer e.unlock()
	if err := e.admit(ctx, at); err != nil {
		return err
	}
	if e.making == ofGraphs {
		return e.added.Update(jobs...)
	}
	for i := range jobs {
		if err := checkHeld(&jobs[i]); err != nil {
			return err
		}
		if err := e.checkReserved(&jobs[i], jobs); err != nil {
			return err
		}
	}
	if len(jobs) > 0 {
		e.making = ofNodes
	}
	bare := make(map[[2]string]*resource.Vertex)
	for i := range jobs {
		if jobs[i].Reserved {
			e.reserve(&jobs[i], bare)
		} else {
			e.hold(&jobs[i], bare)
		}
	}
	return nil
}

// checkHeld fails for a job that cannot be booked as given.
func checkHeld(j *match.Job) error {
	if j.ID == 0 {
		return invalid("update: job 0 names no job")
	}
	for i := range j.Slots {
		if err := checkSlot(&j.Slots[i]); err != nil {
			return invalid("update job %d: slot %q %w", j.ID, j.Slots[i].Key, err)
		}
	}
	return nil
}

// checkSlot fails for a slot that cannot count as held.
func checkSlot(s *match.Slot) error {
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

// hold books the slots of a job in place of those with the same keys. Vertices
// that are no more than a type and a unit are kept once, in bare: a loaded
// cluster holds a great many.
func (e *Engine) hold(from *match.Job, bare map[[2]string]*resource.Vertex) {
	j := e.jobs[from.ID]
	if len(from.Slots) == 0 {
		if j != nil && !from.End.IsZero() {
			e.end(j, from.End)
		}
		return
	}
	e.withdraw(from.ID)
	if j == nil {
		j = &job{id: from.ID, slots: make(map[string]*slot, len(from.Slots)), at: from.At}
		e.jobs[from.ID] = j
	}
	moved := false
	for i := range from.Slots {
		f := &from.Slots[i]
		was := j.slots[f.Key]
		if was != nil && was.holds(f) {
			e.relet(was, f.Holder, f.Shared)
			continue
		}
		s := readSlot(f, bare)
		s.job = from.ID
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
	if !from.End.IsZero() {
		e.end(j, from.End)
	}
}

// end has all that a job holds end at a time.
func (e *Engine) end(j *job, at time.Time) {
	j.end = at
	for _, s := range j.slots {
		if s.end.Equal(at) {
			continue
		}
		e.promises.ends.remove(endOf(s.end), s)
		s.end = at
		e.hosts[s.node].stay(s)
		e.promises.ends.add(endOf(s.end), s)
		e.turn(s.node)
	}
}

// readSlot copies a slot.
func readSlot(f *match.Slot, bare map[[2]string]*resource.Vertex) *slot {
	return &slot{
		key: f.Key, node: f.Node, start: f.R.Start, end: f.R.Expiration,
		holder: f.Holder, shared: f.Shared, shares: readShares(f.R, bare),
	}
}

// readShares copies what a set holds.
func readShares(r *resource.Set, bare map[[2]string]*resource.Vertex) []share {
	shares := make([]share, len(r.Vertices))
	for i := range r.Vertices {
		h := &r.Vertices[i]
		shares[i] = share{amount: h.Amount, way: onTheWay(h.Type)}
		if h.Name != "" || h.Path != "" || len(h.Paths) > 0 || len(h.Properties) > 0 {
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
