package fluxion_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/sidecar/fluxion"
	"github.com/flux-k8s/fluence/sidecar/fluxion/reapitest"
)

func TestASlotTakesWholeGranulesAndIsToldWhatItAskedFor(t *testing.T) {
	r := newRig(t, reapitest.V054, four()...)
	a := r.places(t, 1, matchtest.Slots("w", 5, matchtest.MilliCores(250), matchtest.Bytes(1)), "a a a a b")
	got := matchtest.Amounts(a.R)
	if got["core"] != 5*250 || got["memory"] != 5 {
		t.Errorf("the job holds %v, want 1250 of core and 5 of memory", got)
	}
	r.holds(t, tally{"n0": {"core": 4, "memory": 4}, "n1": {"core": 1, "memory": 1}})
	// There is room in exact amounts, but not in whole cores.
	reason := r.refuses(t, 2, matchtest.Slots("w", 4, matchtest.MilliCores(250)), match.ErrBusy)
	if reason.Code != match.TooFew || reason.Found != 3 || reason.Wanted != 4 || !reason.WaitingHelps {
		t.Errorf("the reason is %+v, want room for 3 of 4, and that waiting helps", reason)
	}
	r.refuses(t, 2, matchtest.Slots("w", 9, matchtest.MilliCores(250)), match.ErrUnsatisfiable)
}

func TestWhatTheClusterHoldsIsRoundedUpOnce(t *testing.T) {
	r := newRig(t, reapitest.V054, four()...)
	for id := match.JobID(1); id <= 10; id++ {
		r.update(t, id, matchtest.Held("x", "a", matchtest.MilliCores(150)))
	}
	r.holds(t, tally{"n0": {"core": 2}})
	r.places(t, 20, cores(3), "a a b")
	for id := match.JobID(1); id <= 4; id++ {
		r.release(t, id)
	}
	r.holds(t, tally{"n0": {"core": 3}, "n1": {"core": 1}})
	r.places(t, 21, cores(1), "a")
}

// What is too much for a node is booked up to its room, and the remainder when other slots leave.
// The cluster is always right.
func TestWhatHasNoRoomIsChargedWhenRoomComes(t *testing.T) {
	r := newRig(t, reapitest.V054, four()...)
	r.places(t, 1, cores(3), "a a a")
	r.update(t, 2, matchtest.Held("x", "a", matchtest.Cores(3)))
	r.holds(t, tally{"n0": {"core": 4}})
	r.release(t, 1, "0")
	r.holds(t, tally{"n0": {"core": 4}})
	r.release(t, 1, "1")
	r.holds(t, tally{"n0": {"core": 4}})
	r.release(t, 1)
	r.holds(t, tally{"n0": {"core": 3}})
	r.places(t, 3, cores(2), "a b")
	r.release(t, 2)
	r.holds(t, tally{"n0": {"core": 1}, "n1": {"core": 1}})
}

func TestANodeThatShrankIsFullUntilEnoughIsGivenBack(t *testing.T) {
	r := newRig(t, reapitest.V054, four()...)
	r.places(t, 1, cores(4), "a a a a")
	r.put(t, matchtest.Node("a", nil, matchtest.MilliCores(2900), matchtest.Memory(8)))
	r.places(t, 2, cores(1), "b")
	r.holds(t, tally{"n0": {"core": 2}, "n1": {"core": 1}})
	r.release(t, 1, "0", "1")
	r.holds(t, tally{"n0": {"core": 2}, "n1": {"core": 1}})
	r.release(t, 1, "2")
	r.places(t, 3, cores(1), "a")
}

func TestGranulesCanBeChosen(t *testing.T) {
	p := reapitest.NewProcess()
	e, err := fluxion.New(fluxion.Options{
		Epoch: func() match.Epoch { return 1 }, Open: func() fluxion.Library { return p.Open(reapitest.V054) },
		Granules: map[string]int64{"core": 500, "memory": 4 * matchtest.GiB},
	})
	if err != nil {
		t.Fatalf("New() = %v", err)
	}
	t.Cleanup(e.Close)
	r := &rig{Engine: e, process: p}
	if r.epoch, err = e.Reset(t.Context()); err != nil {
		t.Fatalf("Reset() = %v", err)
	}
	r.put(t, four()...)
	if err := e.Ready(t.Context(), r.epoch); err != nil {
		t.Fatalf("Ready() = %v", err)
	}
	r.places(t, 1, matchtest.Slots("w", 3, matchtest.MilliCores(600), matchtest.Memory(1)), "a a b")
	r.holds(t, tally{"n0": {"core": 4, "memory": 2}, "n1": {"core": 2, "memory": 1}})
}

// Types have other names in the library, where a slash is a step of a
// path. Two types that would get the same name there get different ones.
func TestTypesOfAnyName(t *testing.T) {
	nodes := four()
	pools := []matchtest.Pool{
		{Type: "example.com/gpu", Amount: 2}, {Type: "example_com/gpu", Amount: 1}, {Type: "level2", Amount: 1}, {Type: "slots", Amount: 3},
		{Type: "nic", Amount: 30}, {Type: "nic1", Amount: 30}, {Type: "n", Amount: 2},
	}
	nodes = append(nodes, matchtest.Node("0", [][2]string{{"rack", "r"}}, pools...))
	// No name of a vertex has a slash, whatever its type.
	for i := range nodes[2].Vertices {
		if v := &nodes[2].Vertices[i]; v.Type == "example.com/gpu" || v.Type == "example_com/gpu" {
			v.Name, v.Path = "g", ""
			if v.Type == "example_com/gpu" {
				v.Name = "h"
			}
		}
	}
	r := newRig(t, reapitest.V054, nodes...)
	r.places(t, 1, matchtest.Slots("w", 1, pools...), "0")
	r.refuses(t, 2, matchtest.Slots("w", 1, pools[1]), match.ErrBusy)
	r.refuses(t, 2, matchtest.Slots("w", 3, pools[0]), match.ErrUnsatisfiable)
}

func TestMoreThanAGraphCanHoldIsCutOff(t *testing.T) {
	r := newRig(t, reapitest.V054, matchtest.Node("a", nil, matchtest.Pool{Type: "tokens", Amount: math.MaxInt64}))
	r.places(t, 1, matchtest.Slots("w", 2, matchtest.Pool{Type: "tokens", Amount: 4000}), "a a")
	r.refuses(t, 2, matchtest.Slots("w", 1, matchtest.Pool{Type: "tokens", Amount: 4000}), match.ErrBusy)
	r.places(t, 2, matchtest.Slots("w", 1, matchtest.Pool{Type: "tokens", Amount: 192}), "a")
}

func TestRefusalsAreInTheAmountsThatWereRequested(t *testing.T) {
	cases := map[string]struct {
		request *jobspec.Jobspec
		verdict error
		want    match.Shortage
	}{
		"a pod that fits by itself, but not in whole CPUs": {
			matchtest.Slots("w", 1, matchtest.MilliCores(7500)), match.ErrUnsatisfiable,
			match.Shortage{Type: "core", Unit: "m", Wanted: 7500, MaxOnNode: 7000, Nodes: 2},
		},
		"pods that fit on one node by themselves": {
			matchtest.Slots("w", 15, matchtest.MilliCores(250)), match.ErrUnsatisfiable,
			match.Shortage{Type: "core", Unit: "m", Wanted: 250, MaxOnNode: 7000},
		},
		"bytes": {
			matchtest.Slots("w", 1, matchtest.Bytes(9*matchtest.GiB+1)), match.ErrUnsatisfiable,
			match.Shortage{Type: "memory", Unit: "B", Wanted: 9*matchtest.GiB + 1, MaxOnNode: 8 * matchtest.GiB, Nodes: 2},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, reapitest.V054,
				matchtest.Node("a", nil, matchtest.MilliCores(7900), matchtest.Memory(8)),
				matchtest.Node("b", nil, matchtest.MilliCores(7600), matchtest.Memory(8)))
			reason := r.refuses(t, 1, tc.request, tc.verdict)
			if diff := cmp.Diff([]match.Shortage{tc.want}, reason.Shortages); diff != "" {
				t.Errorf("the shortages differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHugePagesAreCountedInPages(t *testing.T) {
	pages := func(n int64) matchtest.Pool { return matchtest.Pool{Type: "hugepages-2Mi", Unit: "B", Amount: n << 21} }
	large := matchtest.Pool{Type: "hugepages-1Gi", Unit: "B", Amount: 2 * matchtest.GiB}
	odd := matchtest.Pool{Type: "hugepages-many", Unit: "B", Amount: 2 * matchtest.GiB}
	r := newRig(t, reapitest.V054, matchtest.Node("a", nil, matchtest.Cores(8), pages(4), large, odd), matchtest.Node("b", nil, matchtest.Cores(8)))
	r.places(t, 1, matchtest.Slots("w", 3, matchtest.Cores(1), pages(1)), "a a a")
	r.places(t, 2, matchtest.Slots("w", 2, matchtest.Pool{Type: large.Type, Unit: "B", Amount: 1 << 29}), "a a")
	r.refuses(t, 3, matchtest.Slots("w", 1, large), match.ErrBusy)
	r.places(t, 3, matchtest.Slots("w", 2, matchtest.Pool{Type: odd.Type, Unit: "B", Amount: 1}), "a a")
	r.refuses(t, 4, matchtest.Slots("w", 1, pages(2)), match.ErrBusy)
	r.places(t, 4, matchtest.Slots("w", 1, pages(1)), "a")
}
