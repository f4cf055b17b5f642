package matchtest

import (
	"errors"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

var refusalRules = map[string]rule{
	"what does not fit now but could is busy": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)), Node("n2", nil, Cores(2)))
		s.match(t, 1, Slots("a", 1, Cores(3)))
		r := s.refuses(t, 2, Slots("b", 3, Cores(2)), match.ErrBusy)
		if s.can.Reasons {
			r.Blocker = nil
			same(t, "the reason", r, match.Reason{
				Code: match.TooFew, Slot: "b", Level: "cluster", Wanted: 3, Found: 1, Nodes: 2,
				Shortages:    []match.Shortage{{Type: "core", Unit: "m", Wanted: 2000, MaxOnNode: 1000, Nodes: 1}},
				WaitingHelps: true,
			})
		}
	}},
	"what no node could hold can never be satisfied": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2), Memory(1)), Node("n2", nil, Cores(1), Memory(4)))
		s.match(t, 1, Slots("a", 1, Cores(1)))
		r := s.refuses(t, 2, Slots("b", 1, Memory(2), Cores(2)), match.ErrUnsatisfiable)
		if s.can.Reasons {
			same(t, "the reason", r, match.Reason{
				Code: match.TooLarge, Slot: "b", Level: "node", Wanted: 1, Nodes: 2,
				Shortages: []match.Shortage{
					{Type: "core", Unit: "m", Wanted: 2000, MaxOnNode: 1000, Nodes: 1},
					{Type: "memory", Unit: "B", Wanted: 2 * GiB, MaxOnNode: GiB, Nodes: 1},
				},
			})
		}
	}},
	"what all nodes together could not hold can never be satisfied": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)), Node("n2", nil, Cores(4)), Node("n3", nil, Cores(1)))
		r := s.refuses(t, 2, Slots("b", 5, Cores(2)), match.ErrUnsatisfiable)
		if s.can.Reasons {
			same(t, "the reason", r, match.Reason{
				Code: match.TooFew, Slot: "b", Level: "cluster", Wanted: 5, Found: 4, Nodes: 3,
				Shortages: []match.Shortage{{Type: "core", Unit: "m", Wanted: 2000, MaxOnNode: 1000, Nodes: 1}},
			})
		}
	}},
	"nothing can be satisfied by an empty graph": {test: func(t *testing.T, s *subject) {
		s.load(t)
		r := s.refuses(t, 2, Slots("b", 2, Cores(2)), match.ErrUnsatisfiable)
		if s.can.Reasons {
			same(t, "the reason", r, match.Reason{Code: match.NoNode, Slot: "b", Level: "node", Wanted: 2})
		}
	}},
	"nodes that are down keep new slots away, but may come back": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)), Node("n2", nil, Cores(1)))
		s.setStatus(t, "n1", resource.Down)
		r := s.refuses(t, 2, Slots("b", 1, Cores(2)), match.ErrBusy)
		if s.can.Reasons {
			same(t, "the reason", r, match.Reason{
				Code: match.TooLarge, Slot: "b", Level: "node", Wanted: 1, Nodes: 2, Down: 1,
				Shortages: []match.Shortage{{Type: "core", Unit: "m", Wanted: 2000, MaxOnNode: 1000, Nodes: 1}},
			})
		}
		s.setStatus(t, "n2", resource.Down)
		r = s.refuses(t, 2, Slots("b", 1, Cores(1)), match.ErrBusy)
		if s.can.Reasons {
			same(t, "the reason", r, match.Reason{Code: match.NoNode, Slot: "b", Level: "node", Wanted: 1, Nodes: 2, Down: 2})
		}
		s.refuses(t, 2, Slots("b", 1, Cores(3)), match.ErrUnsatisfiable)
		s.setStatus(t, "n1", resource.Up)
		s.places(t, 2, Slots("b", 1, Cores(2)), "0@n1")
	}},
	"a pool that no node has counts as nothing": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		r := s.refuses(t, 1, Slots("a", 1, Cores(1), GPUs(1)), match.ErrUnsatisfiable)
		if s.can.Reasons {
			same(t, "the reason", r, match.Reason{
				Code: match.TooLarge, Slot: "a", Level: "node", Wanted: 1, Nodes: 1,
				Shortages: []match.Shortage{{Type: "nvidia.com/gpu", Wanted: 1, MaxOnNode: 0, Nodes: 1}},
			})
		}
	}},
	"shortages are listed by type, and only where a node runs short": {needs: reasons, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4), Memory(4), Pods(2)), Node("n2", nil, Cores(4), Memory(4), Pods(2)))
		s.match(t, 1, Slots("a", 2, Memory(4), Pods(2)))
		r := s.refuses(t, 2, Slots("b", 1, Pods(1), Cores(1), Memory(1)), match.ErrBusy)
		same(t, "the shortages", r.Shortages, []match.Shortage{
			{Type: "memory", Unit: "B", Wanted: GiB, MaxOnNode: 0, Nodes: 2},
			{Type: "pods", Wanted: 1, MaxOnNode: 0, Nodes: 2},
		})
	}},
	"what only fits without what runs on every node can never be satisfied": {needs: updates, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)), Node("n2", nil, Cores(2)))
		daemon := Held("d", "n1", Cores(1))
		s.update(t, 1, daemon, Held("other", "n1", Cores(1)))
		s.refuses(t, 2, Slots("b", 1, Cores(4)), match.ErrBusy)
		s.update(t, 1, Shared(daemon))
		r := s.refuses(t, 2, Slots("b", 1, Cores(4)), match.ErrUnsatisfiable)
		if s.can.Reasons {
			same(t, "the reason", r, match.Reason{
				Code: match.TooLarge, Slot: "b", Level: "node", Wanted: 1, Nodes: 2,
				Shortages: []match.Shortage{{Type: "core", Unit: "m", Wanted: 4000, MaxOnNode: 3000, Nodes: 2}},
			})
		}
		s.refuses(t, 2, Slots("b", 1, Cores(4)), match.ErrUnsatisfiable, as(match.Satisfiability))
		s.refuses(t, 2, Slots("b", 1, Cores(3)), match.ErrBusy)
		s.update(t, 1, daemon)
		s.refuses(t, 2, Slots("b", 1, Cores(4)), match.ErrBusy)
		s.update(t, 1, Shared(daemon))
		s.release(t, 1)
		s.places(t, 2, Slots("b", 1, Cores(4)), "0@n1")
	}},
	"what runs on every node counts for good though its node comes later": {needs: updates, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(1)))
		s.update(t, 1, Shared(Held("d", "n2", Cores(1))))
		s.put(t, Node("n2", nil, Cores(4)))
		s.refuses(t, 2, Slots("b", 1, Cores(4)), match.ErrUnsatisfiable)
		s.put(t, Node("n2", nil, Cores(5)))
		s.places(t, 2, Slots("b", 1, Cores(4)), "0@n2")
	}},
	"a refusal without a topology names a job whose end helps": {needs: both(reasons, updates), test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4), GPUs(1)), Node("n2", nil, Cores(4)), Node("n3", nil, Cores(4)), Node("n4", nil, Cores(2)))
		s.update(t, 1, Held("a", "n1", Cores(3)), Held("b", "n4", Cores(2)))
		s.update(t, 2, Held("a", "n2", Cores(4)), Held("b", "n3", Cores(4)))
		r := s.refuses(t, 4, Slots("b", 4, Cores(2)), match.ErrBusy)
		same(t, "the end", r.Blocker, &match.Blocker{Job: 2, MoreSlots: 4})
		r = s.refuses(t, 4, Slots("b", 3, Cores(3)), match.ErrBusy)
		same(t, "the end", r.Blocker, &match.Blocker{Job: 2, MoreSlots: 2})
		// Only job 1 is where the slots could go.
		r = s.refuses(t, 4, Slots("b", 1, Cores(2), GPUs(1)), match.ErrBusy)
		same(t, "the end", r.Blocker, &match.Blocker{Job: 1, MoreSlots: 1})
		// The search for the blocker has changed nothing.
		s.places(t, 4, Slots("b", 1, Cores(1)), "0@n1")
	}},
	"a refusal names no job if no single end helps": {needs: both(reasons, updates), test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		s.update(t, 1, Held("a", "n1", Cores(2)))
		s.update(t, 2, Held("a", "n1", Cores(2)))
		r := s.refuses(t, 3, Slots("b", 1, Cores(3)), match.ErrBusy)
		same(t, "the end", r.Blocker, (*match.Blocker)(nil))
	}},
	"waiting does not help where the room is on nodes that are down": {needs: reasons, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)), Node("n2", nil, Cores(2)))
		s.setStatus(t, "n2", resource.Down)
		s.match(t, 1, Slots("a", 1, Cores(2)))
		if r := s.refuses(t, 2, Slots("b", 1, Cores(2)), match.ErrBusy); !r.WaitingHelps {
			t.Errorf("the reason %+v says that waiting for job 1 does not help", r)
		}
		if r := s.refuses(t, 2, Slots("b", 2, Cores(2)), match.ErrBusy); r.WaitingHelps {
			t.Errorf("the reason %+v says that waiting helps, with one of two nodes down", r)
		}
	}},
	"a terse refusal has the verdict and the code, and no numbers that take a search": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)), Node("n2", nil, Cores(4)), Node("n3", nil, Cores(2)))
		first := s.match(t, 1, Slots("a", 2, Cores(3)), lasting(time.Minute), terse)
		same(t, "the repeat", s.match(t, 1, Slots("a", 2, Cores(3)), lasting(time.Minute)), first)
		compare := func(verdict error, js *jobspec.Jobspec, how ...option) {
			t.Helper()
			want := s.refuses(t, 2, js, verdict, how...)
			got := s.refuses(t, 2, js, verdict, append(how, terse)...)
			if !s.can.Reasons {
				return
			}
			if len(want.Shortages) == 0 {
				t.Errorf("the reason %+v has no shortages to leave out", want)
			}
			want = want.Terse()
			want.WaitingHelps = errors.Is(verdict, match.ErrBusy)
			same(t, "the terse reason", got, want)
		}
		compare(match.ErrBusy, Slots("a", 2, Cores(3)))
		compare(match.ErrBusy, Slots("a", 2, Cores(2)))
		compare(match.ErrBusy, Slots("a", 2, Cores(2)), as(match.WithoutAllocating))
		compare(match.ErrUnsatisfiable, Slots("a", 3, Cores(3)))
		compare(match.ErrUnsatisfiable, Slots("a", 1, Cores(5)))
		compare(match.ErrUnsatisfiable, Slots("a", 1, Cores(5)), as(match.Satisfiability))
		if s.can.Reserve {
			s.match(t, 3, Slots("a", 1, Cores(4)), as(match.AllocateOrElseReserve))
			s.release(t, 1)
			if r := s.refuses(t, 2, Slots("a", 2, Cores(4)), match.ErrBusy); s.can.Reasons && r.Promised == nil {
				t.Errorf("the reason %+v says nothing of what is promised", r)
			}
			compare(match.ErrBusy, Slots("a", 2, Cores(4)))
		}
		s.setStatus(t, "n1", resource.Down)
		compare(match.ErrBusy, Slots("a", 2, Cores(3)))
	}},
	"a refusal is no other error": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		_, err := s.try(t.Context(), 1, Slots("a", 2, Cores(2)))
		for _, other := range []error{match.ErrBusy, match.ErrConflict, match.ErrInvalid, match.ErrStale, match.ErrUnavailable} {
			if errors.Is(err, other) {
				t.Errorf("Match() = %v, which is %q too", err, other)
			}
		}
	}},
}
