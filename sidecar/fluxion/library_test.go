package fluxion_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/sidecar/fluxion"
	"github.com/flux-k8s/fluence/sidecar/fluxion/reapitest"
)

func everyRelease(t *testing.T, test func(t *testing.T, release reapitest.Release)) {
	t.Helper()
	for _, release := range reapitest.Releases() {
		t.Run(release.String(), func(t *testing.T) { test(t, release) })
	}
}

// State 2 of the lessons of earlier systems: the first member
// of a group ends early, and the others keep what they hold.
func TestAMemberIsGivenBackAlone(t *testing.T) {
	everyRelease(t, func(t *testing.T, release reapitest.Release) {
		r := newRig(t, release, four()...)
		r.places(t, 1, cores(5), "a a a a b")
		if got := r.process.Current.Jobs(); got != 5 {
			t.Errorf("the library has %d jobs, want one a slot", got)
		}
		r.release(t, 1, "1")
		r.release(t, 1, "1")
		r.holds(t, tally{"n0": {"core": 3}, "n1": {"core": 1}})
		r.places(t, 2, cores(1), "a")
		r.release(t, 1)
		r.release(t, 1)
		r.holds(t, tally{"n0": {"core": 1}})
	})
}

// Slots end up with a job each, whatever form of R a release accepts. If the release
// accepts none, or answers yes without booking, slots are booked by node instead.
func TestSlotsAreBookedAsTheReleaseCan(t *testing.T) {
	cases := map[string]struct {
		release reapitest.Release
		form    reapitest.UpdateForm
		updates int // without the updates of the probe
	}{
		"R alone":              {reapitest.V054, reapitest.UpdatePlain, 5},
		"R of version 1":       {reapitest.V054, reapitest.UpdateWrapped, 5},
		"a yes that is none":   {reapitest.V054, reapitest.UpdateNothing, 0},
		"not in this release":  {reapitest.V052, reapitest.UpdatePlain, 0},
		"nor in the first one": {reapitest.V039, reapitest.UpdatePlain, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := reapitest.NewProcess()
			p.Updates = tc.form
			r := &rig{Engine: newEngine(t, tc.release, p), process: p}
			var err error
			if r.epoch, err = r.Reset(t.Context()); err != nil {
				t.Fatalf("Reset() = %v", err)
			}
			r.put(t, four()...)
			if err := r.Ready(t.Context(), r.epoch); err != nil {
				t.Fatalf("Ready() = %v", err)
			}
			probes := p.Calls["UpdateAllocate"]
			r.places(t, 1, cores(5), "a a a a b")
			if got := p.Calls["UpdateAllocate"] - probes; got != tc.updates {
				t.Errorf("%d slots were booked by R, want %d", got, tc.updates)
			}
			r.holds(t, tally{"n0": {"core": 4}, "n1": {"core": 1}})
			r.release(t, 1, "4", "0")
			r.holds(t, tally{"n0": {"core": 3}})
			r.loads(t, 1)
		})
	}
}

// A slot request is one match, and each slot request after the other.
func TestAGroupIsOneMatch(t *testing.T) {
	r := newRig(t, reapitest.V054, four()...)
	before := r.process.Calls["Match"]
	r.places(t, 1, cores(6), "a a a a b b")
	if got := r.process.Calls["Match"] - before; got != 1 {
		t.Errorf("6 slots took %d matches, want 1", got)
	}
	before = r.process.Calls["Match"]
	r.places(t, 2, matchtest.Jobspec(
		matchtest.Slot("l", jobspec.Exactly(1), matchtest.Cores(1)),
		matchtest.Slot("w", jobspec.Exactly(1), matchtest.Memory(1)),
	), "b a")
	if got := r.process.Calls["Match"] - before; got != 2 {
		t.Errorf("2 slot requests took %d matches, want 2", got)
	}
}

func TestManyChangesCostOneLoading(t *testing.T) {
	r := newRig(t, reapitest.V054, four()...)
	r.loads(t, 1)
	r.places(t, 1, cores(2), "a a")
	for _, c := range []struct {
		name   string
		change func()
	}{
		{"a status", func() {
			if err := r.SetStatus(t.Context(), r.epoch, "a", resource.Down); err != nil {
				t.Fatal(err)
			}
		}},
		{"properties", func() { r.put(t, matchtest.WithProperties(four()[1], "fast", "")) }},
		{"less than a unit", func() {
			r.put(t, matchtest.Node("b", nil, matchtest.MilliCores(4999), matchtest.Bytes(9*matchtest.GiB-1)))
		}},
		{"what others hold", func() { r.update(t, 5, matchtest.Held("x", "b", matchtest.Cores(1))) }},
		{"a request too many", func() { r.refuses(t, 9, cores(5), match.ErrBusy) }},
	} {
		c.change()
		r.places(t, 8, cores(1), "b")
		r.release(t, 8)
		if r.process.Calls["Load"] != 1 {
			t.Fatalf("%s has the graph loaded again", c.name)
		}
	}
	r.put(t, matchtest.Node("c", nil, matchtest.Cores(1)))
	r.put(t, matchtest.Node("d", nil, matchtest.Cores(1)))
	r.put(t, matchtest.Node("a", nil, matchtest.Cores(3)))
	r.update(t, 6, matchtest.Held("x", "c", matchtest.Cores(1)))
	r.loads(t, 1)
	r.places(t, 2, cores(5), "a b b b d")
	r.loads(t, 2)
}

func TestANodeThatGoesCostsNoLoading(t *testing.T) {
	r := newRig(t, reapitest.V054, four()...)
	r.places(t, 1, cores(2), "a a")
	r.update(t, 2, matchtest.Held("x", "a", matchtest.Cores(1)))
	if err := r.RemoveNode(t.Context(), r.epoch, "a"); err != nil {
		t.Fatalf("RemoveNode() = %v", err)
	}
	r.holds(t, nil)
	r.places(t, 3, cores(1), "b")
	r.refuses(t, 4, cores(4), match.ErrBusy)
	r.refuses(t, 4, cores(5), match.ErrUnsatisfiable)
	r.loads(t, 1)
	r.put(t, four()[0])
	r.places(t, 4, cores(4), "b b b a")
	r.loads(t, 2)
	r.holds(t, tally{"n1": {"core": 4}, "n2": {"core": 4}})
}

// A match stops at its deadline, with nothing booked.
func TestADeadlineIsLookedAtBeforeEachCall(t *testing.T) {
	everyRelease(t, func(t *testing.T, release reapitest.Release) {
		for stop := 1; stop <= 4; stop++ {
			r := newRig(t, release, four()...)
			r.places(t, 1, cores(1), "a")
			ctx, cancel := context.WithCancel(t.Context())
			calls := 0
			r.process.Fail = func(call string) error {
				if call == "Match" || call == "UpdateAllocate" {
					if calls++; calls == stop {
						cancel()
					}
				}
				return nil
			}
			_, err := r.Match(ctx, r.ask(2, cores(5)))
			r.process.Fail = nil
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("stopped at call %d, Match() = %v", stop, err)
			}
			if calls != stop {
				t.Errorf("%d calls were made after the deadline", calls-stop)
			}
			r.holds(t, tally{"n0": {"core": 1}})
			r.places(t, 2, cores(5), "a a a b b")
			cancel()
		}
	})
}

// Release 0.39 can book what it denied, under a number that it gives out
// again. Such a job must not stay booked, and no slot may depend on it.
func TestWhatWasBookedWithAnErrorIsNotLost(t *testing.T) {
	everyRelease(t, func(t *testing.T, release reapitest.Release) {
		for at := 1; at <= 6; at++ {
			r := newRig(t, release, four()...)
			r.places(t, 1, cores(2), "a a")
			r.update(t, 2, matchtest.Held("x", "b", matchtest.Cores(1)))
			calls := 0
			r.process.Fail = func(call string) error {
				if call != "Match" && call != "UpdateAllocate" && call != "Cancel" {
					return nil
				}
				if calls++; calls == at {
					return errors.New("an error that is none")
				}
				return nil
			}
			r.places(t, 3, cores(4), "a a b b")
			r.process.Fail = nil
			r.release(t, 3, "0")
			r.places(t, 4, cores(1), "a")
			r.holds(t, tally{"n0": {"core": 4}, "n1": {"core": 3}})
		}
	})
}

func TestALibraryThatFailsForGoodIsAnErrorAndRecovers(t *testing.T) {
	for _, broken := range []string{"Match", "InitContext", "Cancel"} {
		t.Run(broken, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, reapitest.V054, four()...)
				r.places(t, 1, cores(2), "a a")
				r.process.Fail = func(call string) error {
					if call == broken {
						return errors.New("out of order")
					}
					return nil
				}
				r.put(t, matchtest.Node("c", nil, matchtest.Cores(5)))
				var refusal *match.Refusal
				if _, err := r.Match(t.Context(), r.ask(2, cores(4))); err == nil || errors.As(err, &refusal) || !strings.Contains(err.Error(), "out of order") {
					t.Errorf("Match() = %v, want an error that says why", err)
				}
				// What the cluster reports is accepted all the same.
				r.update(t, 5, matchtest.Held("x", "b", matchtest.Cores(1)))
				r.release(t, 5)
				r.process.Fail = nil
				time.Sleep(time.Minute) // until the graph is loaded again
				r.places(t, 2, cores(3), "a a b")
				r.release(t, 2)
				r.holds(t, tally{"n0": {"core": 2}})
			})
		})
	}
}

func TestReadyFailsWithTheLibraryAndCanBeCalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := reapitest.NewProcess()
		p.Fail = func(string) error { return errors.New("out of order") }
		r := &rig{Engine: newEngine(t, reapitest.V054, p), process: p}
		var err error
		if r.epoch, err = r.Reset(t.Context()); err != nil {
			t.Fatalf("Reset() = %v", err)
		}
		r.put(t, four()...)
		if err := r.Ready(t.Context(), r.epoch); err == nil || !strings.Contains(err.Error(), "out of order") {
			t.Errorf("Ready() = %v, want the library's error", err)
		}
		if _, err := r.Match(t.Context(), r.ask(1, cores(1))); !errors.Is(err, match.ErrUnavailable) {
			t.Errorf("Match() = %v, want the error %q", err, match.ErrUnavailable)
		}
		p.Fail = nil
		time.Sleep(time.Minute) // until the graph is loaded again
		if err := r.Ready(t.Context(), r.epoch); err != nil {
			t.Fatalf("Ready() = %v", err)
		}
		r.places(t, 1, cores(1), "a")
	})
}

// Once they have denied a request that cannot be satisfied, releases
// before 0.46 also deny requests that can. No verdict may depend on that.
func TestAVerdictOfNeverIsOurs(t *testing.T) {
	everyRelease(t, func(t *testing.T, release reapitest.Release) {
		r := newRig(t, release, four()...)
		r.refuses(t, 1, cores(9), match.ErrUnsatisfiable)
		r.places(t, 1, cores(8), "a a a a b b b b")
		r.refuses(t, 2, cores(1), match.ErrBusy)
		r.refuses(t, 2, cores(9), match.ErrUnsatisfiable)
		req := r.ask(2, cores(8))
		req.Op = match.Satisfiability
		if _, err := r.Match(t.Context(), req); err != nil {
			t.Errorf("Match() = %v, want it to be satisfiable", err)
		}
	})
}

// Release 0.39 fails on nodes that lack a type, so it is never asked for them.
func TestUnlikeNodes(t *testing.T) {
	everyRelease(t, func(t *testing.T, release reapitest.Release) {
		r := newRig(t, release, append(four(), matchtest.Node("c", nil, matchtest.Cores(4), matchtest.GPUs(2)))...)
		gpu := matchtest.Slots("w", 1, matchtest.Cores(1), matchtest.GPUs(1))
		r.places(t, 1, gpu, "c")
		r.places(t, 2, gpu, "c")
		r.refuses(t, 3, gpu, match.ErrBusy)
		r.places(t, 3, cores(3), "a a a")
		r.loads(t, 1)
	})
}

// A match that allocates nothing leaves nothing behind.
func TestWhatIfLeavesAllAsItWas(t *testing.T) {
	everyRelease(t, func(t *testing.T, release reapitest.Release) {
		r := newRig(t, release, four()...)
		r.places(t, 1, cores(3), "a a a")
		r.update(t, 2, matchtest.Held("x", "b", matchtest.MilliCores(3500)), matchtest.Held("y", "a", matchtest.Cores(2)))
		before := r.process.Current.Held()
		req := r.ask(3, cores(7))
		req.Op, req.Ignore = match.WithoutAllocating, []match.JobID{1, 2}
		req.Expected = []match.Slot{matchtest.Held("z", "a", matchtest.MilliCores(200))}
		if a, err := r.Match(t.Context(), req); err != nil || len(a.Slots) != 7 || a.Slots[3].Node != "b" {
			t.Errorf("Match() = %v, %v, want 3 slots on a and 4 on b", a, err)
		}
		req.Jobspec = cores(8)
		if _, err := r.Match(t.Context(), req); !errors.Is(err, match.ErrBusy) {
			t.Errorf("Match() = %v, want the error %q", err, match.ErrBusy)
		}
		if diff := cmp.Diff(before, r.process.Current.Held()); diff != "" {
			t.Errorf("what the library has booked differs (-before +after):\n%s", diff)
		}
		r.loads(t, 1)
	})
}

func TestOptions(t *testing.T) {
	good := func() fluxion.Options {
		return fluxion.Options{
			Epoch: func() match.Epoch { return 1 }, Open: func() fluxion.Library { return reapitest.NewProcess().Open(reapitest.V054) },
		}
	}
	cases := map[string]struct {
		change func(*fluxion.Options)
		want   string
	}{
		"no library":                      {func(o *fluxion.Options) { o.Open = nil }, "no library"},
		"no epochs":                       {func(o *fluxion.Options) { o.Epoch = nil }, "Epoch is not set"},
		"a policy not known":              {func(o *fluxion.Options) { o.Policy = "best" }, `"best"`},
		"a policy for requests":           {func(o *fluxion.Options) { o.Policy = match.PolicyLonodex }, `"lonodex"`},
		"a policy not offered":            {func(o *fluxion.Options) { o.Policy = match.PolicyHinodex }, `"hinodex"`},
		"a unit of nothing":               {func(o *fluxion.Options) { o.Granules = map[string]int64{"core": 0} }, `"core": 0`},
		"a unit of less than nothing":     {func(o *fluxion.Options) { o.Granules = map[string]int64{"core": 1, "memory": -1} }, `"memory": -1`},
		"all that is needed, and no more": {func(*fluxion.Options) {}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := good()
			tc.change(&o)
			_, err := fluxion.New(o)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("New() = %v, want an error with %q", err, tc.want)
			}
		})
	}
}

// Whatever policy the library's graph is loaded with, requests may name
// the policies with the same order, and nodes are filled in that order.
func TestPolicies(t *testing.T) {
	cases := map[string]struct {
		loaded  string
		offered []string
		want    string
	}{
		"low":    {match.PolicyLow, []string{match.PolicyLow, match.PolicyLonode, match.PolicyLonodex}, "a a b b c"},
		"lonode": {match.PolicyLonode, []string{match.PolicyLow, match.PolicyLonode, match.PolicyLonodex}, "a a b b c"},
		"high":   {match.PolicyHigh, []string{match.PolicyHigh, match.PolicyHinode}, "c c b b a"},
		"hinode": {match.PolicyHinode, []string{match.PolicyHigh, match.PolicyHinode}, "c c b b a"},
		"first":  {match.PolicyFirst, []string{match.PolicyFirst}, "a a b b c"},
	}
	for _, policy := range match.Policies() {
		if _, there := cases[policy]; !there && !match.IsExclusive(policy) {
			t.Errorf("policy %s: no case says what may be asked of a graph that is loaded with it", policy)
		}
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := reapitest.NewProcess()
			e, err := fluxion.New(fluxion.Options{
				Policy: tc.loaded, Epoch: func() match.Epoch { return 1 }, Open: func() fluxion.Library { return p.Open(reapitest.V054) },
			})
			if err != nil {
				t.Fatalf("New() = %v", err)
			}
			t.Cleanup(e.Close)
			r := &rig{Engine: e, process: p}
			if r.epoch, err = e.Reset(t.Context()); err != nil {
				t.Fatalf("Reset() = %v", err)
			}
			for _, n := range []string{"c", "a", "b"} {
				r.put(t, matchtest.Node(n, nil, matchtest.Cores(2)))
			}
			if err := e.Ready(t.Context(), r.epoch); err != nil {
				t.Fatalf("Ready() = %v", err)
			}
			for _, named := range match.Policies() {
				req := r.ask(1, cores(1))
				req.Policy, req.Holder, req.Op = named, "h", match.WithoutAllocating
				_, err := e.Match(t.Context(), req)
				offered := strings.Contains(strings.Join(tc.offered, " ")+" ", named+" ")
				if offered && err != nil || !offered && !errors.Is(err, match.ErrPolicy) {
					t.Errorf("policy %s: Match() = %v, offered is %v", named, err, offered)
				}
			}
			req := r.ask(1, cores(1))
			req.Policy = match.PolicyHinodex
			if _, err := e.Match(t.Context(), req); err == nil || !strings.HasSuffix(err.Error(), `"hinodex": must be one of `+strings.Join(tc.offered, ", ")) {
				t.Errorf("Match() = %v, want the policy and those that are offered", err)
			}
			r.places(t, 2, cores(5), tc.want)
		})
	}
}

func TestANodeOfSeveralNamesIsInvalid(t *testing.T) {
	r := newRig(t, reapitest.V054, four()...)
	for _, name := range []string{"n[1-2]", "n1,n2"} {
		err := r.PutNode(t.Context(), r.epoch, matchtest.Node("c", nil), matchtest.Node(name, nil, matchtest.Cores(1)))
		if !errors.Is(err, match.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("PutNode(%s) = %v, want the error %q that names it", name, err, match.ErrInvalid)
		}
	}
}
