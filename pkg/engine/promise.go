package engine

import "github.com/flux-k8s/fluence/pkg/match"

// Promises are what is reserved. They weigh on no leaf and stand on no host: they
// count where a request looks at the time that they are for.
type promises struct {
	jobs map[match.JobID]*job
	// nodes are the promised slots by the name of their node.
	nodes map[string]map[*slot]struct{}
	// starts and stops are theirs, ends those of all slots that have one, held or
	// promised.
	starts, stops, ends timetable
}

func newPromises() promises {
	return promises{
		jobs: make(map[match.JobID]*job), nodes: make(map[string]map[*slot]struct{}),
		starts: newTimetable(), stops: newTimetable(), ends: newTimetable(),
	}
}

// promise reserves what a job has been drawn or told of.
func (e *Engine) promise(j *job) {
	e.promises.jobs[j.id] = j
	for _, s := range j.slots {
		e.await(s)
	}
}

// withdraw drops the reservation of a job, if it has one.
func (e *Engine) withdraw(id match.JobID) {
	if j := e.promises.jobs[id]; j != nil {
		delete(e.promises.jobs, id)
		for _, s := range j.slots {
			e.unawait(s)
		}
	}
}

// await counts a slot among those promised.
func (e *Engine) await(s *slot) {
	s.charges = nil
	p := &e.promises
	if p.nodes[s.node] == nil {
		p.nodes[s.node] = make(map[*slot]struct{})
	}
	p.nodes[s.node][s] = struct{}{}
	p.starts.add(instant(s.start), s)
	p.stops.add(endOf(s.end), s)
	p.ends.add(endOf(s.end), s)
	e.turn(s.node)
}

// unawait takes back what await counted.
func (e *Engine) unawait(s *slot) {
	p := &e.promises
	delete(p.nodes[s.node], s)
	if len(p.nodes[s.node]) == 0 {
		delete(p.nodes, s.node)
	}
	p.starts.remove(instant(s.start), s)
	p.stops.remove(endOf(s.end), s)
	p.ends.remove(endOf(s.end), s)
	e.turn(s.node)
}

// turn forgets what was foreseen for a node.
func (e *Engine) turn(name string) {
	if h := e.hosts[name]; h != nil {
		h.outlook = nil
	}
}

// overlook has what these jobs have reserved not count until the returned function
// is called.
func (e *Engine) overlook(ids []match.JobID) (restore func()) {
	if len(e.promises.jobs) == 0 {
		return func() {}
	}
	away := make(map[*slot]struct{})
	for _, id := range ids {
		if j := e.promises.jobs[id]; j != nil {
			for _, s := range j.slots {
				away[s] = struct{}{}
			}
		}
	}
	for s := range away {
		e.unawait(s)
	}
	return func() {
		for s := range away {
			e.await(s)
		}
	}
}

// expire drops the reservations that ended and that nobody has claimed.
func (e *Engine) expire(now int64) {
	var late []match.JobID
	e.promises.stops.upTo(now, func(s *slot) { late = append(late, s.job) })
	for _, id := range late {
		e.withdraw(id)
	}
}
