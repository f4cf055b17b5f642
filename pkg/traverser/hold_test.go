package traverser

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/test/trials"
)

// shapes are requests of many forms for the graph small.
var shapes = []func(n int64) jobspec.Resource{
	nodes,
	func(n int64) jobspec.Resource { return cores(n, 1) },
	func(n int64) jobspec.Resource { return several("slot", n, several("core", 2), several("gpu", 1)) },
	func(n int64) jobspec.Resource { return several("node", n, several("slot", 2, several("core", 1))) },
	func(n int64) jobspec.Resource {
		return several("rack", 1, several("slot", n, several("node", 1, several("gpu", 1))))
	},
	func(n int64) jobspec.Resource {
		r := several("slot", 1, several("gpu", 1))
		r.Count = jobspec.Between(1, n)
		return several("node", 1, r)
	},
	func(n int64) jobspec.Resource {
		yes := true
		r := several("node", n, several("core", 1))
		r.Exclusive = &yes
		return r
	},
}

var drawnPolicies = []string{
	match.PolicyFirst, match.PolicyLow, match.PolicyHigh, match.PolicyLonode, match.PolicyHinode,
	match.PolicyFirstnodex, match.PolicyLonodex, match.PolicyHinodex, match.PolicyLocality, match.PolicyVariation,
}

// draw returns a random request that books.
func draw(random *rand.Rand, id match.JobID, now int64) match.Request {
	return wants(id, now, shapes[random.IntN(len(shapes))](1+random.Int64N(3)), lasting(random.Int64N(4)*20),
		func(q *match.Request) {
			if random.IntN(3) == 0 {
				q.Op = match.AllocateOrElseReserve
			}
			q.Policy = drawnPolicies[random.IntN(len(drawnPolicies))]
		})
}

// seed returns the source of a test's random numbers.
func seed(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(trials.Seed(t), 1))
}

// TestJobsRoundTrip checks that a new traverser, after an Update
// with the result of Jobs, holds the same and answers the same.
func TestJobsRoundTrip(t *testing.T) {
	random := seed(t)
	for range trials.Count(200) {
		old := load(t, match.PolicyLow, small())
		now := int64(0)
		for id := range match.JobID(12) {
			now += random.Int64N(15)
			if _, err := old.try(draw(random, id+1, now)); err == nil && random.IntN(5) == 0 {
				old.Release(match.JobID(1 + random.IntN(int(id)+1)))
			}
		}
		jobs := old.Jobs()
		fresh := load(t, match.PolicyLow, small())
		random.Shuffle(len(jobs), func(i, k int) { jobs[i], jobs[k] = jobs[k], jobs[i] })
		if err := fresh.Update(jobs...); err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(jobs, func(a, b match.Job) int { return cmp.Compare(a.ID, b.ID) })
		if diff := gocmp.Diff(bare(jobs), bare(fresh.Jobs())); diff != "" {
			t.Fatalf("Jobs (-before +after):\n%s", diff)
		}
		fresh.advance(Instant(seconds(now)))
		if overdue(jobs, now) {
			continue // ends that were moved on depend on when that was
		}
		same(t, "dump", fresh.dump(), old.dump())
		question := random.Uint64()
		for _, policy := range []string{match.PolicyLow, match.PolicyHigh, match.PolicyLonode, match.PolicyHinodex} {
			same(t, "answers with "+policy,
				fresh.answers(rand.New(rand.NewPCG(question, 2)), policy, now),
				old.answers(rand.New(rand.NewPCG(question, 2)), policy, now))
		}
	}
}

// answers returns the answers to a series of random requests under one
// policy. The policy must not depend on what was given out before.
func (r *rig) answers(random *rand.Rand, policy string, now int64) []string {
	var list []string
	for i := range 20 {
		q := draw(random, match.JobID(1000+i), now)
		q.Policy, q.Op = policy, match.WithoutAllocatingFuture
		a, err := r.try(q)
		line := fmt.Sprint(held(a), " ", err)
		if a != nil {
			line += fmt.Sprint(a.Reserved, a.Start, a.End)
		}
		list = append(list, line)
	}
	return list
}

func overdue(jobs []match.Job, now int64) bool {
	return slices.ContainsFunc(jobs, func(j match.Job) bool { return !j.End.IsZero() && !j.End.After(seconds(now)) })
}

// bare returns jobs without the labels, which only the traverser that gave a vertex out knows.
func bare(jobs []match.Job) []match.Job {
	list := make([]match.Job, len(jobs))
	for i, j := range jobs {
		j.Slots = slices.Clone(j.Slots)
		for k := range j.Slots {
			set := *j.Slots[k].R
			set.Vertices = slices.Clone(set.Vertices)
			for v := range set.Vertices {
				set.Vertices[v].Label = ""
			}
			j.Slots[k].R = &set
		}
		list[i] = j
	}
	return list
}

// TestReleaseLeavesNoTrace checks slots that are released key by key, in
// any order: the traverser is then as if it had only ever held the rest.
func TestReleaseLeavesNoTrace(t *testing.T) {
	random := seed(t)
	for range trials.Count(200) {
		r := load(t, drawnPolicies[random.IntN(len(drawnPolicies))], small())
		for id := range match.JobID(10) {
			q := draw(random, id+1, 0)
			_, _ = r.try(q)
		}
		type slot struct {
			id  match.JobID
			key string
		}
		var all []slot
		for _, j := range r.Jobs() {
			for _, s := range j.Slots {
				all = append(all, slot{j.ID, s.Key})
			}
		}
		random.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
		for len(all) > 0 {
			n := 1 + random.IntN(len(all))
			for _, s := range all[:n] {
				r.Release(s.id, s.key, "a key that nobody has")
			}
			all = all[n:]
			fresh := load(t, match.PolicyLow, small())
			if err := fresh.Update(r.Jobs()...); err != nil {
				t.Fatal(err)
			}
			same(t, "dump", r.dump(), fresh.dump())
			listed := 0
			for _, j := range r.Jobs() {
				listed += len(j.Slots)
			}
			if listed != len(all) {
				t.Fatalf("%d slots are listed, %d are held", listed, len(all))
			}
		}
		same(t, "all released", r.dump(), load(t, match.PolicyLow, small()).dump())
		if len(r.jobs)+len(r.due) > 0 {
			t.Errorf("%d jobs and %d deadlines are left", len(r.jobs), len(r.due))
		}
	}
}

// TestManyJobsLeaveNoBooking checks that plans, counts and filters are
// empty after many jobs were booked, reserved, overdue and released.
func TestManyJobsLeaveNoBooking(t *testing.T) {
	random := seed(t)
	r := load(t, match.PolicyFirst, small())
	now, given, jobs := int64(0), 0, trials.Count(20_000)
	for id := range match.JobID(jobs) {
		now += random.Int64N(10)
		if _, err := r.try(draw(random, id+1, now)); err == nil {
			given++
		}
		for range random.IntN(3) {
			r.Release(id+1-match.JobID(random.IntN(min(20, int(id)+1))), []string{"0"}[:random.IntN(2)]...) //nolint:gosec // small
		}
		if id%50 == 0 {
			for _, j := range r.Jobs() {
				r.Release(j.ID)
			}
		}
	}
	for _, j := range r.Jobs() {
		r.Release(j.ID)
	}
	if given < jobs/5 {
		t.Errorf("%d jobs were given room: too few to say anything", given)
	}
	same(t, "dump", r.dump(), load(t, match.PolicyLow, small()).dump())
}

// holding returns a job that holds these vertices, with one slot for each.
func holding(t testing.TB, id match.JobID, g *resource.Graph, paths ...string) match.Job {
	t.Helper()
	j := match.Job{ID: id, Start: seconds(0)}
	for i, p := range paths {
		v := at(t, g, p)
		j.Slots = append(j.Slots, match.Slot{Key: fmt.Sprint(i), R: &resource.Set{Vertices: []resource.Share{
			{Vertex: *v, Amount: v.Size, Exclusively: true},
		}}})
	}
	return j
}

// TestOverCommittedUpdate checks that more may be booked than there is. Nothing
// is given out of it then, and each release removes only its own bookings.
func TestOverCommittedUpdate(t *testing.T) {
	g := small()
	const core = "/cluster0/rack0/node0/core0"
	r := load(t, match.PolicyLow, g)
	before := r.dump()
	if err := r.Update(holding(t, 1, g, core), holding(t, 2, g, core), holding(t, 3, g, core, "/cluster0/rack0/node0/core1")); err != nil {
		t.Fatal(err)
	}
	r.fails(wants(9, 0, cores(15, 1)), match.ErrBusy)
	if got := held(r.gets(wants(9, 0, cores(12, 1), doing(match.WithoutAllocating)))); strings.Contains(got, core) {
		t.Errorf("%s is given out, though three jobs hold it", core)
	}
	r.Release(1)
	r.Release(3)
	r.fails(wants(9, 0, cores(16, 1)), match.ErrBusy)
	if got := held(r.gets(wants(9, 0, cores(15, 1), doing(match.WithoutAllocating)))); strings.Contains(got, core) {
		t.Errorf("%s is given out, though job 2 holds it", core)
	}
	r.Release(2)
	same(t, "dump", r.dump(), before)
}

// TestUpdateOfWhatIsHeld checks that an Update with what
// is held already changes nothing, and keeps the request.
func TestUpdateOfWhatIsHeld(t *testing.T) {
	r := load(t, match.PolicyLow, small())
	q := wants(1, 5, cores(3, 2), lasting(50), named("a", "b", "c"))
	first := r.gets(q)
	before := r.dump()
	for _, keys := range [][]string{{"a", "b", "c"}, {"b"}, {"c", "a"}} {
		j := r.Jobs()[0]
		j.Slots = slices.DeleteFunc(j.Slots, func(s match.Slot) bool { return !slices.Contains(keys, s.Key) })
		if err := r.Update(j); err != nil {
			t.Fatal(err)
		}
	}
	same(t, "dump", r.dump(), before)
	if again := r.gets(q); gocmp.Diff(first, again) != "" {
		t.Errorf("the request again: %s, want as before: %s", held(again), held(first))
	}
	j := r.Jobs()[0]
	j.End = seconds(99)
	if err := r.Update(j); err != nil {
		t.Fatal(err)
	}
	if got := r.Jobs()[0]; !got.End.Equal(seconds(99)) || len(got.Slots) != 3 {
		t.Errorf("after an Update with another end: %+v; want the three slots up to 99", got)
	}
	r.fails(q, match.ErrConflict)
}

func TestUpdateReplacesSlots(t *testing.T) {
	g := small()
	r := load(t, match.PolicyLow, g)
	do := func(j match.Job) {
		t.Helper()
		if err := r.Update(j); err != nil {
			t.Fatal(err)
		}
	}
	do(holding(t, 1, g, "/cluster0/rack0/node0/core0", "/cluster0/rack0/node0/core1"))
	do(holding(t, 1, g, "/cluster0/rack1/node1")) // in place of slot 0
	fresh := load(t, match.PolicyLow, g)
	want := holding(t, 1, g, "/cluster0/rack1/node1", "/cluster0/rack0/node0/core1")
	if err := fresh.Update(want); err != nil {
		t.Fatal(err)
	}
	same(t, "dump", r.dump(), fresh.dump())
	if jobs := r.Jobs(); len(jobs) != 1 || len(jobs[0].Slots) != 2 {
		t.Errorf("Jobs() = %+v; want one of two slots", jobs)
	}
}

func TestUpdateFails(t *testing.T) {
	g := small()
	given := func(change func(j *match.Job, v *resource.Share)) match.Job {
		j := holding(t, 7, g, "/cluster0/rack0/node0/core0")
		change(&j, &j.Slots[0].R.Vertices[0])
		return j
	}
	cases := map[string]struct {
		job  match.Job
		want string
	}{
		"no id":             {given(func(j *match.Job, _ *resource.Share) { j.ID = 0 }), "must not be 0"},
		"no R":              {given(func(j *match.Job, _ *resource.Share) { j.Slots[0].R = nil }), "has no resource set (R)"},
		"end before start":  {given(func(j *match.Job, _ *resource.Share) { j.Start, j.End = seconds(9), seconds(8) }), "end"},
		"unknown vertex":    {given(func(_ *match.Job, v *resource.Share) { v.Path = "/cluster0/rack7" }), "/cluster0/rack7"},
		"other type":        {given(func(_ *match.Job, v *resource.Share) { v.Type = "gpu" }), "gpu"},
		"negative amount":   {given(func(_ *match.Job, v *resource.Share) { v.Amount = -1 }), "-1"},
		"nothing exclusive": {given(func(_ *match.Job, v *resource.Share) { v.Exclusively = false }), "exclusively"},
		"two slots of one key": {given(func(j *match.Job, _ *resource.Share) {
			j.Slots = append(j.Slots, match.Slot{Key: "0", R: holding(t, 7, g, "/cluster0/rack0/node0/core1").Slots[0].R})
		}), `"0"`},
		"a vertex twice":          {holding(t, 7, g, "/cluster0/rack0/node0/core0", "/cluster0/rack0/node0/core0"), "twice"},
		"more than there is ever": {given(func(_ *match.Job, v *resource.Share) { v.Amount = 1 << 62 }), "4611686018427387904"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := load(t, match.PolicyLow, g)
			r.gets(wants(1, 0, cores(2, 1)))
			before := r.dump()
			err := r.Update(holding(t, 8, g, "/cluster0/rack1"), tc.job)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Update() = %v, want an error that says %q", err, tc.want)
			}
			same(t, "dump", r.dump(), before)
			if jobs := r.Jobs(); len(jobs) != 1 {
				t.Errorf("%d jobs, want the one from before", len(jobs))
			}
		})
	}
}

// TestKeys checks that keys name the slots in the order of the jobspec. If a
// range gives out fewer slots, the last keys of each parent's share are unused.
func TestKeys(t *testing.T) {
	between := func(low, high int64, with ...jobspec.Resource) jobspec.Resource {
		r := several("slot", low, with...)
		r.Count = jobspec.Between(low, high)
		return r
	}
	cases := map[string]struct {
		ask  jobspec.Resource
		keys []string
		want string
	}{
		"numbers without keys":             {ask: cores(3, 1), want: "0 1 2"},
		"keys in their order":              {ask: cores(3, 1), keys: []string{"c", "a", "b"}, want: "a b c"},
		"slots below nodes":                {ask: several("node", 2, cores(2, 1)), keys: []string{"a", "b", "c", "d"}, want: "a b c d"},
		"a range takes all that there are": {ask: between(1, 20, several("gpu", 1)), want: "0 1 2 3 4 5 6 7"},
		"the last keys of a range go unused": {
			ask: between(1, 10, several("gpu", 1)), keys: strings.Split("abcdefghij", ""), want: "a b c d e f g h",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := load(t, match.PolicyLow, small())
			r.gets(wants(1, 0, tc.ask, named(tc.keys...)))
			var got []string
			for _, s := range r.Jobs()[0].Slots {
				got = append(got, s.Key)
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("keys %q, want %q", got, tc.want)
			}
		})
	}
	for name, keys := range map[string][]string{"too few": {"a"}, "too many": {"a", "b", "c"}, "twice": {"a", "a"}} {
		r := load(t, match.PolicyLow, small())
		r.fails(wants(1, 0, cores(2, 1), named(keys...)), match.ErrInvalid)
		if len(r.Jobs()) > 0 {
			t.Errorf("%s keys: something is held", name)
		}
	}
}

// TestCallerGone checks that a caller that went away gets nothing, and loses no reservation.
func TestCallerGone(t *testing.T) {
	r := load(t, match.PolicyLow, small())
	r.gets(wants(1, 0, nodes(4), lasting(10)))
	later := doing(match.AllocateOrElseReserve)
	r.gets(wants(2, 0, nodes(1), lasting(10), later))
	before := r.dump()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q := wants(2, 0, nodes(2), lasting(10), later)
	if _, err := r.Match(ctx, &q, Fingerprint{1}); err == nil {
		t.Error("Match() = nil")
	}
	same(t, "dump", r.dump(), before)
}
