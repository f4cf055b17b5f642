package traverser

import (
	"math"
	"time"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/planner"
)

// A job is what one job holds, or what is reserved for it.
type job struct {
	id match.JobID
	// asked says that all of it was given out for one request.
	asked    bool
	request  Fingerprint
	reserved bool
	// passing says that it is what one request expects others to take.
	passing bool
	// start and end bound the spans that are booked: of an allocation start is
	// before all times, and end moves on while it is held longer than it said.
	start, end int64
	// at and until are what was promised; until is planner.Forever for no end.
	at, until int64
	keys      []string
	labels    []string // of the slots
	emissions []emission
	// given are the labels that the job's vertices get by it, as long as it is not
	// booked.
	given map[vid]string
	queue string
	place int // in the deadlines
}

// A Fingerprint tells two requests of a job apart.
type Fingerprint [32]byte

// lifetime is how long Fluxion's graph lasts from its time 0: a job that asks for
// so much, or does not say, has no known end.
const lifetime = jobspec.MaxDuration

// until returns the end of a duration that begins at a time, in whole seconds as
// Fluxion counts them, rounded up.
func until(at int64, d time.Duration) int64 {
	if d <= 0 || d >= lifetime {
		return planner.Forever
	}
	if rest := d % time.Second; rest > 0 {
		d += time.Second - rest
	}
	if at > math.MaxInt64-int64(d) {
		return planner.Forever
	}
	return at + int64(d)
}

// book puts what a job holds on the plans, or with on false takes it off.
func (t *Traverser) book(j *job, on bool) {
	g := &t.g
	run := gathering{parent: none}
	for i := range j.emissions {
		e := &j.emissions[i]
		if e.exclusive {
			t.bookOwn(e, j, on)
			parent, typ := g.parent[e.u], typeID(g.typ[e.u])
			if parent != run.parent || typ != run.typ {
				t.gather(run)
				run = gathering{parent: parent, typ: typ}
			}
			run.amount += e.amount
		}
		if in := g.in(e.u); in == nil {
			continue
		} else if on {
			in.use.Add(j.start, j.end, 1)
		} else {
			in.use.Remove(j.start, j.end, 1)
		}
	}
	t.gather(run)
	for _, a := range t.space.gathered {
		if on {
			a.plan.Add(j.start, j.end, a.sums)
			a.booked = a.booked || !j.passing
		} else {
			a.plan.Remove(j.start, j.end, a.sums)
		}
		clear(a.sums)
		a.open = false
	}
	clear(t.space.gathered)
	t.space.gathered = t.space.gathered[:0]
}

// bookOwn books the plan of the vertex itself.
func (t *Traverser) bookOwn(e *emission, j *job, on bool) {
	g := &t.g
	p := &g.plans[e.u]
	if on {
		p.Add(j.start, j.end, e.amount)
	} else {
		p.Remove(j.start, j.end, e.amount)
	}
	g.mark(e.u, isBooked, !p.Empty())
}

// A gathering is what is held of some children of one vertex, of one type.
type gathering struct {
	parent vid
	typ    typeID
	amount int64
}

// gather adds what is held to the filters of all that it stands in.
func (t *Traverser) gather(r gathering) {
	g := &t.g
	for u := r.parent; u != none; u = g.parent[u] {
		a := g.in(u).free
		if a == nil {
			continue
		}
		for i, tracked := range a.types {
			if tracked != r.typ {
				continue
			}
			if !a.open {
				a.open = true
				t.space.gathered = append(t.space.gathered, a)
			}
			a.sums[i] += r.amount
		}
	}
}

// reweigh gives the edges that a job was found by their new weights: what is left
// now, below the vertex, of the last type that is tracked there. A release changes
// no weight, as with Fluxion.
func (t *Traverser) reweigh(j *job, now int64) {
	g := &t.g
	for i := range j.emissions {
		in := g.in(j.emissions[i].u)
		if in == nil || in.free == nil {
			continue
		}
		last := len(in.free.types) - 1
		left := in.free.plan.Free(last, now, now+1)
		if left == 0 && !in.free.booked {
			continue
		}
		g.reweigh(j.emissions[i].u, uint64(left)) //nolint:gosec // never negative
	}
}
