package store

import (
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// Update books allocations and reservations of jobs. If it fails with match.ErrInvalid, nothing is
// changed.
func (st *Store) Update(jobs ...match.Job) error {
	for i := range jobs {
		if err := checkHeld(&jobs[i]); err != nil {
			return err
		}
		if err := st.checkReserved(&jobs[i], jobs); err != nil {
			return err
		}
	}
	sharedVertices := make(map[[2]string]*resource.Vertex)
	for i := range jobs {
		if jobs[i].Reserved {
			st.replaceReserved(&jobs[i], sharedVertices)
		} else {
			st.replaceSlots(&jobs[i], sharedVertices)
		}
	}
	return nil
}

// checkHeld fails for a job that cannot be booked.
func checkHeld(j *match.Job) error {
	if j.ID == 0 {
		return invalid("update: the job id must not be 0")
	}
	for i := range j.Slots {
		if err := CheckSlot(&j.Slots[i]); err != nil {
			return invalid("update job %d: slot %q %w", j.ID, j.Slots[i].Key, err)
		}
	}
	return nil
}

// replaceSlots books the slots of a job. They replace those with the same keys. Vertices that have
// only a type and a unit are kept once, in sharedVertices, because a loaded cluster has very many of them.
func (st *Store) replaceSlots(from *match.Job, sharedVertices map[[2]string]*resource.Vertex) {
	j := st.jobs[from.ID]
	if len(from.Slots) == 0 {
		if j != nil && !from.End.IsZero() {
			st.setEnd(j, from.End)
		}
		return
	}
	st.reservations.Cancel(from.ID)
	if j == nil {
		j = &Job{id: from.ID, slots: make(map[string]*Slot, len(from.Slots)), start: from.Start}
		st.jobs[from.ID] = j
	}
	moved := false
	for i := range from.Slots {
		f := &from.Slots[i]
		was := j.slots[f.Key]
		if was != nil && was.equals(f) {
			st.changeHolder(was, f.Holder, f.Shared)
			st.changeEnd(was, f.R.Expiration)
			continue
		}
		s := readSlot(f, sharedVertices)
		s.job = from.ID
		if was != nil {
			s.label, s.index = was.label, was.index
			moved = moved || s.node != was.node
			st.removeSlot(was)
		} else {
			j.answersRequest = false
		}
		j.slots[f.Key] = s
		st.addSlot(s)
	}
	if moved && j.answersRequest {
		j.ancestors = st.hosts.ancestors(j.slotsInOrder())
	}
	if !from.End.IsZero() {
		st.setEnd(j, from.End)
	}
}

// setEnd sets the end of a job and of all its slots.
func (st *Store) setEnd(j *Job, at time.Time) {
	j.end = at
	for _, s := range j.slots {
		st.changeEnd(s, at)
	}
}

// changeEnd sets the end of a slot that is held.
func (st *Store) changeEnd(s *Slot, at time.Time) {
	if s.end.Equal(at) {
		return
	}
	st.reservations.allEnds.remove(endOf(s.end), s)
	s.end = at
	if !at.IsZero() && !at.After(s.start) {
		s.start = time.Time{} // an end that was set later may be before it
	}
	st.hosts.byName[s.node].updatePermanent(s)
	st.reservations.allEnds.add(endOf(s.end), s)
	st.reservations.invalidate(s.node)
}

// readSlot copies a slot.
func readSlot(f *match.Slot, sharedVertices map[[2]string]*resource.Vertex) *Slot {
	return &Slot{
		key: f.Key, node: f.Node, start: f.R.Start, end: f.R.Expiration,
		holder: f.Holder, onEveryNode: f.Shared, shares: readShares(f.R, sharedVertices),
	}
}

// readShares copies the shares of a set.
func readShares(r *resource.Set, sharedVertices map[[2]string]*resource.Vertex) []share {
	shares := make([]share, len(r.Vertices))
	for i := range r.Vertices {
		h := &r.Vertices[i]
		shares[i] = share{amount: h.Amount, container: isContainer(h.Type)}
		if h.Name != "" || h.Path != "" || len(h.Paths) > 0 || len(h.Properties) > 0 {
			v := cloneVertex(&h.Vertex)
			shares[i].res = &v
			continue
		}
		key := [2]string{h.Type, h.Unit}
		about := sharedVertices[key]
		if about == nil {
			about = &resource.Vertex{Type: h.Type, Unit: h.Unit, Rank: resource.NoRank}
			sharedVertices[key] = about
		}
		shares[i].res = about
	}
	return shares
}

// Release frees the slots of a job with these keys, held and reserved, or all of them if no keys
// are given. What is not held is no error.
func (st *Store) Release(id match.JobID, keys ...string) {
	st.reservations.release(id, keys)
	j := st.jobs[id]
	if j == nil {
		return
	}
	if len(keys) == 0 {
		for _, s := range j.slots {
			st.removeSlot(s)
		}
		delete(st.jobs, id)
		return
	}
	for _, k := range keys {
		if s := j.slots[k]; s != nil {
			st.removeSlot(s)
			delete(j.slots, k)
			j.answersRequest = false
		}
	}
	if len(j.slots) == 0 {
		delete(st.jobs, id)
	}
}
