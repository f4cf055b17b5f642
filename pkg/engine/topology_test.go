package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// racks loads an engine with racks of four nodes. The nodes of a rack have this number of cores
// each.
func racks(t *testing.T, cores ...int64) *driver {
	t.Helper()
	d := &driver{e: newEngine(t)}
	var graphs []*resource.Graph
	for r, n := range cores {
		for i := range 4 {
			graphs = append(graphs, matchtest.Node(fmt.Sprintf("r%03d-n%d", r, i),
				[][2]string{{"rack", fmt.Sprintf("r%03d", r)}}, matchtest.Cores(n), matchtest.Memory(n)))
		}
	}
	d.load(t, graphs...)
	return d
}

// perRack counts the slots of each rack.
func perRack(a *match.Allocation) map[string]int {
	counts := make(map[string]int)
	for _, s := range a.Slots {
		counts[s.Node[:4]]++
	}
	return counts
}

// TestOfManyRacksTheFewestAreUsed requests slots that need the racks with the most room. There are
// far too many sets of racks to try all.
func TestOfManyRacksTheFewestAreUsed(t *testing.T) {
	cores := make([]int64, 300)
	for i := range cores {
		cores[i] = 1 + int64(i*7%10) // ten sizes, mixed: 30 racks with 40 cores each
	}
	cases := map[string]struct {
		js   *jobspec.Jobspec
		want int
	}{
		"one shape":  {js: matchtest.Slots("a", 1000, matchtest.Cores(1)), want: 25},
		"two shapes": {js: matchtest.Jobspec(matchtest.Slot("a", jobspec.Exactly(1), matchtest.Cores(9)), matchtest.Slot("b", jobspec.Exactly(991), matchtest.Cores(1))), want: 25},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := racks(t, cores...)
			a := d.match(t, 1, matchtest.Together(tc.js, jobspec.Topology{Preferred: []string{"rack"}}))
			if got := perRack(a); len(got) != tc.want {
				t.Errorf("%d racks are used, want %d: %v", len(got), tc.want, got)
			}
		})
	}
}

// TestOfManyRacksEqualSharesAreTaken requests one slot more than 25 racks have room for.
func TestOfManyRacksEqualSharesAreTaken(t *testing.T) {
	cores := make([]int64, 300)
	for i := range cores {
		cores[i] = 1 + int64(i*7%10)
	}
	d := racks(t, cores...)
	a := d.match(t, 1, matchtest.Together(matchtest.Slots("a", 1001, matchtest.Cores(1)), jobspec.Topology{Balanced: "rack"}))
	sizes := make(map[int]int)
	for _, n := range perRack(a) {
		sizes[n]++
	}
	if sizes[38] != 13 || sizes[39] != 13 || len(sizes) != 2 {
		t.Errorf("so many racks have so many slots: %v, want 13 with 38 and 13 with 39", sizes)
	}
}

// TestOfManyRacksThoseWithNearNodesComeFirst requests slots close to two racks: one with more room
// than others, and one with too little.
func TestOfManyRacksThoseWithNearNodesComeFirst(t *testing.T) {
	cores := make([]int64, 300)
	for i := range cores {
		cores[i] = 2 + int64(i%3)
	}
	cores[150] = 20
	d := racks(t, cores...)
	r := d.request(1, matchtest.Together(matchtest.Slots("a", 80+7*16-3, matchtest.Cores(1)), jobspec.Topology{Preferred: []string{"rack"}}))
	r.Near = []string{"r150-n0", "r003-n2"} // room for 80 and for 8
	a, err := d.e.Match(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if got := perRack(a); len(got) != 8 || got["r150"] != 80 {
		t.Errorf("%d racks are used, want 8 with all of r150: %v", len(got), got)
	}
}

// TestSharesOfSeveralShapesAreFoundAmongManyRacks requests slots of which one fits on a node,
// although by amounts more seem to fit. There are too many layouts to try all.
func TestSharesOfSeveralShapesAreFoundAmongManyRacks(t *testing.T) {
	even, mixed := make([]int64, 100), make([]int64, 100)
	for i := range even {
		even[i], mixed[i] = 5, 5+int64(i%2)
	}
	shares := jobspec.Topology{Balanced: "rack"}
	few := jobspec.Topology{Preferred: []string{"rack"}}
	cases := map[string]struct {
		cores []int64
		at    jobspec.Topology
		want  int
	}{
		"balanced, of one kind":   {cores: even, at: shares, want: 25},
		"preferred, of one kind":  {cores: even, at: few, want: 25},
		"balanced, of two kinds":  {cores: mixed, at: shares, want: 13},
		"preferred, of two kinds": {cores: mixed, at: few, want: 13},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := racks(t, tc.cores...)
			a := d.match(t, 1, matchtest.Together(matchtest.Jobspec(
				matchtest.Slot("a", jobspec.Exactly(50), matchtest.Cores(3)),
				matchtest.Slot("b", jobspec.Exactly(50), matchtest.Cores(3), matchtest.Memory(1)),
			), tc.at))
			if got := perRack(a); len(got) != tc.want {
				t.Errorf("%d racks are used, want %d: %v", len(got), tc.want, got)
			}
		})
	}
}

// TestPreferredTopologyNeverPreventsPlacement requests shapes that fill all racks except a few cores.
// The search for the preferred layout uses up its budget.
func TestPreferredTopologyNeverPreventsPlacement(t *testing.T) {
	cores := make([]int64, 64)
	for i := range cores {
		cores[i] = 5 + int64(i%3)
	}
	d := racks(t, cores...)
	js := matchtest.Jobspec(
		matchtest.Slot("large", jobspec.Exactly(256), matchtest.Cores(3), matchtest.Memory(1)),
		matchtest.Slot("flat", jobspec.Exactly(256), matchtest.Cores(1), matchtest.Memory(3)),
	)
	a := d.match(t, 1, matchtest.Together(js, jobspec.Topology{Preferred: []string{"rack", "node"}}))
	if len(a.Slots) != 512 {
		t.Errorf("%d slots, want 512", len(a.Slots))
	}
}

// TestReservationKeepsRequiredTopology fills both racks with jobs that end one after the other. There
// is room across the racks before there is room in one rack.
func TestReservationKeepsRequiredTopology(t *testing.T) {
	d := racks(t, 1, 1)
	for id, ends := range []int{10, 20, 40, 50, 15, 25, 30, 60} {
		d.matchForMinutes(t, match.JobID(id+1), matchtest.Slots("a", 1, matchtest.Cores(1)), ends)
	}
	a := d.matchForMinutes(t, 9, matchtest.Together(matchtest.Slots("a", 3, matchtest.Cores(1)), jobspec.Topology{Required: "rack"}), 5)
	if begins(a) != 30 || len(perRack(a)) != 1 || perRack(a)["r001"] != 3 {
		t.Errorf("it stands on %v from %v on, want three in r001 from 30 on", perRack(a), begins(a))
	}
}

// TestBlockerRespectsReservations has a rack where the end of job 1 leaves room that is
// reserved for job 2.
func TestBlockerRespectsReservations(t *testing.T) {
	d := racks(t, 1)
	d.matchForMinutes(t, 1, matchtest.Slots("a", 2, matchtest.Cores(1)), 10)
	d.matchForMinutes(t, 2, matchtest.Slots("a", 1, matchtest.Cores(1)), 10)
	if a := d.matchForMinutes(t, 3, matchtest.Slots("a", 3, matchtest.Cores(1)), 10); begins(a) != 10 {
		t.Fatalf("job 3 begins at %v, want 10", begins(a))
	}
	r := d.request(4, matchtest.Together(matchtest.Slots("a", 3, matchtest.Cores(1)), jobspec.Topology{Required: "rack"}))
	var refusal *match.Refusal
	for range 2 {
		_, err := d.e.Match(t.Context(), r)
		if !errors.As(err, &refusal) {
			t.Fatalf("Match() = %v, want a refusal", err)
		}
		if end := refusal.Reason.Blocker; refusal.Reason.Found != 1 || end != nil {
			t.Errorf("Match() = %v with the end %+v, want 1 found and no end", err, end)
		}
	}
	if err := d.e.Release(t.Context(), d.epoch, 3); err != nil {
		t.Fatal(err)
	}
	if _, err := d.e.Match(t.Context(), r); !errors.As(err, &refusal) || refusal.Reason.Blocker == nil || *refusal.Reason.Blocker != (match.Blocker{Job: 1, MoreSlots: 2}) {
		t.Errorf("Match() = %v, want the end of job 1 to make 2 more", err)
	}
}

// TestBlockerFreesTheShapeThatFailed has a job whose end would make room for another
// label, and slots that never end.
func TestBlockerFreesTheShapeThatFailed(t *testing.T) {
	in := [][2]string{{"rack", "r1"}}
	whole, part := matchtest.Cores(8), matchtest.Cores(4)
	cases := map[string]struct {
		held map[match.JobID]match.Slot
		ask  *jobspec.Jobspec
		want *match.Blocker
	}{
		"others would fit": {
			held: map[match.JobID]match.Slot{7: matchtest.Held("x", "n2", part), 8: matchtest.Held("y", "n3", matchtest.Cores(7))},
			ask:  matchtest.Jobspec(matchtest.Slot("a", jobspec.Exactly(2), whole), matchtest.Slot("b", jobspec.Exactly(7), matchtest.Cores(1))),
			want: &match.Blocker{Job: 7, MoreSlots: 1},
		},
		"what runs on every node does not end": {
			held: map[match.JobID]match.Slot{7: matchtest.Shared(matchtest.Held("x", "n1", whole)), 8: matchtest.Held("y", "n2", matchtest.Cores(3)), 9: matchtest.Held("z", "n2", matchtest.Cores(3))},
			ask:  matchtest.Slots("a", 3, part),
			want: &match.Blocker{Job: 8, MoreSlots: 1},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := &driver{e: newEngine(t)}
			d.load(t, matchtest.Node("n1", in, whole), matchtest.Node("n2", in, whole), matchtest.Node("n3", in, matchtest.Cores(7)))
			for id, s := range tc.held {
				if err := d.e.Update(t.Context(), d.epoch, match.Job{ID: id, Slots: []match.Slot{s}}); err != nil {
					t.Fatal(err)
				}
			}
			_, err := d.e.Match(t.Context(), d.request(1, matchtest.Together(tc.ask, jobspec.Topology{Required: "rack"})))
			var refusal *match.Refusal
			if !errors.As(err, &refusal) {
				t.Fatalf("Match() = %v, want a refusal", err)
			}
			if got := refusal.Reason.Blocker; (got == nil) != (tc.want == nil) || got != nil && *got != *tc.want {
				t.Errorf("%v: the end %+v, want %+v", err, got, tc.want)
			}
		})
	}
}

// TestDomainsFollowTheNodes moves nodes between racks. What was cached of the racks must not stay.
func TestDomainsFollowTheNodes(t *testing.T) {
	d := racks(t, 1, 1)
	three := matchtest.Together(matchtest.Slots("a", 5, matchtest.Cores(1)), jobspec.Topology{Required: "rack"})
	if _, err := d.e.Match(t.Context(), d.request(1, three)); !errors.Is(err, match.ErrUnsatisfiable) {
		t.Fatalf("Match() = %v, want the error %q", err, match.ErrUnsatisfiable)
	}
	moved := matchtest.Node("r000-n0", [][2]string{{"rack", "r001"}}, matchtest.Cores(1))
	if err := d.e.PutNode(t.Context(), d.epoch, moved); err != nil {
		t.Fatal(err)
	}
	d.match(t, 1, three)
	if err := d.e.RemoveNode(t.Context(), d.epoch, "r001-n3"); err != nil {
		t.Fatal(err)
	}
	if err := d.e.Release(t.Context(), d.epoch, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := d.e.Match(t.Context(), d.request(2, three)); !errors.Is(err, match.ErrUnsatisfiable) {
		t.Fatalf("Match() = %v, want the error %q", err, match.ErrUnsatisfiable)
	}
}

// TestWholeNodesInOneRack requests whole nodes within one rack.
func TestWholeNodesInOneRack(t *testing.T) {
	d := racks(t, 2, 2)
	d.match(t, 1, matchtest.Slots("a", 1, matchtest.Cores(1)))
	r := d.request(2, matchtest.Together(matchtest.Slots("a", 8, matchtest.Cores(1)), jobspec.Topology{Required: "rack"}))
	r.Policy, r.Holder = match.PolicyLonodex, "x"
	a, err := d.e.Match(t.Context(), r)
	if err != nil || perRack(a)["r001"] != 8 {
		t.Errorf("Match() = %v, %v, want 8 in r001", a, err)
	}
}

// TestPolicyAndConstraintsApplyWithinTheDomain takes the last nodes of a rack first, and leaves out
// one.
func TestPolicyAndConstraintsApplyWithinTheDomain(t *testing.T) {
	d := racks(t, 1, 2)
	js := matchtest.Constrain(matchtest.Slots("a", 4, matchtest.Cores(1)), "a",
		jobspec.SlotAttributes{ConstraintsNow: matchtest.Not(matchtest.Hosts("r001-n3", "r000-n1"))})
	r := d.request(1, matchtest.Together(js, jobspec.Topology{Required: "rack"}))
	r.Policy = match.PolicyHigh
	a, err := d.e.Match(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for _, s := range a.Slots {
		nodes = append(nodes, s.Node)
	}
	if want := []string{"r001-n2", "r001-n2", "r001-n1", "r001-n1"}; !slices.Equal(nodes, want) {
		t.Errorf("the slots stand on %v, want %v", nodes, want)
	}
}

func TestTopologiesThatTheEngineDoesNotTake(t *testing.T) {
	shapes := func(x, y *jobspec.Topology) *jobspec.Jobspec {
		js := matchtest.Jobspec(matchtest.Slot("a", jobspec.Exactly(1), matchtest.Cores(1)), matchtest.Slot("b", jobspec.Exactly(1), matchtest.Cores(1)))
		matchtest.Constrain(js, "a", jobspec.SlotAttributes{Topology: x})
		return matchtest.Constrain(js, "b", jobspec.SlotAttributes{Topology: y})
	}
	rack := &jobspec.Topology{Required: "rack"}
	cases := map[string]struct {
		js   *jobspec.Jobspec
		want bool
	}{
		"two topologies":         {js: shapes(rack, &jobspec.Topology{Required: "node"})},
		"one label without":      {js: shapes(rack, nil)},
		"the first without":      {js: shapes(nil, rack)},
		"preferred and balanced": {js: shapes(&jobspec.Topology{Preferred: []string{"rack"}, Balanced: "rack"}, &jobspec.Topology{Preferred: []string{"rack"}, Balanced: "rack"})},
		"two that are the same":  {js: shapes(rack, &jobspec.Topology{Required: "rack"}), want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := racks(t, 1, 1)
			_, err := d.e.Match(t.Context(), d.request(1, tc.js))
			if tc.want && err != nil || !tc.want && !errors.Is(err, match.ErrInvalid) {
				t.Errorf("Match() = %v, want it taken %v", err, tc.want)
			}
		})
	}
}

// TestBlockerCountsAllItsSlots has 16 full nodes, of which the search for a blocker looks at the first few. Job 1
// has slots everywhere, the others have a node each.
func TestBlockerCountsAllItsSlots(t *testing.T) {
	cases := map[string]struct {
		nodes, cores, small int64
		// want is the number of further slots of 4 cores if job 1 ends. If it is 0, another job or none is named.
		want int64
	}{
		"128 slots":                              {16, 8, 0, 16},
		"128 slots, and small jobs on two nodes": {18, 8, 2, 16},
		"1040 slots, which are not counted":      {65, 16, 0, 0},
		"1040 slots, and a small job is named":   {66, 16, 1, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := &driver{e: newEngine(t)}
			var graphs []*resource.Graph
			for i := range tc.nodes {
				graphs = append(graphs, matchtest.Node(fmt.Sprintf("n%02d", i), nil, matchtest.Cores(tc.cores)))
			}
			d.load(t, graphs...)
			for i := range tc.small {
				d.match(t, match.JobID(10+i), matchtest.Slots("a", tc.cores, matchtest.Cores(1)))
			}
			d.match(t, 1, matchtest.Slots("a", (tc.nodes-tc.small)*tc.cores, matchtest.Cores(1)))
			r := d.request(2, matchtest.Slots("b", 16, matchtest.Cores(4)))
			_, err := d.e.Match(t.Context(), r)
			no, refused := errors.AsType[*match.Refusal](err)
			if !refused {
				t.Fatalf("Match() = %v, want a refusal", err)
			}
			var got match.Blocker
			if no.Reason.Blocker != nil {
				got = *no.Reason.Blocker
			}
			if tc.want > 0 && got != (match.Blocker{Job: 1, MoreSlots: tc.want}) || tc.want == 0 && got.Job == 1 {
				t.Errorf("%v: the end %+v, want job 1 to make %d more", err, got, tc.want)
			}
			if tc.want == 0 && tc.small > 0 && got.Job != 10 {
				t.Errorf("%v: the end %+v, want that of job 10", err, got)
			}
			for steps := 100; steps < 1_000_000; steps *= 2 {
				d.e.SetLockedSteps(steps)
				if _, err := d.e.Match(t.Context(), r); err == nil {
					t.Fatal("it fits")
				}
				if over := d.e.MaxOverrun(); over > 600 {
					t.Fatalf("with %d steps: %d more were taken", steps, over)
				}
			}
		})
	}
}
