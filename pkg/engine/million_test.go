package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/traverser"
	"github.com/flux-k8s/fluence/test/trials"
)

// heapBound is the maximum growth of the heap after all jobs are gone.
const heapBound = 128 << 10

// mixed returns a request with a random shape, policy and duration.
func mixed(random *rand.Rand, r match.Request) match.Request {
	shapes := []jobspec.Resource{
		benchRequests["node"](1 + random.Int64N(3)), benchRequests["part"](1 + random.Int64N(4)), benchRequests["pods"](1 + random.Int64N(6)),
		several(jobspec.SlotType, 1, several("gpu", 1)), several(jobspec.SlotType, 1+random.Int64N(40), several("core", 1)),
	}
	policies := []string{
		match.PolicyFirst, match.PolicyLow, match.PolicyHigh, match.PolicyLonode, match.PolicyHinode, match.PolicyLonodex,
		match.PolicyFirstnodex, match.PolicyHinodex, match.PolicyLocality, match.PolicyVariation,
	}
	r.Jobspec = &jobspec.Jobspec{Version: 1, Resources: []jobspec.Resource{shapes[random.IntN(len(shapes))]}}
	// The default, first, is as frequent as all other policies together.
	if i := random.IntN(2 * len(policies)); i < len(policies) {
		r.Policy = policies[i]
	}
	r.Duration = time.Duration(max(0, random.IntN(100)-25)) * time.Second // a quarter has no known end
	if random.IntN(16) == 0 {
		r.Op = match.AllocateOrElseReserve
	}
	return r
}

// A jobChurn is the jobs that come and go in an engine.
type jobChurn struct {
	t      *testing.T
	e      *engine.Engine
	epoch  match.Epoch
	random *rand.Rand
	live   []match.JobID
	last   match.JobID
	now    time.Time
	given  int
	held   int // reservations
}

// matchJobs matches n jobs, and releases others meanwhile.
func (c *jobChurn) matchJobs(n int) {
	c.t.Helper()
	for range n {
		c.last++
		c.now = c.now.Add(time.Duration(c.random.IntN(2000)) * time.Millisecond)
		a, err := c.e.Match(c.t.Context(), mixed(c.random, match.Request{Epoch: c.epoch, ID: c.last, Now: c.now}))
		switch {
		case errors.Is(err, match.ErrBusy):
			c.release(4)
			continue
		case err != nil:
			c.t.Fatal(err)
		}
		if a.Reserved {
			c.held++
		}
		c.given++
		if c.live = append(c.live, c.last); len(c.live) > 100 {
			c.release(1)
		}
	}
}

// release releases n random jobs.
func (c *jobChurn) release(n int) {
	for range min(n, len(c.live)) {
		i := c.random.IntN(len(c.live))
		if err := c.e.Release(c.t.Context(), c.epoch, c.live[i]); err != nil {
			c.t.Fatal(err)
		}
		c.live[i] = c.live[len(c.live)-1]
		c.live = c.live[:len(c.live)-1]
	}
}

// answers renders an engine's answers to a series of requests. They do not depend on what the
// policy learned first.
func answers(t *testing.T, e *engine.Engine, epoch match.Epoch, now time.Time) []string {
	t.Helper()
	var list []string
	random := rand.New(rand.NewPCG(1, 1))
	for range 100 {
		r := mixed(random, match.Request{Epoch: epoch, Now: now})
		r.Op = match.WithoutAllocatingFuture
		switch r.Policy {
		case "", match.PolicyFirst, match.PolicyFirstnodex:
			r.Policy = match.PolicyLow
		}
		a, err := e.Match(t.Context(), r)
		line := fmt.Sprint(err)
		if err == nil {
			line += fmt.Sprint(a.Reserved, a.Start, a.End)
			for i := range a.R.Vertices {
				line += " " + a.R.Vertices[i].Path
			}
		}
		list = append(list, line)
	}
	return list
}

// TestManyJobsLeaveNothing checks that tens of thousands of jobs leave the graph free and the heap
// as it was. With -trials=1000000 there are a million jobs.
func TestManyJobsLeaveNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("matches for many seconds")
	}
	text := flat(100)
	open := func() (*engine.Engine, match.Epoch) {
		e, err := engine.New(engine.Options{Epoch: func() match.Epoch { return 1 }, Graph: traverser.DefaultOptions()})
		if err != nil {
			t.Fatal(err)
		}
		epoch, err := e.Reset(t.Context())
		if err == nil {
			err = e.AddSubgraph(t.Context(), epoch, text)
		}
		if err == nil {
			err = e.Ready(t.Context(), epoch)
		}
		if err != nil {
			t.Fatal(err)
		}
		return e, epoch
	}
	jobs := trials.Count(50_000)
	c := &jobChurn{t: t, random: rand.New(rand.NewPCG(trials.Seed(t), 1)), now: time.Unix(0, 0)}
	c.e, c.epoch = open()
	c.matchJobs(5000) // memory that calls reuse grows to its size
	c.release(len(c.live))
	c.given, c.held = 0, 0
	before := heap()
	begin := time.Now()
	c.matchJobs(jobs)
	took := time.Since(begin)
	c.release(len(c.live))
	after := heap()
	t.Logf("%d jobs, %d of them given room and %d of these reserved, in %s; heap %d bytes before, %d after",
		jobs, c.given, c.held, took.Round(time.Millisecond), before, after)
	if after > before+heapBound {
		t.Errorf("the heap grew from %d to %d bytes", before, after)
	}
	if c.given < jobs/4 || c.held == 0 {
		t.Errorf("of %d jobs %d were given room, %d of these reserved: too few to say anything", jobs, c.given, c.held)
	}
	for _, criteria := range []string{"sched-now=allocated", "sched-future=reserved"} {
		set, err := c.e.Find(t.Context(), c.epoch, criteria, c.now)
		if err != nil {
			t.Fatal(err)
		}
		if len(set.Vertices) > 0 {
			t.Errorf("%s lists %d vertices", criteria, len(set.Vertices))
		}
	}
	if jobs, err := c.e.Jobs(t.Context(), c.epoch); err != nil || len(jobs) > 0 {
		t.Errorf("%d jobs are left, %v", len(jobs), err)
	}
	fresh, epoch := open()
	want := answers(t, fresh, epoch, c.now)
	for i, got := range answers(t, c.e, c.epoch, c.now) {
		if got != want[i] {
			t.Errorf("question %d: %s, of a new engine %s", i, got, want[i])
		}
	}
	runtime.KeepAlive(c.e)
}
