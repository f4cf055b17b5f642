package traverser

import (
	"cmp"
	"container/heap"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/planner"
)

// give books a job that was found. It updates the
// weights of the edges and the labels of the vertices.
func (t *Traverser) give(j *job, now int64) {
	t.hold(j)
	t.reweigh(j, now)
	maps.Copy(t.g.labels, j.given)
	j.given = nil
}

// hold books a job. An allocation is booked from the beginning of time up to
// its end. Otherwise it would not be held any more if the clock went back.
func (t *Traverser) hold(j *job) {
	t.jobs[j.id] = j
	if !j.reserved {
		j.start = math.MinInt64
		t.holding++
		t.slots += len(j.keys)
	}
	t.book(j, true)
	j.place = -1
	if j.end < planner.Forever {
		heap.Push(&t.due, j)
	}
}

// forget removes a job and its bookings.
func (t *Traverser) forget(j *job) {
	delete(t.jobs, j.id)
	if !j.reserved {
		t.holding--
		t.slots -= len(j.keys)
	}
	t.book(j, false)
	if j.place >= 0 {
		heap.Remove(&t.due, j.place)
	}
}

// advance moves the time forward to now. A reservation whose end has passed is removed. An
// allocation whose end has passed stays held until it is released, so its end is moved on.
func (t *Traverser) advance(now int64) {
	for len(t.due) > 0 && t.due[0].end <= now {
		j := t.due[0]
		t.forget(j)
		if j.reserved {
			continue
		}
		// Each extension is longer than the last, so that a job that never ends costs little.
		j.end = soon(now, max(int64(time.Second), now-j.until))
		t.hold(j)
	}
}

// soon returns the time a while after now, at most
// planner.Forever. Both arguments must be positive.
func soon(now, while int64) int64 {
	if while > planner.Forever-now {
		return planner.Forever
	}
	return now + while
}

// deadlines is a heap of jobs by their ends.
type deadlines []*job

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, k int) bool { return d[i].end < d[k].end }
func (d deadlines) Swap(i, k int) {
	d[i], d[k] = d[k], d[i]
	d[i].place, d[k].place = i, k
}

// Push implements heap.Interface.
func (d *deadlines) Push(x any) {
	j, _ := x.(*job)
	j.place = len(*d)
	*d = append(*d, j)
}

// Pop implements heap.Interface.
func (d *deadlines) Pop() any {
	last := len(*d) - 1
	j := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	j.place = -1
	return j
}

// nameSlots sets the keys and labels of the chosen slots. The
// vertices that were taken outside of slots form one more slot.
func (j *job) nameSlots(chosen []*request, q *requests, keys []string) {
	next := make(map[*request]int)
	q.offsets(next, new(int64), 1)
	j.keys, j.labels = make([]string, len(chosen)), make([]string, len(chosen))
	for i, r := range chosen {
		j.labels[i] = r.label
		if len(keys) > 0 {
			j.keys[i] = keys[next[r]]
		} else {
			j.keys[i] = strconv.Itoa(next[r])
		}
		next[r]++
	}
	if !slices.ContainsFunc(j.emissions, func(e emission) bool { return e.exclusive && e.slot < 0 }) {
		return
	}
	for i := range j.emissions {
		if e := &j.emissions[i]; e.exclusive && e.slot < 0 {
			e.slot = int32(len(chosen)) //nolint:gosec // fewer than vertices
		}
	}
	j.keys, j.labels = append(j.keys, outside(j.keys)), append(j.labels, "")
}

// noteLabels records the labels of the requests for which vertices were chosen.
func (j *job) noteLabels(c *choice) {
	for i := range j.emissions {
		u := j.emissions[i].u
		at := c.at[u]
		if at == 0 || c.marks[at-1].own == nil || c.marks[at-1].own.label == "" {
			continue
		}
		if j.given == nil {
			j.given = make(map[vid]string)
		}
		j.given[u] = c.marks[at-1].own.label
	}
}

// outside returns a key for what was taken outside of slots. No slot has this key.
func outside(keys []string) string {
	key := ""
	for slices.Contains(keys, key) {
		key += "-"
	}
	return key
}

// offsets sets at to the index of the first key of each slot request.
func (q *requests) offsets(at map[*request]int, next *int64, parents int64) {
	for i := range q.list {
		r := &q.list[i]
		if r.typ != typeSlot {
			r.with.offsets(at, next, times(parents, r.most))
			continue
		}
		at[r] = int(*next)
		*next += times(parents, r.most)
	}
}

// Release releases the slots of a job with these keys, or all its slots
// if there are no keys. It ignores keys and jobs that hold nothing.
func (t *Traverser) Release(id match.JobID, keys ...string) {
	j := t.jobs[id]
	if j == nil {
		return
	}
	if len(keys) == 0 {
		t.forget(j)
		return
	}
	if !j.holdsAny(keys) {
		return
	}
	t.forget(j)
	j.asked = false
	t.leaveOut(j, keys)
	if len(j.emissions) > 0 {
		j.dropUnused()
		t.hold(j)
	}
}

// rest returns what a job would hold after the release of the slots with these keys, or of all without keys.
func (t *Traverser) rest(j *job, keys []string) *job {
	left := &job{start: j.start, end: j.end, keys: j.keys}
	switch {
	case len(keys) == 0:
	case j.holdsAny(keys):
		left.emissions = j.emissions
		t.leaveOut(left, keys)
	default:
		left.emissions = j.emissions
	}
	return left
}

// holdsAny reports whether the job has a slot with one of these keys.
func (j *job) holdsAny(keys []string) bool {
	return slices.ContainsFunc(j.emissions, func(e emission) bool { return e.exclusive && j.has(e.slot, keys) })
}

// has reports whether a slot has one of these keys.
func (j *job) has(slot int32, keys []string) bool {
	return slot >= 0 && slices.Contains(keys, j.keys[slot])
}

// leaveOut takes the slots with these keys out of the emissions of a job.
func (t *Traverser) leaveOut(j *job, keys []string) {
	t.compose(j, func(yield func(*emission)) {
		for i := range j.emissions {
			if e := &j.emissions[i]; e.exclusive && !j.has(e.slot, keys) {
				yield(e)
			}
		}
	})
}

// compose sets the emissions of a job: the vertices that
// it holds exclusively, and all vertices above them.
func (t *Traverser) compose(j *job, held func(yield func(*emission))) {
	c := &t.space.choice
	c.reset(len(t.g.typ))
	held(func(e *emission) {
		c.markWay(&t.g, t.g.parent[e.u])
		c.mark(&t.g, mark{u: e.u, amount: e.amount, exclusive: true, slot: e.slot})
	})
	a := &t.attempt
	a.g, a.whole = &t.g, make([]bool, len(t.g.types))
	e := &t.space.emitter
	*e = emitter{a: a, c: c, out: e.out[:0], order: e.order[:0]}
	if len(c.marks) > 0 {
		e.emit(t.g.root, false, -1)
	}
	j.emissions = slices.Clone(e.out)
}

// Jobs returns what is held and reserved, ordered by job id and then by key.
func (t *Traverser) Jobs() []match.Job {
	return t.list(func(*job) bool { return true })
}

// list returns the jobs for which wanted returns true, in the order of Jobs.
func (t *Traverser) list(wanted func(*job) bool) []match.Job {
	var list []match.Job
	for _, j := range t.jobs {
		if !wanted(j) {
			continue
		}
		a := t.allocation(j)
		slices.SortFunc(a.Slots, func(x, y match.Slot) int { return cmp.Compare(x.Key, y.Key) })
		list = append(list, match.Job{ID: j.id, Slots: a.Slots, Reserved: j.reserved, Start: a.Start, End: a.End})
	}
	slices.SortFunc(list, func(x, y match.Job) int { return cmp.Compare(x.ID, y.ID) })
	return list
}
