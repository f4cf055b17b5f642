package matchtest

import (
	"errors"
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
)

// heldWholeRules check that slots booked by an Update count for whole nodes just as matched slots
// do.
var heldWholeRules = map[string]rule{
	"what the cluster holds keeps a node from being whole": {needs: wholeAndUpdates, test: func(t *testing.T, s *subject) {
		s.load(t, three()...)
		s.update(t, 1, Held("a", "n1", Cores(1)))
		s.places(t, 2, one(), "0@n2", wanting("x"))
	}},
	"what runs on every node does not": {needs: wholeAndUpdates, test: func(t *testing.T, s *subject) {
		s.load(t, three()...)
		s.update(t, 1, Shared(Held("a", "n1", Cores(1))), Shared(Held("b", "n2", Cores(3))))
		s.places(t, 2, Slots("a", 2, Cores(3)), "0@n1 1@n3", wanting("x"))
		s.places(t, 3, one(), "0@n2", wanting("y"))
		same(t, "what is held of every node", s.jobs(t)[0].Slots[0].Shared, true)
	}},
	"what runs on every node is charged on a whole one": {needs: wholeAndUpdates, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		s.match(t, 1, Slots("a", 1, Cores(2)), wanting("x"))
		s.update(t, 2, Shared(Held("d", "n1", Cores(1))))
		s.places(t, 3, one(), "0@n1", wanting("x"))
		s.refuses(t, 4, one(), match.ErrBusy, wanting("x"))
		s.release(t, 1)
		s.release(t, 3)
		s.places(t, 4, Slots("a", 3, Cores(1)), "0@n1 1@n1 2@n1", wanting("y"))
	}},
	"the cluster says whose a node is": {needs: wholeAndUpdates, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)), Node("n2", nil, Cores(4)))
		s.update(t, 1, WithHolder(Held("a", "n1", Cores(1)), "x"))
		s.places(t, 2, one(), "0@n2")
		s.places(t, 3, one(), "0@n1", wanting("x"))
		s.refuses(t, 4, one(), match.ErrBusy, wanting("y"))
		if got := s.jobs(t)[0].Slots[0].Holder; got != "x" {
			t.Errorf("the slot is of %q, want x", got)
		}
	}},
	"whose a node is may become known later, and change": {needs: wholeAndUpdates, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		slot := Held("a", "n1", Cores(1))
		s.update(t, 1, slot)
		s.places(t, 2, one(), "0@n1", as(match.WithoutAllocating))
		s.refuses(t, 2, one(), match.ErrBusy, wanting("x"))
		s.update(t, 1, WithHolder(slot, "x"))
		s.refuses(t, 2, one(), match.ErrBusy)
		s.places(t, 2, one(), "0@n1", wanting("x"), as(match.WithoutAllocating))
		s.update(t, 1, WithHolder(slot, "y"))
		s.refuses(t, 2, one(), match.ErrBusy, wanting("x"))
		s.update(t, 1, Shared(slot))
		s.places(t, 2, one(), "0@n1", wanting("x"), as(match.WithoutAllocating))
		s.update(t, 1, slot)
		s.places(t, 2, one(), "0@n1")
	}},
	"a slot that was matched whole stays so while the cluster says it": {needs: wholeAndUpdates, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		first := s.match(t, 1, one(), wanting("x"))
		s.update(t, 1, WithHolder(Held("0", "n1", Cores(1)), "x"))
		same(t, "the repeat", s.match(t, 1, one(), wanting("x")), first)
		s.refuses(t, 2, one(), match.ErrBusy)
		s.update(t, 1, Held("0", "n1", Cores(1)))
		s.places(t, 2, one(), "0@n1")
	}},
	"a slot that moves takes its holder along": {needs: wholeAndUpdates, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)), Node("n2", nil, Cores(4)))
		s.match(t, 1, one(), wanting("x"))
		s.update(t, 1, WithHolder(Held("0", "n2", Cores(2)), "x"))
		s.places(t, 2, Slots("a", 4, Cores(1)), "0@n1 1@n1 2@n1 3@n1")
		s.refuses(t, 3, one(), match.ErrBusy)
	}},
	"an update brings others to a whole node, and goes before it": {needs: wholeAndUpdates, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(8)), Node("n2", nil, Cores(8)))
		s.match(t, 1, one(), wanting("x"))
		s.update(t, 2, WithHolder(Held("a", "n1", Cores(1)), "y"), Held("b", "n1", Cores(1)))
		s.holding(t, "1: 0@n1; 2: a@n1 b@n1")
		// A node with two holders is usable for neither.
		s.places(t, 3, one(), "0@n2", wanting("x"))
		s.refuses(t, 4, one(), match.ErrBusy, forHolder("y"))
		s.release(t, 1)
		// The node belongs to y, and it is in use.
		s.places(t, 4, one(), "0@n1", forHolder("y"))
		s.refuses(t, 5, one(), match.ErrBusy, wanting("y"))
		s.release(t, 2)
		s.places(t, 5, one(), "0@n1")
	}},
	"a node that comes later is whose the cluster said": {needs: wholeAndUpdates, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		s.update(t, 1, WithHolder(Held("a", "n2", Cores(1)), "x"), Held("b", "n3", Cores(1)))
		s.put(t, Node("n2", nil, Cores(4)), Node("n3", nil, Cores(4)))
		s.places(t, 2, one(), "0@n1", wanting("y"))
		s.places(t, 3, one(), "0@n3")
		s.places(t, 4, one(), "0@n2", wanting("x"))
	}},
	"a node that went and came back is whose it was": {needs: wholeNodes, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)), Node("n2", nil, Cores(4)))
		s.match(t, 1, one(), wanting("x"))
		s.remove(t, "n1")
		s.put(t, Node("n1", nil, Cores(4)))
		s.places(t, 2, Slots("a", 4, Cores(1)), "0@n2 1@n2 2@n2 3@n2")
		s.refuses(t, 3, one(), match.ErrBusy)
		s.put(t, Node("n1", [][2]string{{"rack", "r"}}, Cores(6)))
		s.refuses(t, 3, one(), match.ErrBusy)
		s.release(t, 1)
		s.places(t, 3, Slots("a", 6, Cores(1)), "0@n1 1@n1 2@n1 3@n1 4@n1 5@n1")
	}},
	"before ready the cluster says whose nodes are": {needs: wholeAndUpdates, test: func(t *testing.T, s *subject) {
		s.reset(t)
		s.update(t, 1, WithHolder(Held("a", "n2", Cores(1)), "x"))
		s.put(t, Node("n3", nil, Cores(4)), Node("n2", nil, Cores(4)))
		s.update(t, 2, WithHolder(Held("a", "n3", Cores(1)), "y"))
		s.put(t, Node("n1", nil, Cores(1)))
		s.ready(t)
		s.places(t, 3, one(), "0@n1")
		s.places(t, 4, one(), "0@n2", wanting("x"))
		s.places(t, 5, one(), "0@n3", wanting("y"))
	}},
	"a slot with a holder is not shared": {needs: updates, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		bad := match.Job{ID: 1, Slots: []match.Slot{Shared(WithHolder(Held("a", "n1", Cores(1)), "x"))}}
		if err := s.Update(t.Context(), s.epoch, bad); !errors.Is(err, match.ErrInvalid) {
			t.Errorf("Update() = %v, want the error %q", err, match.ErrInvalid)
		}
		s.holding(t, "")
	}},
}
