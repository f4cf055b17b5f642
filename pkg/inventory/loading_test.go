package inventory

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/sidecar/fluxion"
	"github.com/flux-k8s/fluence/sidecar/fluxion/reapitest"
	"github.com/flux-k8s/fluence/test/objects"
)

// The graph of a large cluster is loaded for longer than a call may take. A node that joins then costs
// no verdict: who fits without it gets one at once, who needs it waits for one load, and the graph is
// never sent again.
func TestANodeThatJoinsCostsNoVerdict(t *testing.T) {
	const loadTime, timeout = 4 * time.Second, 2 * time.Second
	process := reapitest.NewProcess()
	process.LoadTime = func(nodes int) time.Duration { return loadTime * time.Duration(min(nodes-1, 1)) }
	var engine *fluxion.Engine
	spy := func() *matchtest.Fake {
		var last match.Epoch
		var err error
		engine, err = fluxion.New(fluxion.Options{
			Epoch: func() match.Epoch { last++; return last }, Open: func() fluxion.Library { return process.Open(reapitest.V054) },
		})
		if err != nil {
			t.Fatal(err)
		}
		return matchtest.Spy(engine)
	}
	run(t, spy, func(c *Config) { c.Timeout = timeout }, func(w *world) {
		w.t.Cleanup(engine.Close)
		const nodes = 1000
		for i := range nodes {
			w.nodes.add(objects.ReadyNode(fmt.Sprintf("n%04d", i), 0, objects.Having("cpu", "2", "pods", "4")))
		}
		w.begin()
		w.within(2*loadTime, "the graph is loaded", w.loaded)
		epoch := w.Epoch()
		// verdict returns how long a group waits for its verdict.
		verdict := func(id match.JobID, js *jobspec.Jobspec) time.Duration {
			for began := time.Now(); ; time.Sleep(loadingPoll) {
				ctx, cancel := context.WithTimeout(w.t.Context(), timeout)
				_, err := w.fake.Match(ctx, match.Request{Epoch: w.Epoch(), ID: id, Jobspec: js, Now: matchtest.Now})
				cancel()
				if !errors.Is(err, match.ErrUnavailable) && !errors.Is(err, match.ErrStale) {
					if err != nil {
						w.t.Errorf("Match(%d) = %v", id, err)
					}
					return time.Since(began)
				}
			}
		}
		w.nodes.add(objects.ReadyNode("new", 0, objects.Having("cpu", "8", "pods", "4")))
		w.step()
		if took := verdict(1, matchtest.Slots("w", 8, matchtest.Cores(1))); took != 0 {
			w.t.Errorf("a group that fits without the new node waited for %v", took)
		}
		if took := verdict(2, matchtest.Slots("w", 1, matchtest.Cores(8))); took > loadTime+timeout {
			w.t.Errorf("a group that needs the new node waited for %v, want a load of %v", took, loadTime)
		}
		time.Sleep(time.Minute) // for probes and audits
		if got := w.Epoch(); got != epoch {
			w.t.Errorf("the graph was sent again: epoch %d, want %d", got, epoch)
		}
		if got := process.Calls["Load"]; got != 2 {
			w.t.Errorf("the graph was loaded %d times, want twice", got)
		}
	})
}
