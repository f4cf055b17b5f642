package engine

import (
	"context"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// Update implements match.Engine. A slot that the job holds as it is given
// stays as it is, so that the job's request can be answered again; whose its node
// is may change all the same. Shares held
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
		case s.Shared && s.Holder != "":
			return invalid("update job %d: slot %q is shared and has the holder %q", j.ID, s.Key, s.Holder)
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
			e.relet(was, f.Holder, f.Shared)
			continue
		}
		s := &slot{
			job: from.ID, key: f.Key, node: f.Node, start: f.R.Start, end: f.R.Expiration,
			holder: f.Holder, shared: f.Shared,
		}
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
