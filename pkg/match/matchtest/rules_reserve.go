package matchtest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// orElse requests the resources now or later.
func orElse() option { return as(match.AllocateOrElseReserve) }

// in returns the time this number of minutes after Now.
func in(minutes int) time.Time { return Now.Add(time.Duration(minutes) * time.Minute) }

// minutes sets the duration of a request in minutes.
func minutes(n int) option { return lasting(time.Duration(n) * time.Minute) }

// span renders the start and the end of an allocation in minutes after Now: "10-20", or "10-"
// without an end.
func span(start, end time.Time) string {
	if end.IsZero() {
		return fmt.Sprintf("%v-", start.Sub(Now).Minutes())
	}
	return fmt.Sprintf("%v-%v", start.Sub(Now).Minutes(), end.Sub(Now).Minutes())
}

// reserves requests a jobspec that must be reserved, and checks the time and the node of each slot.
func (s *subject) reserves(t *testing.T, id match.JobID, js *jobspec.Jobspec, when, where string, how ...option) {
	t.Helper()
	a := s.match(t, id, js, append([]option{orElse()}, how...)...)
	if got := span(a.Start, a.End); !a.Reserved || got != when || standing(a.Slots) != where {
		t.Errorf("Match(%d) gave %q over %s, reserved %v, want %q reserved over %s", id, standing(a.Slots), got, a.Reserved, where, when)
	}
	for _, slot := range a.Slots {
		if got := span(slot.R.Start, slot.R.Expiration); got != when {
			t.Errorf("slot %s is over %s, want %s", slot.Key, got, when)
		}
	}
}

// gives requests a jobspec that must be allocated now.
func (s *subject) gives(t *testing.T, id match.JobID, js *jobspec.Jobspec, where string, how ...option) {
	t.Helper()
	if a := s.places(t, id, js, where, append([]option{orElse()}, how...)...); a.Reserved {
		t.Errorf("Match(%d) reserved from %s on, want an allocation", id, a.Start)
	}
}

// reserved renders the reservations, each in the form "2: 10-20 0@n1".
func (s *subject) reserved(t *testing.T) string {
	t.Helper()
	var words []string
	for _, j := range s.jobs(t) {
		if j.Reserved {
			words = append(words, fmt.Sprintf("%d: %s %s", j.ID, span(j.Start, j.End), standing(j.Slots)))
		}
	}
	return strings.Join(words, "")
}

// promising checks the reservations, as rendered by reserved.
func (s *subject) promising(t *testing.T, want string) {
	t.Helper()
	if got := s.reserved(t); got != want {
		t.Errorf("reserved is %q, want %q", got, want)
	}
}

// two requests one slot of two cores, and all requests two such slots.
func two() *jobspec.Jobspec { return Slots("a", 1, Cores(2)) }
func all() *jobspec.Jobspec { return Slots("a", 2, Cores(2)) }

// pair returns two nodes of two cores.
func pair() []*resource.Graph {
	return []*resource.Graph{Node("n1", nil, Cores(2)), Node("n2", nil, Cores(2))}
}

func reserves(c Capabilities) bool { return c.Reserve }

// reserving returns a rule about reservations.
func reserving(test func(t *testing.T, s *subject)) rule { return rule{needs: reserves, test: test} }

var reserveRules = map[string]rule{
	"an engine that does not reserve says so": {
		needs: func(c Capabilities) bool { return !c.Reserve },
		test: func(t *testing.T, s *subject) {
			s.load(t, pair()...)
			s.fails(t, 2, two(), match.ErrInvalid, orElse())
			s.holding(t, "")
		},
	},
	"what fits now is allocated": reserving(func(t *testing.T, s *subject) {
		s.load(t, pair()...)
		s.gives(t, 1, two(), "0@n1", minutes(10))
		s.gives(t, 2, two(), "0@n2")
		s.holding(t, "1: 0@n1; 2: 0@n2")
		s.promising(t, "")
	}),
	"a reservation begins when what it waits for ends": reserving(func(t *testing.T, s *subject) {
		s.load(t, pair()...)
		s.match(t, 1, two(), minutes(30))
		s.match(t, 2, two(), minutes(10))
		s.reserves(t, 3, two(), "10-70", "0@n2", minutes(60))
		s.reserves(t, 4, two(), "30-", "0@n1")
	}),
	"a reservation of several slots waits for the last of what it needs": reserving(func(t *testing.T, s *subject) {
		s.load(t, append(pair(), Node("n3", nil, Cores(2)))...)
		s.match(t, 1, two(), minutes(30))
		s.match(t, 2, two(), minutes(10))
		s.match(t, 3, two(), minutes(20))
		s.reserves(t, 4, all(), "20-25", "0@n2 1@n3", minutes(5))
	}),
	"what is reserved is listed as such and held nowhere": reserving(func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		s.match(t, 1, two(), minutes(10))
		s.reserves(t, 2, two(), "10-20", "x@n1", minutes(10), keys("x"))
		s.holding(t, "1: 0@n1; 2: x@n1")
		s.promising(t, "2: 10-20 x@n1")
		if nodes := s.page(t, "", 9); len(nodes) != 1 || len(nodes[0].Jobs) != 1 || nodes[0].Jobs[0].ID != 1 {
			t.Errorf("Nodes() lists %+v, want job 1 alone on n1", nodes)
		}
	}),
	"what is reserved is given to nobody else": reserving(func(t *testing.T, s *subject) {
		s.load(t, pair()...)
		s.match(t, 1, two(), minutes(10))
		s.reserves(t, 2, all(), "10-20", "0@n1 1@n2", minutes(10))
		s.refuses(t, 3, two(), match.ErrBusy)
		s.refuses(t, 3, two(), match.ErrBusy, minutes(11))
		s.refuses(t, 3, two(), match.ErrBusy, minutes(11), as(match.WithoutAllocating))
		s.promising(t, "2: 10-20 0@n1 1@n2")
	}),
	"what ends before a reservation begins goes before it": reserving(func(t *testing.T, s *subject) {
		s.load(t, pair()...)
		s.match(t, 1, two(), minutes(10))
		s.reserves(t, 2, all(), "10-20", "0@n1 1@n2", minutes(10))
		s.gives(t, 3, two(), "0@n2", minutes(10))
		s.reserves(t, 4, two(), "20-21", "0@n1", minutes(1))
	}),
	"what overlaps a reservation is placed elsewhere": reserving(func(t *testing.T, s *subject) {
		s.load(t, pair()...)
		s.match(t, 1, Slots("a", 1, Cores(1)), minutes(10))
		s.match(t, 2, two(), minutes(10))
		s.reserves(t, 3, two(), "10-20", "0@n1", minutes(10))
		s.reserves(t, 4, two(), "10-20", "0@n2", minutes(10))
		s.release(t, 2)
		s.refuses(t, 5, two(), match.ErrBusy, minutes(15))
		s.release(t, 4)
		s.places(t, 5, Slots("a", 1, Cores(1)), "0@n2", minutes(15))
		s.places(t, 6, Slots("a", 1, Cores(1)), "0@n1", minutes(10))
	}),
	"what is held now and what is reserved for later do not add up": reserving(func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		s.match(t, 1, Slots("a", 1, Cores(3)), minutes(10))
		s.reserves(t, 2, two(), "10-20", "0@n1", minutes(10))
		s.gives(t, 3, Slots("a", 1, Cores(1)), "0@n1")
		s.reserves(t, 4, two(), "20-", "0@n1")
	}),
	"reservations stand one behind the other": reserving(func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		s.match(t, 1, two(), minutes(10))
		s.reserves(t, 2, two(), "10-30", "0@n1", minutes(20))
		s.reserves(t, 3, two(), "30-35", "0@n1", minutes(5))
		s.reserves(t, 4, two(), "35-", "0@n1")
		s.refuses(t, 5, two(), match.ErrBusy, orElse())
		s.release(t, 3)
		s.reserves(t, 5, two(), "30-34", "0@n1", minutes(4))
		s.refuses(t, 6, two(), match.ErrBusy, orElse(), minutes(2))
	}),
	"who asks again is given what became free": reserving(func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		s.match(t, 1, two(), minutes(10))
		s.reserves(t, 2, two(), "10-20", "0@n1", minutes(10))
		s.release(t, 1)
		s.gives(t, 2, two(), "0@n1", minutes(10), at(in(4)))
		s.promising(t, "")
		s.holding(t, "2: 0@n1")
		s.reserves(t, 3, two(), "14-24", "0@n1", minutes(10), at(in(5)))
		s.release(t, 2)
		s.places(t, 3, two(), "0@n1", minutes(10), at(in(14)))
		s.promising(t, "")
	}),
	"who asks again may ask otherwise": reserving(func(t *testing.T, s *subject) {
		s.load(t, pair()...)
		s.match(t, 1, two(), minutes(10))
		s.match(t, 2, two(), minutes(20))
		s.reserves(t, 3, two(), "10-20", "0@n1", minutes(10))
		s.reserves(t, 3, all(), "20-25", "x@n1 y@n2", minutes(5), keys("x", "y"), at(in(1)))
		s.promising(t, "3: 20-25 x@n1 y@n2")
	}),
	"who asks again and is refused has no reservation": reserving(func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		s.match(t, 1, two(), minutes(10))
		s.reserves(t, 2, two(), "10-20", "0@n1", minutes(10))
		s.fails(t, 2, two(), match.ErrInvalid, minutes(-1))
		s.promising(t, "2: 10-20 0@n1")
		s.refuses(t, 2, two(), match.ErrBusy, minutes(10), at(in(1)))
		s.promising(t, "")
		s.reserves(t, 3, two(), "10-", "0@n1")
	}),
	"an allocation past its end holds until it is released": reserving(func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		s.match(t, 1, two(), minutes(10))
		s.reserves(t, 2, two(), "10-20", "0@n1", minutes(10))
		s.refuses(t, 3, two(), match.ErrBusy, at(in(15)), minutes(1))
		a := s.match(t, 2, two(), minutes(10), orElse(), at(in(15)))
		if !a.Reserved || !a.Start.After(in(15)) || a.Start.After(in(16)) || !a.End.Equal(a.Start.Add(10*time.Minute)) {
			t.Errorf("Match() reserved %v from %s to %s, want it soon after %s", a.Reserved, a.Start, a.End, in(15))
		}
		s.release(t, 1)
		s.gives(t, 2, two(), "0@n1", minutes(10), at(in(16)))
	}),
	"a release drops a reservation": reserving(func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		s.match(t, 1, two(), minutes(10))
		s.reserves(t, 2, two(), "10-", "0@n1")
		s.release(t, 2)
		s.promising(t, "")
		s.reserves(t, 3, two(), "10-", "0@n1")
		s.release(t, 1)
		s.refuses(t, 4, two(), match.ErrBusy)
	}),
	"a reservation that ends unclaimed is dropped": reserving(func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		s.match(t, 1, two(), minutes(10))
		s.reserves(t, 2, two(), "10-20", "0@n1", minutes(10))
		s.release(t, 1)
		s.refuses(t, 3, two(), match.ErrBusy, at(in(19)))
		s.promising(t, "2: 10-20 0@n1")
		s.places(t, 3, two(), "0@n1", at(in(20)))
		s.promising(t, "")
	}),
	"without a known end in the way nothing is reserved": reserving(func(t *testing.T, s *subject) {
		s.load(t, pair()...)
		s.match(t, 1, two())
		s.match(t, 2, two(), minutes(10))
		if r := s.refuses(t, 3, all(), match.ErrBusy, orElse()); s.can.Reasons && !r.WaitingHelps {
			t.Errorf("the reason %+v says that waiting for job 1 does not help", r)
		}
		s.refuses(t, 3, Slots("a", 3, Cores(2)), match.ErrUnsatisfiable, orElse())
		s.holding(t, "1: 0@n1; 2: 0@n2")
	}),
	"nothing is reserved on nodes that are down": reserving(func(t *testing.T, s *subject) {
		s.load(t, pair()...)
		s.match(t, 1, two(), minutes(10))
		s.match(t, 2, two(), minutes(20))
		s.setStatus(t, "n1", resource.Down)
		s.reserves(t, 3, two(), "20-", "0@n2")
		s.setStatus(t, "n2", resource.Down)
		s.refuses(t, 4, two(), match.ErrBusy, orElse())
	}),
	"a job that holds something is not reserved for": reserving(func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		first := s.match(t, 1, two(), minutes(10), orElse())
		same(t, "the repeat", s.match(t, 1, two(), minutes(10), orElse(), at(in(5))), first)
		s.fails(t, 1, two(), match.ErrConflict, minutes(20), orElse())
		s.fails(t, 0, two(), match.ErrInvalid, orElse())
	}),
	"without allocating says what would be reserved, and books nothing": reserving(func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		s.match(t, 1, two(), minutes(10))
		for range 2 {
			s.reserves(t, 2, two(), "10-15", "0@n1", minutes(5), as(match.WithoutAllocatingFuture))
			s.promising(t, "")
		}
		s.reserves(t, 2, two(), "10-15", "0@n1", minutes(5))
		s.reserves(t, 2, two(), "10-13", "0@n1", minutes(3), as(match.WithoutAllocatingFuture))
		s.reserves(t, 3, two(), "15-18", "0@n1", minutes(3), as(match.WithoutAllocatingFuture))
		s.refuses(t, 2, two(), match.ErrBusy, minutes(3), as(match.WithoutAllocating))
		s.places(t, 4, two(), "0@n1", as(match.WithoutAllocating), at(in(30)), without(1))
		s.promising(t, "2: 10-15 0@n1")
	}),
	"an ignored reservation counts as dropped": {needs: both(reserves, ignores), test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		s.match(t, 1, two(), minutes(10))
		s.reserves(t, 2, two(), "10-20", "0@n1", minutes(10))
		s.reserves(t, 3, two(), "10-", "0@n1", as(match.WithoutAllocatingFuture), without(2, 2, 3))
		s.places(t, 3, two(), "0@n1", as(match.WithoutAllocatingFuture), without(1, 2))
		s.reserves(t, 3, two(), "20-", "0@n1", as(match.WithoutAllocatingFuture), without(1))
		s.promising(t, "2: 10-20 0@n1")
	}},
	"a request that books over an ignored reservation leaves it as it is": {needs: both(reserves, ignores), test: func(t *testing.T, s *subject) {
		s.load(t, pair()...)
		s.match(t, 1, two(), minutes(10))
		s.match(t, 2, two(), minutes(10))
		s.reserves(t, 3, all(), "10-30", "0@n1 1@n2", minutes(20))
		s.release(t, 1)
		s.refuses(t, 4, two(), match.ErrBusy)
		s.places(t, 4, two(), "0@n1", without(3, 77))
		s.promising(t, "3: 10-30 0@n1 1@n2")
		s.holding(t, "2: 0@n2; 3: 0@n1 1@n2; 4: 0@n1")
		// The reservation counts for everybody else, and its job gets what is free when it asks again.
		s.release(t, 2)
		s.refuses(t, 5, two(), match.ErrBusy)
		s.gives(t, 3, two(), "0@n2", minutes(20))
		s.holding(t, "3: 0@n2; 4: 0@n1")
	}},
	"a refusal says what is promised to others, and from when": {needs: both(reserves, reasons), test: func(t *testing.T, s *subject) {
		s.load(t, append(pair(), Node("n3", nil, Cores(2)))...)
		s.match(t, 1, two(), minutes(10))
		s.match(t, 2, two(), minutes(20))
		s.match(t, 3, two())
		s.reserves(t, 5, two(), "10-40", "0@n1", minutes(30))
		s.reserves(t, 4, two(), "20-50", "0@n2", minutes(30))
		s.release(t, 1)
		s.release(t, 2)
		promises := func(n int64, js *jobspec.Jobspec, want *match.Promised, how ...option) {
			t.Helper()
			r := s.refuses(t, 9, js, match.ErrBusy, how...)
			same(t, "what is promised", r.Promised, want)
			if r.Found != n {
				t.Errorf("found is %d, want %d", r.Found, n)
			}
		}
		wide := Slots("a", 3, Cores(2))
		promises(0, wide, &match.Promised{Job: 5, MoreSlots: 2, From: in(10)})
		promises(0, wide, &match.Promised{Job: 5, MoreSlots: 2, From: in(10)}, orElse())
		promises(0, wide, &match.Promised{Job: 5, MoreSlots: 2, From: in(10)}, as(match.WithoutAllocating), minutes(21))
		promises(1, wide, &match.Promised{Job: 5, MoreSlots: 1, From: in(10)}, minutes(20))
		promises(2, wide, nil, minutes(10))
		promises(0, two(), &match.Promised{Job: 5, MoreSlots: 1, From: in(10)})
		// No more slots are counted than are wanted.
		promises(0, all(), &match.Promised{Job: 5, MoreSlots: 2, From: in(10)})
		if s.can.Shapes {
			promises(0, Jobspec(Slot("a", jobspec.Exactly(1), Cores(2)), Slot("b", jobspec.Exactly(1), Cores(2))), &match.Promised{Job: 5, MoreSlots: 1, From: in(10)})
		}
		// What is ignored, and the job's own reservation, is not in the way.
		if s.can.Ignore {
			promises(1, wide, &match.Promised{Job: 4, MoreSlots: 1, From: in(20)}, without(5))
			promises(2, wide, nil, without(4, 5))
		}
		promises(1, wide, &match.Promised{Job: 4, MoreSlots: 1, From: in(20)}, func(r *match.Request) { r.ID, r.Op = 5, match.WithoutAllocating })
		s.promising(t, "4: 20-50 0@n2"+"5: 10-40 0@n1")
		// A request that ends when the first reservation begins finds the slots.
		s.places(t, 9, all(), "0@n1 1@n2", minutes(10))
	}},
	"reservations that take no room from a request are not in its way": {needs: both(reserves, reasons), test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)), Node("n2", nil, Cores(2)), Node("n3", nil, Cores(1)))
		s.match(t, 1, Slots("a", 1, Cores(4)), minutes(10))
		s.match(t, 2, two(), minutes(20))
		s.match(t, 3, one(), minutes(5))
		s.reserves(t, 4, one(), "5-", "0@n3")
		s.reserves(t, 5, Slots("a", 1, Cores(4)), "10-", "0@n1")
		s.reserves(t, 6, two(), "20-", "0@n2")
		s.release(t, 2)
		// The first reservation is on a node that is too small, the second where another job is now.
		r := s.refuses(t, 7, two(), match.ErrBusy)
		same(t, "what is promised", r.Promised, &match.Promised{Job: 6, MoreSlots: 1, From: in(20)})
		s.match(t, 8, two(), minutes(20))
		r = s.refuses(t, 7, two(), match.ErrBusy)
		same(t, "what is promised", r.Promised, (*match.Promised)(nil))
	}},
	"a node reserved whole is promised to a job": {needs: both(both(reserves, reasons), wholeNodes), test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		s.match(t, 1, one(), minutes(10))
		s.reserves(t, 2, one(), "10-20", "0@n1", wanting("x"), minutes(10))
		r := s.refuses(t, 3, two(), match.ErrBusy)
		same(t, "what is promised", r.Promised, &match.Promised{Job: 2, MoreSlots: 1, From: in(10)})
		r = s.refuses(t, 3, one(), match.ErrBusy, wanting("y"))
		same(t, "what is promised", r.Promised, (*match.Promised)(nil))
		s.release(t, 1)
		r = s.refuses(t, 3, one(), match.ErrBusy, wanting("y"))
		same(t, "what is promised", r.Promised, &match.Promised{Job: 2, MoreSlots: 1, From: in(10)})
	}},
	"without what is promised another domain may have most room": {needs: both(both(reserves, reasons), topology), test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		node := Slots("a", 1, Cores(4))
		s.match(t, 1, node)
		s.match(t, 2, node, minutes(10))
		s.match(t, 3, node, minutes(10))
		rack := Together(Slots("a", 2, Cores(4)), inOneRack)
		s.reserves(t, 4, rack, "10-", "0@n3 1@n4")
		s.release(t, 2)
		s.release(t, 3)
		r := s.refuses(t, 5, rack, match.ErrBusy)
		same(t, "what is promised", r.Promised, &match.Promised{Job: 4, MoreSlots: 1, From: in(10)})
		if r.Found != 1 || r.Vertex != "r1" {
			t.Errorf("found are %d in %s, want 1 in r1", r.Found, r.Vertex)
		}
		s.places(t, 5, rack, "0@n3 1@n4", minutes(10))
	}},
	"a reservation is made over an ignored one": {needs: both(reserves, ignores), test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		s.match(t, 1, two(), minutes(10))
		s.reserves(t, 2, two(), "10-20", "0@n1", minutes(10))
		s.reserves(t, 3, two(), "20-25", "0@n1", minutes(5))
		s.reserves(t, 3, two(), "10-15", "0@n1", minutes(5), without(2))
		s.holding(t, "1: 0@n1; 2: 0@n1; 3: 0@n1")
		// Who is asked for again goes behind what was reserved in between.
		s.reserves(t, 2, two(), "15-25", "0@n1", minutes(10))
		s.release(t, 2)
		s.reserves(t, 4, two(), "15-", "0@n1")
	}},
	"a request that ignores what holds something leaves its own reservation": {needs: both(reserves, ignores), test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		s.match(t, 1, two(), minutes(10))
		s.reserves(t, 2, two(), "10-20", "0@n1", minutes(10))
		for _, op := range []option{orElse(), as(match.Allocate)} {
			s.fails(t, 2, two(), match.ErrInvalid, op, at(in(1)), without(1))
			s.fails(t, 2, two(), match.ErrInvalid, op, at(in(1)), without(2))
		}
		s.promising(t, "2: 10-20 0@n1")
	}},
	"what others are about to take is no end to wait for": {needs: both(reserves, expects), test: func(t *testing.T, s *subject) {
		s.load(t, pair()...)
		s.match(t, 1, two(), minutes(10))
		s.match(t, 2, two(), minutes(20))
		x := expecting(Held("x", "n1", Cores(1)))
		s.reserves(t, 3, two(), "20-", "0@n2", x)
	}},
	"whole nodes are reserved whole": {needs: both(reserves, wholeNodes), test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		s.match(t, 1, one(), minutes(10))
		s.reserves(t, 2, one(), "10-20", "0@n1", wanting("x"), minutes(10))
		s.gives(t, 3, one(), "0@n1", minutes(10))
		s.refuses(t, 4, one(), match.ErrBusy, minutes(11))
		s.gives(t, 4, one(), "0@n1", minutes(11), forHolder("x"))
		s.release(t, 4)
		s.reserves(t, 5, Slots("a", 1, Cores(4)), "20-30", "0@n1", minutes(10))
		s.reserves(t, 6, one(), "30-", "0@n1", wanting("y"))
	}},
	"a reservation is told of by an update": {needs: both(reserves, updates), test: func(t *testing.T, s *subject) {
		s.load(t, pair()...)
		tell := func(j match.Job) error { return s.Update(t.Context(), s.epoch, j) }
		j := match.Job{ID: 1, Reserved: true, Start: in(10), End: in(20), Slots: []match.Slot{Held("x", "n1", Cores(2))}}
		if err := tell(j); err != nil {
			t.Fatalf("Update() = %v", err)
		}
		s.promising(t, "1: 10-20 x@n1")
		s.places(t, 2, two(), "0@n2")
		s.places(t, 3, two(), "0@n1", minutes(10))
		j.Start, j.End, j.Slots[0].Key = in(12), time.Time{}, "y"
		if err := tell(j); err != nil {
			t.Fatalf("Update() = %v", err)
		}
		s.promising(t, "1: 12- x@n1 y@n1")
		s.update(t, 1, Held("x", "n1", Cores(1)))
		s.promising(t, "")
		s.holding(t, "1: x@n1; 2: 0@n2; 3: 0@n1")
	}},
	"a reservation without sense is invalid": {needs: both(reserves, updates), test: func(t *testing.T, s *subject) {
		s.load(t, pair()...)
		s.match(t, 9, two())
		slots := []match.Slot{Held("x", "n1", Cores(1))}
		for name, jobs := range map[string][]match.Job{
			"from no time on":            {{ID: 1, Reserved: true, Slots: slots}},
			"that ends as it begins":     {{ID: 1, Reserved: true, Start: in(1), End: in(1), Slots: slots}},
			"of a job that holds":        {{ID: 9, Reserved: true, Start: in(1), Slots: slots}},
			"of a job that comes to":     {{ID: 1, Reserved: true, Start: in(1), Slots: slots}, {ID: 1, Slots: slots}},
			"behind one that is correct": {{ID: 2, Reserved: true, Start: in(1), Slots: slots}, {ID: 1, Reserved: true, Slots: slots}},
		} {
			if err := s.Update(t.Context(), s.epoch, jobs...); !errors.Is(err, match.ErrInvalid) {
				t.Errorf("%s: Update() = %v, want %v", name, err, match.ErrInvalid)
			}
		}
		s.holding(t, "9: 0@n1")
	}},
	"an update gives an allocation an end": {needs: both(reserves, updates), test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		a := s.match(t, 1, two())
		s.refuses(t, 2, two(), match.ErrBusy, orElse())
		if err := s.Update(t.Context(), s.epoch, match.Job{ID: 1, Slots: a.Slots, End: in(10)}); err != nil {
			t.Fatalf("Update() = %v", err)
		}
		s.reserves(t, 2, two(), "10-", "0@n1")
		if jobs := s.jobs(t); len(jobs) != 2 || !jobs[0].End.Equal(in(10)) || !jobs[0].Slots[0].R.Expiration.Equal(in(10)) {
			t.Errorf("Jobs() = %+v, want job 1 to end at %s", jobs, in(10))
		}
		if err := s.Update(t.Context(), s.epoch, match.Job{ID: 1, End: in(20)}); err != nil {
			t.Fatalf("Update() = %v", err)
		}
		s.reserves(t, 2, two(), "20-", "0@n1", at(in(2)))
	}},
	"an update of a slot changes its end alone": {needs: both(reserves, updates), test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		a := s.match(t, 1, two(), minutes(5))
		until := func(end time.Time) match.Slot {
			slot, r := a.Slots[0], *a.Slots[0].R
			r.Expiration = end
			slot.R = &r
			return slot
		}
		s.reserves(t, 2, two(), "5-", "0@n1")
		s.update(t, 1, until(in(10)))
		s.reserves(t, 2, two(), "10-", "0@n1", at(in(1)))
		s.update(t, 1, until(in(3)))
		s.reserves(t, 2, two(), "3-", "0@n1", at(in(2)))
		s.update(t, 1, until(time.Time{}))
		s.refuses(t, 2, two(), match.ErrBusy, orElse(), at(in(2)))
	}},
	"a reservation of a node that goes is claimed elsewhere": reserving(func(t *testing.T, s *subject) {
		s.load(t, pair()...)
		s.match(t, 1, two(), minutes(10))
		s.match(t, 2, two(), minutes(20))
		s.reserves(t, 3, two(), "10-", "0@n1")
		s.remove(t, "n1")
		s.promising(t, "3: 10- 0@n1")
		s.reserves(t, 3, two(), "20-", "0@n2")
		s.put(t, Node("n1", nil, Cores(2)))
		s.refuses(t, 4, two(), match.ErrBusy)
	}),
}
