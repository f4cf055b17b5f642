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
	"github.com/flux-k8s/fluence/sidecar/fluxion"
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
	return slowRigWith(t, func(*fluxion.Options) {}, nodes...)
}

// slowRigWith is slowRig with other options.
func slowRigWith(t *testing.T, change func(*fluxion.Options), nodes ...*resource.Graph) *rig {
	t.Helper()
	p := reapitest.NewProcess()
	p.LoadTime = func(nodes int) time.Duration {
		if nodes < 2 {
			return 0
		}
		return loadTime
	}
	var last match.Epoch
	o := fluxion.Options{
		Policy: match.PolicyLonode, Epoch: func() match.Epoch { last++; return last }, Open: func() fluxion.Library { return p.Open(reapitest.V054) },
	}
	change(&o)
	e, err := fluxion.New(o)
	if err != nil {
		t.Fatalf("New() = %v", err)
	}
	r := &rig{Engine: e, process: p}
	t.Cleanup(r.Close) // before the bubble ends
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

// failing makes all loads fail from now on, after the time that a load takes.
func (r *rig) failing() {
	r.process.Fail = func(call string) error {
		if call == "InitContext" {
			return errors.New("no memory")
		}
		return nil
	}
}

// A load that fails costs nobody the graph of before, if there is memory for two graphs. Matches go
// on in it, with all that was booked and released meanwhile.
func TestALoadThatFailsLeavesTheGraphOfBefore(t *testing.T) {
	for name, left := range map[string]int64{"with memory for both": 1 << 40, "without memory for both": 8<<10*4000 - 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := slowRigWith(t, func(o *fluxion.Options) { o.MemoryLeft = func() int64 { return left } }, thousand()...)
				r.begin(t)
				r.places(t, 1, cores(3), "node-000 node-000 node-000")
				r.update(t, 2, matchtest.Held("x", "node-001", matchtest.Cores(2)))
				r.failing()
				r.put(t, matchtest.Node("node-002", nil, matchtest.Cores(8)))
				large := matchtest.Slots("w", 1, matchtest.Cores(8))
				short, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				if _, err := r.Match(short, r.ask(3, large)); !errors.Is(err, match.ErrLoading) {
					t.Errorf("Match() = %v, want the error %q", err, match.ErrLoading)
				}
				r.release(t, 1, "0", "1")
				r.release(t, 2)
				r.update(t, 4, matchtest.Held("x", "node-003", matchtest.Cores(4)))
				if err := r.RemoveNode(t.Context(), r.epoch, "node-004"); err != nil {
					t.Fatalf("RemoveNode() = %v", err)
				}
				time.Sleep(loadTime)
				if _, err := r.Match(t.Context(), r.ask(3, large)); err == nil || !strings.Contains(err.Error(), "no memory") {
					t.Errorf("a match that needs the new graph: %v, want why it is not loaded", err)
				}
				if err := r.Ready(t.Context(), r.epoch); err == nil || !strings.Contains(err.Error(), "no memory") {
					t.Errorf("Ready() = %v, want why the graph is not loaded", err)
				}
				a, err := r.Match(t.Context(), r.ask(5, cores(9)))
				if strings.HasPrefix(name, "without") {
					if err == nil {
						t.Error("a group is placed without a graph")
					}
				} else {
					r.placed(t, a, err, "node-000 node-000 node-000 node-001 node-001 node-001 node-001 node-005 node-005")
					r.holds(t, tally{"n0": {"core": 4}, "n1": {"core": 4}, "n3": {"core": 4}, "n5": {"core": 2}})
				}
				r.process.Fail = nil
				time.Sleep(time.Minute)
				r.verdict(t, 3, large)
				if err := r.Ready(t.Context(), r.epoch); err != nil {
					t.Errorf("Ready() = %v, although the graph is loaded", err)
				}
			})
		})
	}
}

// After a load that has failed there is a pause, which doubles, also if the scheduler sends the graph
// anew each time.
func TestLoadsThatFailArePaused(t *testing.T) {
	for name, again := range map[string]func(t *testing.T, r *rig){
		"the graph stays": func(*testing.T, *rig) {},
		"the graph is sent anew": func(t *testing.T, r *rig) {
			t.Helper()
			var err error
			if r.epoch, err = r.Reset(t.Context()); err != nil {
				t.Fatalf("Reset() = %v", err)
			}
			r.put(t, four()...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := slowRig(t, four()...)
				r.failing()
				r.process.LoadTime = nil
				began := time.Now()
				for time.Since(began) < 10*time.Minute {
					if err := r.Ready(t.Context(), r.epoch); err == nil || !strings.Contains(err.Error(), "no memory") {
						t.Fatalf("Ready() = %v, want why the graph is not loaded", err)
					}
					again(t, r)
					time.Sleep(500 * time.Millisecond)
				}
				// 1, 2, 4, ... 32 seconds make six loads in the first minute, and then there is one a minute.
				if n := r.process.Calls["InitContext"]; n < 14 || n > 17 {
					t.Errorf("%d loads were begun in ten minutes, want about 16", n)
				}
			})
		})
	}
}

// A load that was dropped says nothing of the next graph: that is loaded again as soon as a node changes.
func TestADroppedLoadDoesNotKeepTheNextGraph(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := slowRig(t, thousand()...)
		r.process.LoadTime = func(nodes int) time.Duration {
			if nodes < 1000 {
				return 0
			}
			return loadTime
		}
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		if err := r.Ready(ctx, r.epoch); !errors.Is(err, match.ErrLoading) {
			t.Errorf("Ready() = %v, want the error %q", err, match.ErrLoading)
		}
		var err error
		if r.epoch, err = r.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.put(t, four()...)
		r.begin(t)
		r.put(t, matchtest.Node("a", nil, matchtest.Cores(3)))
		// If the outdated graph were kept, the slot would be on b.
		r.places(t, 1, cores(1), "a")
	})
}

// The library books for a while after it has loaded a graph. What comes between two bookings is
// answered soon, and is booked once in the end.
func TestWhatComesWhileAGraphIsBooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const booking = 70 * time.Millisecond
		r := slowRig(t, numbered("m", 40, matchtest.Cores(4))...)
		for i := range 40 {
			r.update(t, match.JobID(100+i), matchtest.Held("k", fmt.Sprintf("m%02d", i), matchtest.Cores(2)))
		}
		r.process.LoadTime = nil
		r.process.Fail = func(call string) error {
			if call == "Match" || call == "Cancel" {
				time.Sleep(booking)
			}
			return nil
		}
		ready := make(chan error)
		go func() { ready <- r.Ready(t.Context(), r.epoch) }()
		time.Sleep(10 * booking)
		synctest.Wait()
		if r.process.Calls["Load"] != 1 {
			t.Fatalf("the graph was loaded %d times, and is not being booked", r.process.Calls["Load"])
		}
		for name, call := range map[string]func() error{
			"a slot that comes": func() error {
				return r.Update(t.Context(), r.epoch, match.Job{ID: 1, Slots: []match.Slot{matchtest.Held("k", "m00", matchtest.Cores(1))}})
			},
			"a slot that grows": func() error {
				return r.Update(t.Context(), r.epoch, match.Job{ID: 139, Slots: []match.Slot{matchtest.Held("k", "m39", matchtest.Cores(3))}})
			},
			"a slot that moves": func() error {
				return r.Update(t.Context(), r.epoch, match.Job{ID: 101, Slots: []match.Slot{matchtest.Held("k", "m38", matchtest.Cores(1))}})
			},
			"slots that end": func() error {
				return errors.Join(r.Release(t.Context(), r.epoch, 102), r.Release(t.Context(), r.epoch, 137))
			},
			"a node that goes":    func() error { return r.RemoveNode(t.Context(), r.epoch, "m36") },
			"a node that shrinks": func() error { return r.PutNode(t.Context(), r.epoch, matchtest.Node("m35", nil, matchtest.Cores(1))) },
			"a node that comes":   func() error { return r.PutNode(t.Context(), r.epoch, matchtest.Node("n", nil, matchtest.Cores(1))) },
		} {
			began := time.Now()
			if err := call(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(began); took > 100*time.Millisecond+3*booking {
				t.Errorf("%s waited for %v", name, took)
			}
		}
		short, cancel := context.WithTimeout(t.Context(), 4*booking)
		defer cancel()
		if err := r.Ready(short, r.epoch); !errors.Is(err, match.ErrLoading) {
			t.Errorf("Ready() = %v while the graph is booked, want the error %q", err, match.ErrLoading)
		}
		if err := <-ready; err != nil {
			t.Errorf("Ready() = %v", err)
		}
		r.process.Fail = nil
		r.places(t, 3, matchtest.Slots("w", 1, matchtest.Cores(3)), "m01")
		want := tally{}
		for i := range 40 {
			want[fmt.Sprint("n", i)] = map[string]int64{"core": 2}
		}
		for name, n := range map[string]int64{"n0": 3, "n1": 3, "n2": 0, "n35": 0, "n36": 0, "n37": 0, "n38": 3, "n39": 3} {
			if want[name] = map[string]int64{"core": n}; n == 0 {
				delete(want, name)
			}
		}
		r.holds(t, want)
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
