package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/test/trials"
)

// A displaceInstance is an instance that is small enough to try all sets of units.
type displaceInstance struct {
	nodes   []*resource.Graph
	held    []match.Job
	request match.Request
}

// newDisplaceInstance returns a random instance: at most 8 nodes, 10 units and 3 shapes, with and without racks, spreads
// and whole nodes.
func newDisplaceInstance(r *rand.Rand) displaceInstance {
	var x displaceInstance
	nodes, memory := 2+r.IntN(7), r.IntN(3) == 0
	pools := func(cores, gib int64) []matchtest.Pool {
		if !memory {
			return []matchtest.Pool{matchtest.Cores(cores)}
		}
		return []matchtest.Pool{matchtest.Cores(cores), matchtest.Memory(gib)}
	}
	size := make([]int64, nodes)
	for i := range nodes {
		size[i] = 2 + r.Int64N(7)
		x.nodes = append(x.nodes, matchtest.Node(fmt.Sprintf("n%d", i), [][2]string{{"rack", fmt.Sprintf("r%d", i%(1+nodes/3))}}, pools(size[i], 8)...))
	}
	whole := r.IntN(5) == 0
	free := slices.Clone(size)
	classes := int32(1 + r.IntN(3))
	var units []match.Unit
	for u := range 2 + r.IntN(9) {
		job := match.Job{ID: match.JobID(u + 1)}
		n, holder := 1, ""
		if r.IntN(2) == 0 {
			n = 1 + r.IntN(4)
		}
		if r.IntN(12) == 0 {
			holder = fmt.Sprint("h", u)
		}
		each := 1 + r.Int64N(3)
		for k := range n {
			at := r.IntN(nodes)
			if free[at] < each {
				continue
			}
			free[at] -= each
			s := matchtest.Held(fmt.Sprint(k), fmt.Sprintf("n%d", at), pools(each, 1+r.Int64N(3))...)
			s.Holder = holder
			job.Slots = append(job.Slots, s)
		}
		if len(job.Slots) == 0 {
			continue
		}
		x.held = append(x.held, job)
		ref := match.SlotRef{Job: job.ID}
		for _, s := range job.Slots {
			ref.Keys = append(ref.Keys, s.Key)
		}
		unit := match.Unit{Slots: []match.SlotRef{ref}, Class: r.Int32N(classes), Cost: r.Int64N(3)}
		if r.IntN(5) == 0 {
			unit.Protected = 1 + r.Int64N(int64(len(job.Slots)))
		}
		if r.IntN(12) > 0 {
			units = append(units, unit)
		}
	}
	js := matchtest.Jobspec()
	shapes := 1
	if r.IntN(2) == 0 {
		shapes = 1 + r.IntN(3)
	}
	spread := r.IntN(4)
	for i := range shapes {
		label := fmt.Sprint(i)
		count := jobspec.Exactly(1 + r.Int64N(int64(2+6/shapes)))
		js.Resources = append(js.Resources, matchtest.Slot(label, count, pools(1+r.Int64N(4), 1+r.Int64N(4))...))
		js.Tasks = append(js.Tasks, jobspec.Task{Command: []string{"pod"}, Slot: label, Count: jobspec.TaskCount{PerSlot: 1}})
		var narrow jobspec.SlotAttributes
		switch spread {
		case 0:
			narrow.MaxPerLevel = map[string]int64{"node": 1 + r.Int64N(2)}
		case 1:
			narrow.MaxPerLevel = map[string]int64{"rack": 2 + r.Int64N(3)}
		}
		matchtest.Constrain(js, label, narrow)
	}
	switch r.IntN(6) {
	case 0:
		js = matchtest.Together(js, jobspec.Topology{Required: "rack"})
	case 1:
		js = matchtest.Together(js, jobspec.Topology{Preferred: []string{"rack"}})
	case 2:
		if spread > 1 && r.IntN(2) == 0 {
			js = matchtest.Together(js, jobspec.Topology{Balanced: "rack"})
		}
	}
	x.request = match.Request{Op: match.WithoutAllocating, ID: 1000, Jobspec: js, Now: matchtest.Now, Displace: units}
	if whole {
		x.request.Holder, x.request.Policy = "us", match.PolicyLonodex
	}
	return x
}

// load loads the instance into an engine, and returns the request for its epoch.
func (x displaceInstance) load(t *testing.T, d *driver) match.Request {
	t.Helper()
	d.load(t, x.nodes...)
	if err := d.e.Update(t.Context(), d.epoch, x.held...); err != nil {
		t.Fatal(err)
	}
	r := x.request
	r.Epoch = d.epoch
	return r
}

// fits reports whether a request fits while these units are ending.
func fits(t *testing.T, e match.Engine, r match.Request, set []int) (*match.Allocation, bool) {
	t.Helper()
	a, err := e.Match(t.Context(), matchtest.Displaced(r, set))
	if err != nil && !errors.Is(err, match.ErrBusy) && !errors.Is(err, match.ErrUnsatisfiable) {
		t.Fatal(err)
	}
	return a, err == nil
}

// stays reports whether the slots of an allocation fit while these units are ending. It asks for each slot on the node
// where it is.
func stays(t *testing.T, e match.Engine, r match.Request, a *match.Allocation, set []int) bool {
	t.Helper()
	js := matchtest.Jobspec()
	for i, slot := range a.Slots {
		for _, of := range r.Jobspec.Resources {
			if of.Label != slot.Label {
				continue
			}
			of.Label, of.Count = fmt.Sprint(i), jobspec.Exactly(1)
			js.Resources = append(js.Resources, of)
			js.Tasks = append(js.Tasks, jobspec.Task{Command: []string{"pod"}, Slot: of.Label, Count: jobspec.TaskCount{PerSlot: 1}})
			matchtest.Constrain(js, of.Label, jobspec.SlotAttributes{Constraints: matchtest.Hosts(slot.Node)})
		}
	}
	r.Jobspec = js
	_, fit := fits(t, e, r, set)
	return fit
}

// asKubeScheduler returns the units that kube-scheduler's rule takes: with all units gone it places the request once, and
// then spares the units that do not stand in the way of this placement, the most important first.
func asKubeScheduler(t *testing.T, e match.Engine, r match.Request) []int {
	t.Helper()
	all := make([]int, len(r.Displace))
	for i := range all {
		all[i] = i
	}
	a, fit := fits(t, e, r, all)
	if !fit {
		return nil
	}
	slices.SortFunc(all, func(x, y int) int { return matchtest.CompareHarm(r.Displace, []int{y}, []int{x}) })
	set := slices.Clone(all)
	for _, u := range all {
		without := slices.DeleteFunc(slices.Clone(set), func(v int) bool { return v == u })
		if stays(t, e, r, a, without) {
			set = without
		}
	}
	slices.Sort(set)
	return set
}

// The displaced units do the least harm, and all of them are needed. The units that kube-scheduler's rule takes never do
// less harm.
func TestDisplacedUnitsDoTheLeastHarm(t *testing.T) {
	t.Run("if all sets are tried", func(t *testing.T) {
		checkDisplaced(t, 1, newEngine)
	})
	t.Run("in nearly all cases, if not all sets are tried", func(t *testing.T) {
		checkDisplaced(t, 0.99, func(t testing.TB) *engine.Engine {
			e := newEngine(t)
			e.SetExhaustiveUnits(0)
			return e
		})
	})
}

// checkDisplaced checks the units that engines displace in random instances. share is the share of instances in which they
// have to do the least harm.
func checkDisplaced(t *testing.T, share float64, newEngine func(testing.TB) *engine.Engine) {
	t.Helper()
	least, answered := 0, 0
	for seed := range trials.Seeds(200) {
		x := newDisplaceInstance(rand.New(rand.NewPCG(seed, 7)))
		d := &driver{e: newEngine(t)}
		r := x.load(t, d)
		want, possible, err := matchtest.LeastHarm(t.Context(), d.e, r)
		if errors.Is(err, match.ErrUnsatisfiable) {
			continue
		}
		if err != nil {
			t.Fatalf("-seed=%d: %v", seed, err)
		}
		a, err := d.e.Match(t.Context(), r)
		if !possible {
			no, refused := errors.AsType[*match.Refusal](err)
			if !refused || no.Reason.AllDisplaced != (len(r.Displace) > 0) {
				t.Errorf("-seed=%d: Match() = %v, %v, want a refusal as if all units were gone", seed, a, err)
			}
			continue
		}
		answered++
		if err != nil {
			t.Errorf("-seed=%d: %v, but it fits without the units %v", seed, err, want)
			continue
		}
		if slices.Equal(a.Displaced, want) {
			least++
		} else {
			t.Logf("-seed=%d: displaced %v, least harm is %v", seed, a.Displaced, want)
		}
		if _, fit := fits(t, d.e, r, a.Displaced); !fit {
			t.Errorf("-seed=%d: it does not fit without the units %v", seed, a.Displaced)
		}
		for i, u := range a.Displaced {
			others := slices.Delete(slices.Clone(a.Displaced), i, i+1)
			if _, fit := fits(t, d.e, r, others); fit {
				t.Errorf("-seed=%d: of the units %v, %d is not needed", seed, a.Displaced, u)
			}
			if stays(t, d.e, r, a, others) {
				t.Errorf("-seed=%d: of the units %v, %d can stay with this placement", seed, a.Displaced, u)
			}
		}
		if theirs := asKubeScheduler(t, d.e, r); matchtest.CompareHarm(r.Displace, a.Displaced, theirs) > 0 {
			t.Errorf("-seed=%d: displaced %v, kube-scheduler's rule takes %v", seed, a.Displaced, theirs)
		}
	}
	t.Logf("%d of %d did the least harm", least, answered)
	if float64(least) < share*float64(answered) {
		t.Errorf("%d of %d did the least harm, want a share of %g", least, answered, share)
	}
}

// Reservations and pools of several leaves keep what ends on a node from adding up. The answer is right there too.
func TestUnitsAreDisplacedWhereSomethingIsReserved(t *testing.T) {
	d := &driver{e: newEngine(t)}
	two := matchtest.Node("n2", nil, matchtest.Cores(2))
	two.Hang(len(two.Vertices)-2, resource.Vertex{Type: "core", Name: "core1", Size: 2000, Unit: "m"})
	d.load(t, matchtest.Node("n1", nil, matchtest.Cores(4)), two)
	hold := func(id match.JobID, node string) match.Job {
		return match.Job{ID: id, Slots: []match.Slot{matchtest.Held("0", node, matchtest.Cores(2))}}
	}
	later := hold(9, "n1")
	later.Reserved, later.Start = true, matchtest.Now.Add(time.Hour)
	if err := d.e.Update(t.Context(), d.epoch, hold(1, "n1"), hold(2, "n1"), hold(3, "n2"), hold(4, "n2"), later); err != nil {
		t.Fatal(err)
	}
	unit := func(id match.JobID, class int32) match.Unit {
		return match.Unit{Slots: []match.SlotRef{{Job: id, Keys: []string{"0"}}}, Class: class}
	}
	cases := map[string]struct {
		pods  int64
		units []match.Unit
		want  []int
	}{
		"what is reserved is not free when a unit ends": {1, []match.Unit{unit(1, 0), unit(3, 1), unit(4, 2)}, []int{1}},
		"the rest is, when all units there have ended":  {1, []match.Unit{unit(1, 0), unit(2, 0)}, []int{0, 1}},
		"both nodes": {3, []match.Unit{unit(1, 0), unit(2, 0), unit(3, 0), unit(4, 0)}, []int{0, 1, 2, 3}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := d.request(100, matchtest.Slots("a", tc.pods, matchtest.Cores(2)))
			r.Op, r.Displace = match.WithoutAllocating, tc.units
			before, err := d.e.Jobs(t.Context(), d.epoch)
			if err != nil {
				t.Fatal(err)
			}
			a, err := d.e.Match(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(a.Displaced, tc.want) {
				t.Errorf("displaced %v, want %v", a.Displaced, tc.want)
			}
			if _, fit := fits(t, d.e, r, a.Displaced); !fit {
				t.Errorf("it does not fit without the units %v", a.Displaced)
			}
			after, err := d.e.Jobs(t.Context(), d.epoch)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("jobs have changed (-before +after):\n%s", diff)
			}
		})
	}
}

// A match that needs more work than it may do is too hard, and says so.
func TestDisplacingIsBounded(t *testing.T) {
	d, units := occupiedBy(t, 100, 1000)
	r := d.request(1, matchtest.Slots("w", 8, matchtest.Cores(32)))
	r.Op, r.Displace = match.WithoutAllocating, units
	whole, err := d.e.Match(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	answered := 0
	for steps := 1 << 25; steps > 0; steps /= 2 {
		d.e.SetUnlockedSteps(steps)
		a, err := d.e.Match(t.Context(), r)
		if err != nil {
			if no, refused := errors.AsType[*match.Refusal](err); !refused || no.Reason.Code != match.TooHard {
				t.Errorf("with %d steps: %v, want the code %s", steps, err, match.TooHard)
			}
			continue
		}
		answered++
		if _, fit := fits(t, d.e, r, a.Displaced); !fit {
			t.Errorf("with %d steps, it does not fit without the units %v", steps, a.Displaced)
		}
		if matchtest.CompareHarm(units, a.Displaced, whole.Displaced) < 0 {
			t.Errorf("with %d steps, %v does less harm than %v with all", steps, a.Displaced, whole.Displaced)
		}
	}
	if answered == 0 || answered > 24 {
		t.Errorf("%d answers, want some and some refusals", answered)
	}
	d.e.SetUnlockedSteps(engine.UnlockedSteps)
	d.e.SetLockedSteps(1000)
	if _, err := d.e.Match(t.Context(), r); err == nil || !strings.Contains(err.Error(), "work limit") {
		t.Errorf("with few steps under the lock: %v, want a refusal as too hard", err)
	}
}

// While units are searched for, other matches wait little, and what they change counts in the answer.
func TestMatchesBesideADisplacementGoOn(t *testing.T) {
	d, units := occupiedBy(t, 100, 1000)
	r := d.request(1, matchtest.Slots("w", 4, matchtest.Cores(32)))
	r.Op, r.Displace = match.WithoutAllocating, units
	release := d.e.HoldUnlockedSearches()
	type answer struct {
		a   *match.Allocation
		err error
	}
	done := make(chan answer)
	go func() {
		a, err := d.e.Match(t.Context(), r)
		done <- answer{a, err}
	}()
	// The search may not run, so this match is answered beside it, and then all jobs end.
	if _, fit := fits(t, d.e, d.request(2, matchtest.Slots("x", 1, matchtest.Cores(1))), nil); fit {
		t.Log("there was free room")
	}
	for _, u := range units {
		if err := d.e.Release(t.Context(), d.epoch, u.Slots[0].Job); err != nil {
			t.Fatal(err)
		}
	}
	release()
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	if _, fit := fits(t, d.e, r, got.a.Displaced); !fit {
		t.Errorf("it does not fit without the units %v", got.a.Displaced)
	}
}
