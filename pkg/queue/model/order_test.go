package model

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/queue"
	"github.com/flux-k8s/fluence/test/trials"
)

// A problem is one pool of nodes with jobs that run, and at most five jobs that wait in their order.
type problem struct {
	size    int64
	running []Span
	jobs    []queue.Job
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// drawProblem draws a problem. All times are whole minutes.
func drawProblem(seed uint64) problem {
	rng := rand.New(rand.NewPCG(seed, 5))
	minutes := func() time.Duration {
		if rng.IntN(6) == 0 {
			return 0 // no end is known
		}
		return time.Duration(1+rng.IntN(9)) * time.Minute
	}
	p := problem{size: int64(1 + rng.IntN(8))}
	free := p.size
	for free > 0 && rng.IntN(4) > 0 {
		s := Span{Pool: "a", N: 1 + rng.Int64N(free), From: noon}
		if d := minutes(); d > 0 {
			s.End = noon.Add(d)
		}
		p.running = append(p.running, s)
		free -= s.N
	}
	for i := range 1 + rng.IntN(5) {
		n := 1 + rng.Int64N(p.size)
		p.jobs = append(p.jobs, queue.Job{
			Key: types.NamespacedName{Namespace: "a", Name: fmt.Sprint(i)}, Queue: "q", Created: noon.Add(time.Duration(i) * time.Second),
			Class: Class("a", n, false), Pods: n, Duration: minutes(),
		})
	}
	return p
}

// fits reports whether a job has room from some minute on, beside what runs and what starts now, in each minute that it takes.
func (p problem) fits(j queue.Job, from int, started []queue.Job) bool {
	const horizon = 200 // all that ends has ended by then
	to := horizon
	if j.Duration > 0 {
		to = from + int(j.Duration/time.Minute)
	}
	for minute := from; minute < to; minute++ {
		at, used := noon.Add(time.Duration(minute)*time.Minute), j.Pods
		for _, s := range p.running {
			if s.End.IsZero() || s.End.After(at) {
				used += s.N
			}
		}
		for _, o := range started {
			if o.Duration == 0 || noon.Add(o.Duration).After(at) {
				used += o.Pods
			}
		}
		if used > p.size {
			return false
		}
	}
	return true
}

// earliest returns the first minute from which on a job has room, or -1.
func (p problem) earliest(j queue.Job, started []queue.Job) int {
	for minute := range 100 {
		if p.fits(j, minute, started) {
			return minute
		}
	}
	return -1
}

// promised returns the first job of those that wait that has a time at which it can start, and that time, or -1.
func (p problem) promised(waiting, started []queue.Job) (job, minute int) {
	for _, j := range waiting {
		if at := p.earliest(j, started); at >= 0 {
			return slices.IndexFunc(p.jobs, func(o queue.Job) bool { return o.Key == j.Key }), at
		}
	}
	return -1, -1
}

// isAllowed reports whether some jobs, one bit each, may start together. Each of them has to fit. Under FCFS nobody passes one that
// waits. Under EASY, the jobs after the first one that waits and has a time at which it can start do not move that time.
func (p problem) isAllowed(policy queue.Policy, set int) bool {
	var started, before, waiting []queue.Job
	for i, j := range p.jobs {
		if set&(1<<i) == 0 {
			waiting = append(waiting, j)
			continue
		}
		if policy == queue.FCFS && len(waiting) > 0 || !p.fits(j, 0, started) {
			return false
		}
		started = append(started, j)
	}
	if policy == queue.FCFS || len(waiting) == 0 {
		return true
	}
	for i, j := range p.jobs {
		if set&(1<<i) != 0 {
			before = append(before, j)
			continue
		}
		// The promise is made when all before it have started.
		if at := p.earliest(j, before); at >= 0 {
			return at == p.earliest(j, started)
		}
	}
	return true
}

// orders returns all orders of n things.
func orders(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var all [][]int
	for _, o := range orders(n - 1) {
		for at := range n {
			all = append(all, slices.Insert(slices.Clone(o), at, n-1))
		}
	}
	return all
}

// best starts the jobs in every order, one after another, as far as these may start together, and returns the best outcome: in
// which of two outcomes the first job differs, the one with it is better.
func (p problem) best(policy queue.Policy) int {
	best := 0
	better := func(a, b int) bool {
		first := (a ^ b) & -(a ^ b)
		return a&first != 0
	}
	for _, order := range orders(len(p.jobs)) {
		set := 0
		for _, i := range order {
			set |= 1 << i
			if p.isAllowed(policy, set) && better(set, best) {
				best = set
			}
		}
	}
	return best
}

// solve lets the model make a pass, and returns the jobs that start, and which one is promised room from which minute on, or -1.
func (p problem) solve(policy queue.Policy, fault func(*Cluster) queue.Matcher) (set, job, minute int) {
	c := NewCluster(noon, map[string]*Pool{"a": {Size: p.size}})
	for i, s := range p.running {
		c.Held[types.NamespacedName{Name: fmt.Sprint(i)}] = s
	}
	m := New(queue.Config{})
	m.PutQueue(queue.Queue{Name: "q", Policy: policy, Started: true})
	for _, j := range p.jobs {
		m.PutWaiting(j)
	}
	for range 20 {
		if !m.Pass(noon, fault(c)) {
			break
		}
	}
	job, minute = -1, -1
	for i, j := range p.jobs {
		if _, holds := c.Held[j.Key]; holds {
			set |= 1 << i
		}
		if s, is := c.Promised[j.Key]; is {
			job, minute = i, int(s.From.Sub(noon)/time.Minute)
		}
	}
	return set, job, minute
}

// check returns what is wrong with what the model does, or nothing.
func (p problem) check(policy queue.Policy, fault func(*Cluster) queue.Matcher) string {
	set, job, minute := p.solve(policy, fault)
	if want := p.best(policy); set != want {
		return fmt.Sprintf("%05b start, want %05b", set, want)
	}
	var started, waiting []queue.Job
	for i, j := range p.jobs {
		if set&(1<<i) != 0 {
			started = append(started, j)
		} else {
			waiting = append(waiting, j)
		}
	}
	wantJob, wantMinute := -1, -1
	if policy == queue.EASY {
		wantJob, wantMinute = p.promised(waiting, started)
	}
	if job != wantJob || minute != wantMinute {
		return fmt.Sprintf("job %d is promised minute %d, want %d, %d", job, minute, wantJob, wantMinute)
	}
	return ""
}

// In one pass the model starts the jobs that are the best to start, of all orders in which they may start, and promises room to the first
// that can be, at the earliest time.
func TestTheModelIsTheBestOfEveryOrder(t *testing.T) {
	passed := 0
	for seed := range trials.Seeds(3000) {
		p := drawProblem(seed)
		for _, policy := range []queue.Policy{queue.FCFS, queue.EASY} {
			if wrong := p.check(policy, exactly); wrong != "" {
				t.Fatalf("seed %d, %s: %s: %+v", seed, policy, wrong, p)
			}
			if set, _, _ := p.solve(policy, exactly); set&(set+1) != 0 {
				passed++
			}
		}
	}
	t.Logf("in %d problems someone passed", passed)
	if passed == 0 {
		t.Error("nobody has passed")
	}
}

func exactly(c *Cluster) queue.Matcher { return c }

// faulty is a cluster with a fault that was made on purpose.
type faulty struct {
	*Cluster
	allocate func(*Cluster, queue.Ask) queue.Answer
	promise  func(*Cluster, queue.Ask) queue.Answer
}

// Allocate implements queue.Matcher.
func (f faulty) Allocate(a queue.Ask) queue.Answer { return f.allocate(f.Cluster, a) }

// Promise implements queue.Matcher.
func (f faulty) Promise(a queue.Ask) queue.Answer { return f.promise(f.Cluster, a) }

func TestTheOrdersFindFaults(t *testing.T) {
	shorter := func(a queue.Ask) queue.Ask {
		j := *a.Job
		j.Duration, a.Job = time.Minute, &j
		return a
	}
	cases := map[string]faulty{
		"a job that passes ignores promises": {allocate: func(c *Cluster, a queue.Ask) queue.Answer {
			a.Ignore = slices.Collect(maps.Keys(c.Promised))
			return c.Allocate(a)
		}},
		"a job that passes says less time": {allocate: func(c *Cluster, a queue.Ask) queue.Answer { return c.Allocate(shorter(a)) }},
		"nobody passes":                    {allocate: func(*Cluster, queue.Ask) queue.Answer { return queue.Answer{Verdict: queue.Busy} }},
		"nobody is promised room":          {promise: func(c *Cluster, a queue.Ask) queue.Answer { return c.Allocate(a) }},
		"a promise is too late": {promise: func(c *Cluster, a queue.Ask) queue.Answer {
			got := c.Promise(a)
			if s, is := c.Promised[a.Job.Key]; is {
				c.Promised[a.Job.Key] = Span{s.Pool, s.N, s.From.Add(time.Minute), s.End}
			}
			return got
		}},
	}
	for name, f := range cases {
		t.Run(name, func(t *testing.T) {
			if f.allocate == nil {
				f.allocate = (*Cluster).Allocate
			}
			if f.promise == nil {
				f.promise = (*Cluster).Promise
			}
			for seed := range uint64(500) {
				if drawProblem(seed).check(queue.EASY, func(c *Cluster) queue.Matcher { f.Cluster = c; return f }) != "" {
					return
				}
			}
			t.Error("it is not found")
		})
	}
}
