package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/hostlist"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
)

// ofKinds requests one slot of this number of resource types.
func ofKinds(n int) *jobspec.Jobspec {
	pools := []matchtest.Pool{matchtest.Cores(1)}
	for i := range n - 1 {
		pools = append(pools, matchtest.Pool{Type: fmt.Sprint("example.com-", i), Amount: 1})
	}
	return matchtest.Slots("a", 1, pools...)
}

// TestTypesOfResourcesAreBounded checks that a request may name many resource types, and that the
// memory for them is released afterwards. A request with too many is refused before it takes
// memory.
func TestTypesOfResourcesAreBounded(t *testing.T) {
	d := &driver{e: newEngine(t)}
	d.load(t, cluster(5000)...)
	var no *match.Refusal
	if _, err := d.e.Match(t.Context(), d.request(1, ofKinds(match.MaxResourceTypes))); !errors.As(err, &no) || no.Reason.Code != match.TooLarge {
		t.Errorf("Match() of %d types = %v, want %s", match.MaxResourceTypes, err, match.TooLarge)
	}
	_, err := d.e.Match(t.Context(), d.request(1, ofKinds(match.MaxResourceTypes+1)))
	if !errors.Is(err, match.ErrInvalid) || !strings.Contains(err.Error(), "more than 128 resource types") {
		t.Errorf("Match() of %d types = %v, want %v that names the bound", match.MaxResourceTypes+1, err, match.ErrInvalid)
	}
	if kept := d.e.Kept(); kept > engine.KeptBytes {
		t.Errorf("%d bytes are kept for the next match", kept)
	}
}

// splitHosts returns host lists over which the nodes are distributed one by one.
func splitHosts(nodes, lists, from int) []string {
	names := make([][]string, min(lists, nodes))
	for i := range nodes {
		at := (i + from + i/lists*from) % len(names)
		names[at] = append(names[at], fmt.Sprintf("n%05d", i))
	}
	var hosts []string
	for _, n := range names {
		if len(n) > 0 {
			hosts = append(hosts, hostlist.Encode(n))
		}
	}
	return hosts
}

// severalLists limits a slot by this number of limits, each with different host lists.
func severalLists(nodes, limits int) *jobspec.Jobspec {
	js := matchtest.Slots("a", 3, matchtest.Cores(1))
	for k := range limits {
		matchtest.Limited(js, "a", jobspec.Limit{Name: fmt.Sprint(k), Hosts: splitHosts(nodes, 3+k, k), Most: 1})
	}
	return js
}

// TestEveryOperationEndsWithAnyNumberOfSteps checks that a match ends, however few steps it has:
// with the same answer as with enough steps, or as too hard.
func TestEveryOperationEndsWithAnyNumberOfSteps(t *testing.T) {
	const nodes = 40
	together := func(js *jobspec.Jobspec, t jobspec.Topology) *jobspec.Jobspec {
		for _, r := range js.Resources {
			of := js.Attributes.System.Fluence[r.Label]
			of.Topology = &t
			matchtest.Constrain(js, r.Label, of)
		}
		return js
	}
	two := func() *jobspec.Jobspec {
		return matchtest.Jobspec(
			matchtest.Slot("x", jobspec.Exactly(30), matchtest.Cores(40), matchtest.Memory(10)),
			matchtest.Slot("y", jobspec.Between(21, 40), matchtest.Cores(20), matchtest.Memory(250)))
	}
	limited := func(js *jobspec.Jobspec) *jobspec.Jobspec {
		for _, r := range js.Resources {
			matchtest.Limited(js, r.Label,
				jobspec.Limit{Name: "l", Hosts: splitHosts(nodes, 7, 1), Most: 9}, jobspec.Limit{Name: "r", Level: "rack", Most: 40})
		}
		return js
	}
	asks := map[string]*jobspec.Jobspec{
		"many limits":          severalLists(nodes, 53),
		"two shapes":           two(),
		"two shapes, limited":  limited(two()),
		"in one rack":          together(two(), jobspec.Topology{Required: "rack"}),
		"in few racks":         together(limited(two()), jobspec.Topology{Preferred: []string{"rack"}}),
		"in equal shares":      together(matchtest.Slots("a", 41, matchtest.Cores(50)), jobspec.Topology{Balanced: "rack"}),
		"on some nodes":        matchtest.Constrain(two(), "x", jobspec.SlotAttributes{ConstraintsNow: matchtest.Not(matchtest.Hosts("n00001"))}),
		"more than there is":   limited(matchtest.Slots("a", 41, matchtest.Cores(64))),
		"many types":           ofKinds(match.MaxResourceTypes),
		"in one rack, limited": together(limited(matchtest.Slots("a", 60, matchtest.Cores(30))), jobspec.Topology{Required: "rack"}),
	}
	for name, js := range asks {
		for op := match.Allocate; op <= match.WithoutAllocatingFuture; op++ {
			t.Run(fmt.Sprint(name, "/", op), func(t *testing.T) {
				want := ""
				for _, steps := range []int{engine.LockedSteps, 0, 1, 20, 100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000} {
					d := &driver{e: newEngine(t)}
					d.load(t, cluster(nodes)...)
					d.matchForMinutes(t, 1, matchtest.Slots("h", 10, matchtest.Cores(60)), 3600)
					d.e.SetLockedSteps(steps)
					r := d.request(2, js)
					r.Op, r.Duration = op, time.Hour
					a, err := d.e.Match(t.Context(), r)
					no, refused := errors.AsType[*match.Refusal](err)
					if refused && no.Reason.Code == match.TooHard && steps < engine.LockedSteps {
						continue
					}
					got := answer(a, err)
					if want == "" {
						want = got
					}
					if later := op == match.AllocateOrElseReserve || op == match.WithoutAllocatingFuture; got != want && !later {
						t.Fatalf("with %d steps: %s\nwant %s", steps, got, want)
					}
				}
			})
		}
	}
}

// TestLimitsBySoManyListsAreTooHard checks that limits with too many host lists are too hard for
// every operation.
func TestLimitsBySoManyListsAreTooHard(t *testing.T) {
	const nodes = 5000
	d := &driver{e: newEngine(t)}
	d.load(t, cluster(nodes)...)
	d.matchForMinutes(t, 1, matchtest.Slots("a", 10, pod...), 3600)
	js := severalLists(nodes, 60)
	for _, op := range []match.Op{match.AllocateOrElseReserve, match.WithoutAllocatingFuture} {
		r := d.request(2, js)
		r.Op, r.Duration = op, time.Hour
		var no *match.Refusal
		if _, err := d.e.Match(t.Context(), r); !errors.As(err, &no) || no.Reason.Code != match.TooHard {
			t.Errorf("Match() of operation %d = %v, want %s", op, err, match.TooHard)
		}
	}
}

// TestLimitCellsAreBounded checks that limits may have 1<<22 cells in all, which take
// memory. More are too hard, however cheap they are to find. Cells of the same lists are found
// once.
func TestLimitCellsAreBounded(t *testing.T) {
	const lists, most = 1 << 10, 1 << 22
	hosts := make([]string, lists)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("n%05d", i)
	}
	cases := map[string]struct {
		limits int
		want   match.Code
	}{
		"as many as there may be": {most/lists - 8, ""},
		"more":                    {most/lists + 1, match.TooHard},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := &driver{e: newEngine(t)}
			d.load(t, cluster(1)...)
			limits := make([]jobspec.Limit, tc.limits)
			for k := range limits {
				limits[k] = jobspec.Limit{Name: fmt.Sprint(k), Hosts: hosts, Most: 1}
			}
			d.e.SetLockedSteps(4 * most)
			_, err := d.e.Match(t.Context(), d.request(1, matchtest.Limited(matchtest.Slots("a", 1, matchtest.Cores(1)), "a", limits...)))
			no, refused := errors.AsType[*match.Refusal](err)
			if got := refused && no.Reason.Code == match.TooHard; got != (tc.want != "") || err != nil && !refused {
				t.Errorf("Match() = %v, want the refusal %q", err, tc.want)
			}
		})
	}
}

// TestBlockerSearchIsBounded checks that no blocker is named if a rack has
// so many slots that the steps of the match are too few.
func TestBlockerSearchIsBounded(t *testing.T) {
	const nodes, perNode = 32, 64
	d := &driver{e: newEngine(t)}
	d.load(t, cluster(nodes)...)
	d.match(t, 1, matchtest.Slots("a", nodes*perNode, matchtest.Cores(1)))
	js := matchtest.Constrain(matchtest.Slots("b", 30, matchtest.Cores(50)), "b", jobspec.SlotAttributes{Topology: &jobspec.Topology{Required: "rack"}})
	r := d.request(2, js)
	named := 0
	for steps := 100; steps < 1_000_000; steps += steps / 8 {
		d.e.SetLockedSteps(steps)
		r.Op = match.WithoutAllocating
		_, err := d.e.Match(t.Context(), r)
		no, refused := errors.AsType[*match.Refusal](err)
		if !refused {
			t.Fatalf("Match() = %v, want a refusal", err)
		}
		if end := no.Reason.Blocker; end != nil {
			named++
			if end.Job != 1 || end.MoreSlots != 30 {
				t.Errorf("with %d steps: %+v, found %d", steps, end, no.Reason.Found)
			}
		}
		if over := d.e.MaxOverrun(); over > 600 {
			t.Fatalf("with %d steps: %d more were taken", steps, over)
		}
	}
	if named == 0 {
		t.Error("no end was named with any number of steps")
	}
}

// TestEachPartOfAConstraintIsCharged checks that each part of a constraint is charged for each
// node.
func TestEachPartOfAConstraintIsCharged(t *testing.T) {
	d := &driver{e: newEngine(t)}
	d.load(t, cluster(32)...)
	parts := &jobspec.Constraint{Op: jobspec.OpOr}
	for i := range 2000 {
		parts.Args = append(parts.Args, *matchtest.Hosts(fmt.Sprintf("other%d", i)))
	}
	d.e.SetLockedSteps(10_000)
	not := &jobspec.Constraint{Op: jobspec.OpNot, Args: []jobspec.Constraint{*parts}}
	r := d.request(1, matchtest.Constrain(matchtest.Slots("a", 1, matchtest.Cores(1)), "a", jobspec.SlotAttributes{Constraints: not}))
	r.Op = match.WithoutAllocatingFuture
	var no *match.Refusal
	if _, err := d.e.Match(t.Context(), r); !errors.As(err, &no) || no.Reason.Code != match.TooHard {
		t.Errorf("Match() = %v, want %s", err, match.TooHard)
	}
}

// rooks requests six slots on a board of 36 nodes. No two slots may be in one row or column, and
// only two rows of the first three columns are allowed. Only a search proves that there is no
// layout. The request has more limits, which exclude nothing.
func rooks(more int) *jobspec.Jobspec {
	const side = 6
	rows, columns := make([]string, side), make([]string, side)
	var out []string
	for i := range side * side {
		name, row, column := fmt.Sprintf("n%05d", i), i/side, i%side
		rows[row] += name + ","
		columns[column] += name + ","
		if column < 3 && row > 1 {
			out = append(out, name)
		}
	}
	for i := range side {
		rows[i], columns[i] = strings.TrimSuffix(rows[i], ","), strings.TrimSuffix(columns[i], ",")
	}
	js := matchtest.Constrain(matchtest.Slots("a", side, matchtest.Cores(1)), "a", jobspec.SlotAttributes{Constraints: matchtest.Not(matchtest.Hosts(out...))})
	return matchtest.Limited(js, "a", append(many(more, "rack", 1000),
		jobspec.Limit{Name: "row", Hosts: rows, Most: 1}, jobspec.Limit{Name: "column", Hosts: columns, Most: 1})...)
}

// TestEachLookAtANodeIsCharged checks charges that are too cheap to be seen in the time of a match:
// each node that a search reads, by the limits there, and each node that the reason of a refusal
// reads.
func TestEachLookAtANodeIsCharged(t *testing.T) {
	const nodes, looks = 1000, 6
	full := func(d *driver) { d.match(t, 1, matchtest.Slots("h", nodes, matchtest.Cores(64))) }
	cases := map[string]struct {
		nodes int
		begin func(*driver)
		js    *jobspec.Jobspec
		// few is a number of steps that is too small for all reads, but enough if one sort of reads is
		// not charged.
		few int
	}{
		"a reason, which counts and measures the nodes": {nodes, full, matchtest.Slots("a", 1, matchtest.Cores(1)), looks*nodes - 1},
		"a search, which looks at 200 limits on a node": {36, func(*driver) {}, rooks(200), 13_250_000},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := &driver{e: newEngine(t)}
			d.load(t, cluster(tc.nodes)...)
			tc.begin(d)
			d.e.SetUnlockedSteps(0)
			d.e.SetLockedSteps(tc.few)
			var no *match.Refusal
			if _, err := d.e.Match(t.Context(), d.request(2, tc.js)); !errors.As(err, &no) || no.Reason.Code != match.TooHard {
				t.Errorf("with %d steps: Match() = %v, want %s", tc.few, err, match.TooHard)
			}
		})
	}
}
