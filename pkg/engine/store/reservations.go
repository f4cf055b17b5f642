package store

import (
	"maps"
	"slices"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// Reservations are the slots that are reserved for later. They have no charges and are on no host.
// They count for a request whose window overlaps theirs.
type Reservations struct {
	hosts   *hosts
	columns *columns
	jobs    map[match.JobID]*Job
	// byNode has the reserved slots by the name of their node.
	byNode map[string]map[*Slot]struct{}
	// reservedStarts has the reserved slots by start. reservedEnds has the
	// reserved slots by end, and allEnds has all slots, held and reserved,
	// by end. The last two leave out slots whose end is not known.
	reservedStarts, reservedEnds, allEnds timetable
}

func newReservations(h *hosts, c *columns) Reservations {
	return Reservations{
		hosts: h, columns: c, jobs: make(map[match.JobID]*Job), byNode: make(map[string]map[*Slot]struct{}),
		reservedStarts: newTimetable(), reservedEnds: newTimetable(), allEnds: newTimetable(),
	}
}

// Add adds the reservation of a job.
func (p *Reservations) Add(j *Job) {
	p.jobs[j.id] = j
	for _, s := range j.slots {
		p.reserve(s)
	}
}

// Cancel drops the reservation of a job, if the job has one.
func (p *Reservations) Cancel(id match.JobID) {
	if j := p.jobs[id]; j != nil {
		delete(p.jobs, id)
		for _, s := range j.slots {
			p.unreserve(s)
		}
	}
}

// on returns the reserved slots on a node.
func (p *Reservations) on(n *node) map[*Slot]struct{} {
	if len(p.byNode) == 0 {
		return nil // most graphs have none: the name is not read
	}
	return p.byNode[n.name()]
}

// reserve adds a slot.
func (p *Reservations) reserve(s *Slot) {
	s.charges = nil
	if p.byNode[s.node] == nil {
		p.byNode[s.node] = make(map[*Slot]struct{})
	}
	p.byNode[s.node][s] = struct{}{}
	p.reservedStarts.add(Instant(s.start), s)
	p.reservedEnds.add(endOf(s.end), s)
	p.allEnds.add(endOf(s.end), s)
	p.invalidate(s.node)
}

// unreserve reverts reserve.
func (p *Reservations) unreserve(s *Slot) {
	delete(p.byNode[s.node], s)
	if len(p.byNode[s.node]) == 0 {
		delete(p.byNode, s.node)
	}
	p.reservedStarts.remove(Instant(s.start), s)
	p.reservedEnds.remove(endOf(s.end), s)
	p.allEnds.remove(endOf(s.end), s)
	p.invalidate(s.node)
}

// invalidate clears the timeline of a node, whose reservations or ends have changed.
func (p *Reservations) invalidate(name string) {
	h := p.hosts.byName[name]
	if h == nil {
		return
	}
	h.timeline = nil
	if h.node == nil {
		return
	}
	if len(p.byNode[name]) == 0 {
		p.columns.uncover(h.node.position)
	} else {
		p.columns.markStale(h.node.position)
	}
}

// Ignore takes out the reservations of these jobs, and these reserved slots, until the returned function is called.
func (p *Reservations) Ignore(ids []match.JobID, slots []match.SlotRef) (restore func()) {
	if len(p.jobs) == 0 {
		return func() {}
	}
	away := make(map[*Slot]struct{})
	leave := func(id match.JobID, keys []string) {
		if j := p.jobs[id]; j != nil {
			for _, s := range j.slotsOf(keys) {
				away[s] = struct{}{}
			}
		}
	}
	for _, id := range ids {
		leave(id, nil)
	}
	for _, ref := range slots {
		leave(ref.Job, ref.Keys)
	}
	for s := range away {
		p.unreserve(s)
	}
	return func() {
		for s := range away {
			p.reserve(s)
		}
	}
}

// Expire drops the reservations that have ended and that no job has claimed.
func (p *Reservations) Expire(now int64) {
	var late []match.JobID
	p.reservedEnds.upTo(now, func(s *Slot) { late = append(late, s.job) })
	for _, id := range late {
		p.Cancel(id)
	}
}

// release drops the reserved slots of a job with these keys, or all of them if no keys are given.
func (p *Reservations) release(id match.JobID, keys []string) {
	j := p.jobs[id]
	if j == nil {
		return
	}
	for _, k := range keys {
		if s := j.slots[k]; s != nil {
			p.unreserve(s)
			delete(j.slots, k)
		}
	}
	if len(keys) == 0 || len(j.slots) == 0 {
		p.Cancel(id)
	}
}

// checkReserved fails for a reservation that has no start or ends before it starts. It also fails
// for a job that holds something, or gets something in the same call.
func (st *Store) checkReserved(j *match.Job, all []match.Job) error {
	if !j.Reserved {
		return nil
	}
	holds := func(other match.Job) bool { return other.ID == j.ID && !other.Reserved && len(other.Slots) > 0 }
	switch {
	case j.Start.IsZero():
		return invalid("update job %d: the reservation has no start", j.ID)
	case !j.End.IsZero() && !j.End.After(j.Start):
		return invalid("update job %d: the reservation ends at %s, which is not after its start at %s", j.ID, j.End, j.Start)
	case st.jobs[j.ID] != nil || slices.ContainsFunc(all, holds):
		return invalid("update job %d: the job holds resources and cannot have a reservation as well", j.ID)
	}
	return nil
}

// replaceReserved reserves the slots of a job. They replace those with the same keys.
func (st *Store) replaceReserved(from *match.Job, sharedVertices map[[2]string]*resource.Vertex) {
	if len(from.Slots) == 0 {
		return
	}
	j := &Job{id: from.ID, slots: make(map[string]*Slot, len(from.Slots)), reserved: true, start: from.Start, end: from.End}
	if was := st.reservations.jobs[from.ID]; was != nil {
		st.reservations.Cancel(from.ID)
		maps.Copy(j.slots, was.slots)
	}
	for i := range from.Slots {
		s := readSlot(&from.Slots[i], sharedVertices)
		s.job = from.ID
		j.slots[s.key] = s
	}
	for _, s := range j.slots {
		s.start, s.end = j.start, j.end
	}
	st.reservations.Add(j)
}
