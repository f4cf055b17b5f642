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
	// asked is set if everything that the job holds was given out for one request.
	asked    bool
	request  Fingerprint
	reserved bool
	// passing is set if the job is booked only during one
	// request, for what the request expects others to take.
	passing bool
	// start and end are the time for which the job is booked. The start of an allocation is
	// before all times. The end of an allocation that is held longer than promised moves on.
	start, end int64
	// at and until are the time that was promised. until is planner.Forever if there is no end.
	at, until int64
	keys      []string
	labels    []string // by slot
	emissions []emission
	// given has the labels that the job gives its vertices. It is nil once the job is booked.
	given map[vid]string
	queue string
	place int // the index in the deadlines
}

// A Fingerprint identifies a request of a job.
type Fingerprint [32]byte

// lifetime is the lifetime of Fluxion's graph, from its time 0. A
// job that asks for that long, or for no duration, has no known end.
const lifetime = jobspec.MaxDuration

// until returns the end of a duration that begins at a time.
// The duration is rounded up to whole seconds, as in Fluxion.
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

// book adds what a job holds to the plans if on is set, and removes it otherwise.
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

// bookOwn books or removes a vertex in its own plan.
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

// A gathering is the amount held of the children of one type below one vertex.
type gathering struct {
	parent vid
	typ    typeID
	amount int64
}

// gather adds an amount to the sums of all pruning filters above.
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

// reweigh sets new weights for the edges to the vertices of a job. The
// weight is how much is left now, below the vertex, of the last type
// that is tracked there. A release changes no weight, as in Fluxion.
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
