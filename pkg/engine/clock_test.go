package engine_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/test/trials"
)

// never is the end of a slot without a known end, in seconds after matchtest.Now.
const never = math.MaxInt64

// A timeModel is a simple model of an engine over time. It has nodes, and the slots of each job with
// their times. It answers every question by reading all slots.
type timeModel struct {
	driver
	*rand.Rand
	now   int64
	nodes map[string]modelNode
	jobs  map[match.JobID]*timeModelJob
	// came counts the outcomes of requests.
	came map[string]int
}

type timeModelJob struct {
	reserved bool
	at, end  int64
	slots    map[string]timeModelSlot
}

// A timeModelSlot has an end, because the slots of a job from an Update may end at different times.
type timeModelSlot struct {
	node     string
	holds    [2]int64
	holder   string
	shared   bool
	at, end  int64
	reserved bool
}

// A modelRequest is a request in the model's terms: count slots of one shape.
type modelRequest struct {
	need  [2]int64
	count int64
	// duration is 0 if the end is not known.
	duration int64
	holder   string
	whole    bool
}

// TestRandomSeriesOverTime makes random calls while the clock advances. After each call it compares
// what is held and reserved with the model, and each verdict and time.
func TestRandomSeriesOverTime(t *testing.T) {
	seed := trials.Seed(t)
	came := make(map[string]int)
	rounds := trials.Count(150)
	for round := range uint64(rounds) {
		c := &timeModel{
			driver: driver{e: newEngine(t)}, Rand: rand.New(rand.NewPCG(seed, round)), came: came,
			nodes: make(map[string]modelNode), jobs: make(map[match.JobID]*timeModelJob),
		}
		t.Run(fmt.Sprintf("%d-%d", seed, round), func(t *testing.T) {
			c.load(t)
			for range 80 {
				c.step(t)
				c.compare(t)
			}
		})
	}
	t.Logf("requests came to %v", came)
	if rounds < 150 {
		return // Too few to expect that everything has come.
	}
	for _, what := range []string{"allocated", "reserved", "refused", "allocated after it was reserved", "reserved anew", "refused for what is promised", "replaced slots", "replaced reserved slots"} {
		if came[what] == 0 {
			t.Errorf("never: %s", what)
		}
	}
}

// step makes one random call.
func (c *timeModel) step(t *testing.T) {
	ctx, id := t.Context(), match.JobID(1+c.IntN(9))
	name := fmt.Sprintf("n%d", c.IntN(4))
	var err error
	switch c.IntN(16) {
	case 0, 6:
		c.now += c.Int64N(8)
	case 1, 2:
		delete(c.jobs, id)
		err = c.e.Release(ctx, c.epoch, id)
	case 3:
		n := modelNode{size: [2]int64{4 + c.Int64N(8), 4 + c.Int64N(8)}, down: c.IntN(12) == 0}
		g := matchtest.Node(name, nil, amountPools(n.size)...)
		if n.down {
			matchtest.WithStatus(g, resource.Down)
		}
		c.nodes[name] = n
		err = c.e.PutNode(ctx, c.epoch, g)
	case 4:
		if c.IntN(8) == 0 {
			delete(c.nodes, name)
			err = c.e.RemoveNode(ctx, c.epoch, name)
		}
	case 5:
		if c.IntN(2) == 0 {
			c.updateSlot(t, id, name)
		}
	default:
		c.matchAndCompare(t, id)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// updateSlot makes an Update of one slot.
func (c *timeModel) updateSlot(t *testing.T, id match.JobID, node string) {
	s, end := c.randomSlot(node), c.now-2+c.Int64N(20)
	slot := s.written(fmt.Sprint(c.IntN(2)))
	from := match.Job{ID: id, Slots: []match.Slot{slot}}
	j := c.jobs[id]
	if j != nil && j.reserved || c.IntN(4) == 0 && j == nil {
		from.Reserved, from.Start = true, moment(c.now+c.Int64N(10))
		if c.IntN(2) == 0 {
			from.End = from.Start.Add(time.Duration(1+c.IntN(10)) * time.Second)
		}
		s.at, s.end, s.reserved = seconds(from.Start), seconds(from.End), true
	} else if c.IntN(2) == 0 {
		from.End = moment(end)
	}
	if err := c.e.Update(t.Context(), c.epoch, from); err != nil {
		t.Fatalf("Update(%+v) = %v", from, err)
	}
	if j == nil {
		j = &timeModelJob{slots: make(map[string]timeModelSlot), end: never}
		c.jobs[id] = j
	}
	j.reserved = from.Reserved
	s.end = never // A slot ends when its R does, also if it was there before.
	j.slots[slot.Key] = s
	if from.Reserved {
		j.at, j.end = seconds(from.Start), seconds(from.End)
	}
	for key, s := range j.slots {
		if from.Reserved {
			s.at, s.end = j.at, j.end
		} else if !from.End.IsZero() {
			j.end, s.end = end, end
		}
		j.slots[key] = s
	}
}

// randomSlot returns a random slot on a node.
func (c *timeModel) randomSlot(node string) timeModelSlot {
	s := timeModelSlot{node: node, holds: [2]int64{c.Int64N(5), c.Int64N(5)}, end: never, holder: holders[c.IntN(3)]}
	s.shared = s.holder == "" && c.IntN(2) == 0
	return s
}

// written returns the slot in the form of an Update.
func (s timeModelSlot) written(key string) match.Slot {
	slot := matchtest.Held(key, s.node, amountPools(s.holds)...)
	slot.Holder, slot.Shared = s.holder, s.shared
	return slot
}

// moment returns the time this number of seconds after matchtest.Now. For never it returns the zero
// time.
func moment(s int64) time.Time {
	if s == never {
		return time.Time{}
	}
	return matchtest.Now.Add(time.Duration(s) * time.Second)
}

// seconds is the inverse of moment.
func seconds(t time.Time) int64 {
	if t.IsZero() {
		return never
	}
	return int64(t.Sub(matchtest.Now) / time.Second)
}

// matchAndCompare makes a request and compares the answer with the model.
func (c *timeModel) matchAndCompare(t *testing.T, id match.JobID) {
	had := c.jobs[id]
	if had != nil && !had.reserved {
		return
	}
	w := modelRequest{
		need: [2]int64{1 + c.Int64N(4), 1 + c.Int64N(4)}, count: 1 + c.Int64N(4),
		duration: c.Int64N(9), holder: holders[c.IntN(3)],
	}
	r := c.request(id, matchtest.Slots("a", w.count, amountPools(w.need)...))
	r.Op = []match.Op{
		match.Allocate, match.AllocateOrElseReserve, match.AllocateOrElseReserve,
		match.WithoutAllocating, match.WithoutAllocatingFuture,
	}[c.IntN(5)]
	if w.holder != "" && c.IntN(2) == 0 {
		w.whole, r.Policy = true, match.PolicyHinodex
	}
	r.Now, r.Duration, r.Holder = moment(c.now), time.Duration(w.duration)*time.Second, w.holder
	there := c.countedSlots(&r)
	at, ok := c.earliest(there, w, r.Op == match.AllocateOrElseReserve || r.Op == match.WithoutAllocatingFuture)
	a, err := c.e.Match(t.Context(), r)
	var refusal *match.Refusal
	switch {
	case err != nil && !errors.As(err, &refusal):
		t.Fatalf("Match(%+v) = %v", r, err)
	case err == nil != ok:
		t.Fatalf("Match(%+v) for %+v = %v, %v, want room %v at %d of %s", r, w, a, err, ok, at, c)
	case err == nil && (seconds(a.Start) != at || a.Reserved != (at > c.now)):
		t.Fatalf("Match(%+v) for %+v = from %d on, reserved %v, want it at %d of %s", r, w, seconds(a.Start), a.Reserved, at, c)
	}
	if refusal != nil {
		// The numbers are the same as for the present alone, even if later times were tried.
		now := r
		now.Op = match.WithoutAllocating
		_, err := c.e.Match(t.Context(), now)
		var present *match.Refusal
		if !errors.As(err, &present) || cmp.Diff(present.Reason, refusal.Reason) != "" {
			t.Fatalf("Match(%+v) = %v, and for the present alone %v", r, refusal, err)
		}
		c.comparePromised(t, there, w, refusal)
	}
	if r.Op == match.Allocate || r.Op == match.AllocateOrElseReserve {
		c.expire()
		delete(c.jobs, id)
		if a != nil {
			c.replace(&r)
		}
		c.book(a)
		c.count(had, a)
	}
	if a != nil {
		c.check(t, there, w, a)
	}
}

// comparePromised compares what a refusal says of reservations with the model.
func (c *timeModel) comparePromised(t *testing.T, there []timeModelSlot, w modelRequest, no *match.Refusal) {
	t.Helper()
	if !errors.Is(no, match.ErrBusy) {
		return
	}
	held := slices.DeleteFunc(slices.Clone(there), func(s timeModelSlot) bool { return s.reserved })
	found, more, from := int64(0), int64(0), int64(never)
	for name := range c.nodes {
		with, without := c.fit(there, name, c.now, w), c.fit(held, name, c.now, w)
		found, more = found+with, more+without
		for _, s := range there {
			if s.reserved && s.node == name && with < without && s.end > c.now && (w.duration == 0 || s.at < c.now+w.duration) {
				from = min(from, s.at)
			}
		}
	}
	more = min(more, w.count) - found
	switch got := no.Reason.Promised; {
	case more == 0 && got == nil:
	case more == 0 || got == nil || got.MoreSlots != more || seconds(got.From) != from:
		t.Fatalf("a refusal of %+v says that %+v is promised, want %d slots from %d on, of %s", w, got, more, from, c)
	default:
		c.came["refused for what is promised"]++
	}
}

// count counts the outcome of a request.
func (c *timeModel) count(had *timeModelJob, a *match.Allocation) {
	switch {
	case a == nil:
		c.came["refused"]++
	case a.Reserved && had != nil:
		c.came["reserved anew"]++
	case a.Reserved:
		c.came["reserved"]++
	case had != nil:
		c.came["allocated after it was reserved"]++
	default:
		c.came["allocated"]++
	}
}

// countedSlots lists the slots that count for a request. Sometimes it makes the request ignore jobs,
// replace slots or expect slots.
func (c *timeModel) countedSlots(r *match.Request) []timeModelSlot {
	books := r.Op == match.Allocate || r.Op == match.AllocateOrElseReserve
	for c.IntN(2) == 0 {
		id := match.JobID(1 + c.IntN(9))
		if j := c.jobs[id]; books && (id == r.ID || j != nil && !j.reserved) {
			continue
		}
		r.Ignore = append(r.Ignore, id)
	}
	c.drawReplaced(r)
	var there []timeModelSlot
	for id, j := range c.jobs {
		if id != r.ID && !slices.Contains(r.Ignore, id) {
			for key, s := range j.slots {
				if replaces(r, id, key) {
					continue
				}
				s.reserved = j.reserved
				there = append(there, s)
			}
		}
	}
	for c.IntN(4) == 0 {
		s := c.randomSlot(fmt.Sprintf("n%d", c.IntN(4)))
		slot := s.written("e")
		if c.IntN(2) == 0 {
			s.end = c.now - 2 + c.Int64N(20)
			slot.R.Expiration = moment(s.end)
		}
		r.Expected = append(r.Expected, slot)
		there = append(there, s)
	}
	return there
}

// expire drops the reservations that have ended.
func (c *timeModel) expire() {
	maps.DeleteFunc(c.jobs, func(_ match.JobID, j *timeModelJob) bool { return j.reserved && j.end <= c.now })
}

// book records an allocation or a reservation.
func (c *timeModel) book(a *match.Allocation) {
	if a == nil {
		return
	}
	j := &timeModelJob{reserved: a.Reserved, at: seconds(a.Start), end: seconds(a.End), slots: make(map[string]timeModelSlot)}
	for _, s := range a.Slots {
		j.slots[s.Key] = slotOf(s, j.at, j.end)
	}
	c.jobs[a.ID] = j
}

func slotOf(s match.Slot, at, end int64) timeModelSlot {
	held := matchtest.Amounts(s.R)
	return timeModelSlot{
		node: s.Node, holds: [2]int64{held["core"], held["memory"]}, holder: s.Holder, shared: s.Shared, at: at, end: end,
	}
}

// earliest returns the first time at which these slots leave room for a request.
func (c *timeModel) earliest(there []timeModelSlot, w modelRequest, later bool) (int64, bool) {
	times := []int64{c.now}
	for _, s := range there {
		switch {
		case !later:
		case s.reserved:
			times = append(times, s.at, s.end)
		case s.end <= c.now:
			times = append(times, c.now+1)
		default:
			times = append(times, s.end)
		}
	}
	slices.Sort(times)
	for _, at := range slices.Compact(times) {
		if at < c.now || at == never {
			continue
		}
		n := int64(0)
		for name := range c.nodes {
			n += c.fit(there, name, at, w)
		}
		if n >= w.count {
			return at, true
		}
	}
	return 0, false
}

// fit returns how many slots of a request fit on a node from a time on.
func (c *timeModel) fit(there []timeModelSlot, name string, at int64, w modelRequest) int64 {
	free, ok := c.free(there, name, at, w)
	if !ok {
		return 0
	}
	return min(free[0]/w.need[0], free[1]/w.need[1])
}

// free returns what is free of a node for a request from a time on. It returns false if the node is
// down, or if others have it.
func (c *timeModel) free(there []timeModelSlot, name string, at int64, w modelRequest) ([2]int64, bool) {
	end := int64(never)
	if w.duration > 0 {
		end = at + w.duration
	}
	n, moments := c.nodes[name], []int64{at}
	for _, s := range there {
		if s.node == name && s.reserved && s.at > at && s.at < end {
			moments = append(moments, s.at)
		}
	}
	free := n.size
	for _, m := range moments {
		used := [2]int64{}
		for _, s := range there {
			if s.node != name || s.reserved && (m < s.at || m >= s.end) || !s.reserved && m != c.now && m >= s.end {
				continue
			}
			if s.holder != "" && s.holder != w.holder || w.whole && s.holder == "" && !s.shared {
				return free, false
			}
			for k := range used {
				used[k] += s.holds[k]
			}
		}
		for k := range free {
			free[k] = min(free[k], max(0, n.size[k]-used[k]))
		}
	}
	return free, !n.down
}

// check compares an allocation or a reservation with what was free.
func (c *timeModel) check(t *testing.T, there []timeModelSlot, w modelRequest, a *match.Allocation) {
	t.Helper()
	given := make(map[string][2]int64)
	for _, s := range a.Slots {
		g := given[s.Node]
		for k, n := range slotOf(s, 0, 0).holds {
			g[k] += n
		}
		given[s.Node] = g
		if free, ok := c.free(there, s.Node, seconds(a.Start), w); !ok || g[0] > free[0] || g[1] > free[1] {
			t.Fatalf("job %d is given %v on %s from %d on, where %v is free, %v, of %s", a.ID, g, s.Node, seconds(a.Start), free, ok, c)
		}
	}
	if int64(len(a.Slots)) != w.count || w.duration > 0 && seconds(a.End) != seconds(a.Start)+w.duration || w.duration == 0 && !a.End.IsZero() {
		t.Fatalf("job %d is given %d slots from %s to %s for %+v", a.ID, len(a.Slots), a.Start, a.End, w)
	}
}

// compare compares the engine's list of jobs with the model.
func (c *timeModel) compare(t *testing.T) {
	t.Helper()
	listed, err := c.e.Jobs(t.Context(), c.epoch)
	if err != nil {
		t.Fatalf("Jobs() = %v", err)
	}
	got := make(map[match.JobID]*timeModelJob)
	for _, j := range listed {
		out := &timeModelJob{reserved: j.Reserved, end: seconds(j.End), slots: make(map[string]timeModelSlot)}
		if j.Reserved || !j.Start.IsZero() {
			out.at = seconds(j.Start)
		}
		for _, s := range j.Slots {
			at := int64(0)
			if !s.R.Start.IsZero() {
				at = seconds(s.R.Start)
			}
			out.slots[s.Key] = slotOf(s, at, seconds(s.R.Expiration))
		}
		got[j.ID] = out
	}
	if diff := cmp.Diff(c.jobs, got, cmp.AllowUnexported(timeModelJob{}, timeModelSlot{}),
		cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".at" || p.String() == "slots.reserved" }, cmp.Ignore())); diff != "" {
		t.Fatalf("what is listed differs (-want +got):\n%s", diff)
	}
}

// String renders the model for messages.
func (c *timeModel) String() string {
	out := fmt.Sprintf("now %d, nodes %v", c.now, c.nodes)
	for id, j := range c.jobs {
		out += fmt.Sprintf("\n%d: %+v", id, *j)
	}
	return out
}
