package store

import (
	"maps"
	"slices"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// Reservations are what is promised. They weigh on no leaf and stand on no host: they
// count where a request looks at the time that they are for.
type Reservations struct {
	hosts *hosts
	jobs  map[match.JobID]*Job
	// nodes are the promised slots by the name of their node.
	nodes map[string]map[*Slot]struct{}
	// starts and stops are theirs, ends those of all slots that have one, held or
	// promised.
	starts, stops, ends timetable
}

func newReservations(h *hosts) Reservations {
	return Reservations{
		hosts: h, jobs: make(map[match.JobID]*Job), nodes: make(map[string]map[*Slot]struct{}),
		starts: newTimetable(), stops: newTimetable(), ends: newTimetable(),
	}
}

// Promise reserves what a job has been drawn or told of.
func (p *Reservations) Promise(j *Job) {
	p.jobs[j.id] = j
	for _, s := range j.slots {
		p.await(s)
	}
}

// Withdraw drops the reservation of a job, if it has one.
func (p *Reservations) Withdraw(id match.JobID) {
	if j := p.jobs[id]; j != nil {
		delete(p.jobs, id)
		for _, s := range j.slots {
			p.unawait(s)
		}
	}
}

// await counts a slot among those promised.
func (p *Reservations) await(s *Slot) {
	s.charges = nil
	if p.nodes[s.node] == nil {
		p.nodes[s.node] = make(map[*Slot]struct{})
	}
	p.nodes[s.node][s] = struct{}{}
	p.starts.add(Instant(s.start), s)
	p.stops.add(endOf(s.end), s)
	p.ends.add(endOf(s.end), s)
	p.turn(s.node)
}

// unawait takes back what await counted.
func (p *Reservations) unawait(s *Slot) {
	delete(p.nodes[s.node], s)
	if len(p.nodes[s.node]) == 0 {
		delete(p.nodes, s.node)
	}
	p.starts.remove(Instant(s.start), s)
	p.stops.remove(endOf(s.end), s)
	p.ends.remove(endOf(s.end), s)
	p.turn(s.node)
}

// turn forgets what was foreseen for a node.
func (p *Reservations) turn(name string) {
	if h := p.hosts.byName[name]; h != nil {
		h.outlook = nil
	}
}

// Overlook has what these jobs have reserved not count until the returned function
// is called.
func (p *Reservations) Overlook(ids []match.JobID) (restore func()) {
	if len(p.jobs) == 0 {
		return func() {}
	}
	away := make(map[*Slot]struct{})
	for _, id := range ids {
		if j := p.jobs[id]; j != nil {
			for _, s := range j.slots {
				away[s] = struct{}{}
			}
		}
	}
	for s := range away {
		p.unawait(s)
	}
	return func() {
		for s := range away {
			p.await(s)
		}
	}
}

// Expire drops the reservations that ended and that nobody has claimed.
func (p *Reservations) Expire(now int64) {
	var late []match.JobID
	p.stops.upTo(now, func(s *Slot) { late = append(late, s.job) })
	for _, id := range late {
		p.Withdraw(id)
	}
}

// surrender drops the promised slots of a job with these keys, or without keys
// all of them.
func (p *Reservations) surrender(id match.JobID, keys []string) {
	j := p.jobs[id]
	if j == nil {
		return
	}
	for _, k := range keys {
		if s := j.slots[k]; s != nil {
			p.unawait(s)
			delete(j.slots, k)
		}
	}
	if len(keys) == 0 || len(j.slots) == 0 {
		p.Withdraw(id)
	}
}

// checkReserved fails for a reservation without a time, and for one of a job that
// holds something or is to, as others of the same call say.
func (st *Store) checkReserved(j *match.Job, all []match.Job) error {
	if !j.Reserved {
		return nil
	}
	holds := func(other match.Job) bool { return other.ID == j.ID && !other.Reserved && len(other.Slots) > 0 }
	switch {
	case j.At.IsZero():
		return invalid("update job %d: a reservation from no time on", j.ID)
	case !j.End.IsZero() && !j.End.After(j.At):
		return invalid("update job %d: a reservation from %s to %s", j.ID, j.At, j.End)
	case st.jobs[j.ID] != nil || slices.ContainsFunc(all, holds):
		return invalid("update job %d: a reservation of a job that holds something", j.ID)
	}
	return nil
}

// reserve promises the slots of a job in place of those with the same keys.
func (st *Store) reserve(from *match.Job, bare map[[2]string]*resource.Vertex) {
	if len(from.Slots) == 0 {
		return
	}
	j := &Job{id: from.ID, slots: make(map[string]*Slot, len(from.Slots)), reserved: true, at: from.At, end: from.End}
	if was := st.reservations.jobs[from.ID]; was != nil {
		st.reservations.Withdraw(from.ID)
		maps.Copy(j.slots, was.slots)
	}
	for i := range from.Slots {
		s := readSlot(&from.Slots[i], bare)
		s.job = from.ID
		j.slots[s.key] = s
	}
	for _, s := range j.slots {
		s.start, s.end = j.at, j.end
	}
	st.reservations.Promise(j)
}
