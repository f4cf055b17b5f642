package fluxion_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/sidecar/fluxion/reapitest"
)

const (
	// loadTime is how long the library takes for a graph in the tests of this file.
	loadTime = 4 * time.Second
	// timeout is the deadline of a caller.
	timeout = 2 * time.Second
)

// thousand is 1,000 nodes of four cores.
func thousand() []*resource.Graph {
	nodes := make([]*resource.Graph, 1000)
	for i := range nodes {
		nodes[i] = matchtest.Node(fmt.Sprintf("node-%03d", i), nil, matchtest.Cores(4))
	}
	return nodes
}

// slowRig returns a rig, not ready, over a library that takes loadTime to load a graph of nodes. The
// probe's graph has one node and takes no time.
func slowRig(t *testing.T, nodes ...*resource.Graph) *rig {
	t.Helper()
	p := reapitest.NewProcess()
	p.LoadTime = func(nodes int) time.Duration {
		if nodes < 2 {
			return 0
		}
		return loadTime
	}
	r := &rig{Engine: newEngine(t, reapitest.V054, p), process: p}
	t.Cleanup(r.Close) // before the bubble ends
	var err error
	if r.epoch, err = r.Reset(t.Context()); err != nil {
		t.Fatalf("Reset() = %v", err)
	}
	r.put(t, nodes...)
	return r
}

// verdict calls Match with the deadline of a caller until the answer is not that the graph is being
// loaded. It returns how long that took, and the longest call.
func (r *rig) verdict(t *testing.T, id match.JobID, js *jobspec.Jobspec) (took, longest time.Duration) {
	t.Helper()
	began := time.Now()
	for {
		called := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		_, err := r.Match(ctx, r.ask(id, js))
		cancel()
		longest = max(longest, time.Since(called))
		if !errors.Is(err, match.ErrLoading) {
			if err != nil {
				t.Errorf("Match(%d) = %v", id, err)
			}
			return time.Since(began), longest
		}
	}
}

// begin makes the rig ready, with the deadline of a caller for each call.
func (r *rig) begin(t *testing.T) (took time.Duration) {
	t.Helper()
	for began := time.Now(); ; {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		err := r.Ready(ctx, r.epoch)
		cancel()
		if !errors.Is(err, match.ErrLoading) {
			if err != nil {
				t.Fatalf("Ready() = %v", err)
			}
			return time.Since(began)
		}
	}
}

func TestReadyIsAnsweredWhileTheGraphIsLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := slowRig(t, thousand()...)
		if took := r.begin(t); took != loadTime {
			t.Errorf("the engine was ready after %v, want the %v of the load", took, loadTime)
		}
		r.loads(t, 1)
	})
}

// A node that joins keeps nobody waiting who fits without it. Who needs it waits for one load. No call
// outlasts its deadline, and all calls but matches are answered at once.
func TestANodeThatJoinsALargeGraph(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := slowRig(t, thousand()...)
		r.begin(t)
		r.put(t, matchtest.Node("new", nil, matchtest.Cores(8)))
		if took, _ := r.verdict(t, 1, cores(3)); took != 0 {
			t.Errorf("a group that fits without the node waited for %v", took)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			took, longest := r.verdict(t, 2, matchtest.Slots("w", 1, matchtest.Cores(8)))
			if took != loadTime || longest != timeout/2 {
				t.Errorf("a group that needs the node waited for %v, in calls of up to %v; want %v and %v", took, longest, loadTime, timeout/2)
			}
		}()
		time.Sleep(loadTime / 2)
		if loading, overdue := r.Loading(); !loading || overdue {
			t.Errorf("Loading() = %v, %v, want that it loads and is not overdue", loading, overdue)
		}
		began := time.Now()
		r.update(t, 3, matchtest.Held("k", "node-007", matchtest.Cores(1)))
		r.release(t, 1)
		r.put(t, matchtest.Node("other", nil, matchtest.Cores(1)))
		if err := r.Update(t.Context(), r.epoch); err != nil {
			t.Errorf("Update() = %v", err)
		}
		if _, err := r.Nodes(t.Context(), r.epoch, "", 10); err != nil {
			t.Errorf("Nodes() = %v", err)
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("other calls waited for %v during the load", waited)
		}
		<-done
		if loading, _ := r.Loading(); loading {
			t.Error("the load has ended, and the engine says that it loads")
		}
		r.loads(t, 2)
		r.holds(t, tally{"n7": {"core": 1}, "n1000": {"core": 8}})
	})
}

// Nodes come faster than a graph is loaded, and everybody gets a verdict nevertheless.
func TestNodesThatKeepJoining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := slowRig(t, thousand()...)
		r.begin(t)
		stop := make(chan struct{})
		joined := make(chan struct{})
		go func() {
			defer close(joined)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(loadTime / 8):
				}
				r.put(t, matchtest.Node(fmt.Sprintf("z%03d", i), nil, matchtest.Cores(8)))
			}
		}()
		time.Sleep(loadTime / 4)
		for id := match.JobID(1); id <= 20; id++ {
			took, longest := r.verdict(t, id, matchtest.Slots("w", 1, matchtest.Cores(8)))
			// A node may join just after a load has begun, and there may be no room without it.
			if took > 2*loadTime || longest > timeout {
				t.Errorf("a group of %d waited for %v, in calls of up to %v", id, took, longest)
			}
			time.Sleep(time.Second)
		}
		close(stop)
		<-joined
	})
}

// After a long load the newest state of nodes is used in the end, also if nobody needs it.
func TestAnOutdatedGraphIsKeptForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := slowRig(t, thousand()...)
		r.begin(t)
		r.put(t, matchtest.Node("node-000", nil, matchtest.Cores(2)))
		r.places(t, 1, cores(1), "node-001")
		r.loads(t, 1)
		time.Sleep(10 * loadTime)
		r.places(t, 2, cores(1), "node-000")
		r.loads(t, 2)
	})
}

func TestAFailureThatNobodyWaitedForIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := slowRig(t, thousand()...)
		r.process.Fail = func(call string) error {
			if call == "InitContext" && r.process.Calls["InitContext"] > 1 { // The first is the probe's.
				return errors.New("no memory")
			}
			return nil
		}
		ready := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			return r.Ready(ctx, r.epoch)
		}
		if err := ready(); !errors.Is(err, match.ErrLoading) {
			t.Errorf("Ready() = %v, want the error %q", err, match.ErrLoading)
		}
		time.Sleep(loadTime)
		if err := ready(); err == nil || !strings.Contains(err.Error(), "no memory") {
			t.Errorf("Ready() = %v, want why the load has failed", err)
		}
		r.process.Fail = nil
		r.begin(t)
		r.places(t, 1, cores(1), "node-000")
	})
}

func TestAResetDuringALoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := slowRig(t, thousand()...)
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		if err := r.Ready(ctx, r.epoch); !errors.Is(err, match.ErrLoading) {
			t.Errorf("Ready() = %v, want the error %q", err, match.ErrLoading)
		}
		old := r.epoch
		var err error
		if r.epoch, err = r.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.Ready(t.Context(), old); !errors.Is(err, match.ErrStale) {
			t.Errorf("Ready() of the epoch before = %v, want the error %q", err, match.ErrStale)
		}
		r.put(t, four()...)
		if _, err := r.Match(t.Context(), r.ask(1, cores(1))); !errors.Is(err, match.ErrLoading) {
			t.Errorf("Match() before Ready = %v, want the error %q", err, match.ErrLoading)
		}
		r.begin(t)
		r.places(t, 1, cores(5), "a a a a b")
		r.holds(t, tally{"n0": {"core": 4}, "n1": {"core": 1}})
	})
}

func TestALoadThatDoesNotEndIsOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := slowRig(t, four()...)
		r.process.LoadTime = func(int) time.Duration { return time.Hour }
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		if err := r.Ready(ctx, r.epoch); !errors.Is(err, match.ErrLoading) {
			t.Errorf("Ready() = %v, want the error %q", err, match.ErrLoading)
		}
		time.Sleep(50 * time.Second)
		if loading, overdue := r.Loading(); !loading || overdue {
			t.Errorf("after a minute Loading() = %v, %v, want that it loads", loading, overdue)
		}
		time.Sleep(time.Minute)
		if loading, overdue := r.Loading(); !loading || !overdue {
			t.Errorf("after two minutes Loading() = %v, %v, want that it is overdue", loading, overdue)
		}
	})
}

// Whatever comes during loads, the library is called by one caller at a time (the stand-in panics
// otherwise), and has in the end what is held.
func TestManyCallersDuringLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := slowRig(t, four()...)
		r.begin(t)
		var callers sync.WaitGroup
		for k := range 4 {
			name := fmt.Sprint("x", k)
			callers.Go(func() {
				for i := range 20 {
					id := match.JobID(100 + 100*k + i)
					r.put(t, matchtest.Node(name, nil, matchtest.Cores(int64(1+i%3))))
					r.update(t, id, matchtest.Held("k", name, matchtest.MilliCores(300)))
					time.Sleep(time.Duration(k+1) * 300 * time.Millisecond)
					r.release(t, id)
				}
			})
		}
		callers.Go(func() {
			for i := range 30 {
				_, longest := r.verdict(t, match.JobID(1+i), cores(1))
				if longest > timeout {
					t.Errorf("a match took %v", longest)
				}
				r.release(t, match.JobID(1+i))
			}
		})
		callers.Wait()
		time.Sleep(20 * loadTime)
		r.verdict(t, 1, cores(4))
		r.holds(t, tally{"n0": {"core": 4}})
	})
}
