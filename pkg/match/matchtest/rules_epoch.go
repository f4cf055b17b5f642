package matchtest

import (
	"context"
	"errors"
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

var epochRules = map[string]rule{
	"an engine that was never reset answers stale to all but reset": {test: func(t *testing.T, s *subject) {
		for _, s.epoch = range []match.Epoch{0, 7} {
			for name, err := range s.callAll(t.Context()) {
				if !errors.Is(err, match.ErrStale) {
					t.Errorf("in epoch %d %s = %v, want the error %q", s.epoch, name, err, match.ErrStale)
				}
			}
		}
	}},
	"each reset begins an epoch that is not 0 and was not before": {test: func(t *testing.T, s *subject) {
		seen := map[match.Epoch]bool{0: true}
		for range 20 {
			s.reset(t)
			if seen[s.epoch] {
				t.Fatalf("Reset() = %d, which is 0 or was before", s.epoch)
			}
			seen[s.epoch] = true
		}
	}},
	"a call of an earlier epoch is stale and changes nothing": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("old", nil, Cores(1)))
		earlier := s.epoch
		s.load(t, Node("n1", nil, Cores(2)), Node("n2", nil, Cores(2)))
		s.match(t, 5, Slots("a", 1, Cores(1)), keys("x"))
		before := s.jobs(t)
		now := s.epoch
		s.epoch = earlier
		for name, err := range s.callAll(t.Context()) {
			if !errors.Is(err, match.ErrStale) {
				t.Errorf("%s = %v, want the error %q", name, err, match.ErrStale)
			}
		}
		s.epoch = now
		same(t, "what is held", s.jobs(t), before)
		s.places(t, 6, Slots("a", 3, Cores(1)), "0@n1 1@n2 2@n2")
	}},
	"reset empties the graph and forgets what is held": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		s.match(t, 1, Slots("a", 1, Cores(2)))
		s.reset(t)
		s.holding(t, "")
		s.ready(t)
		s.refuses(t, 1, Slots("a", 1, Cores(2)), match.ErrUnsatisfiable)
	}},
	"before ready a match is unavailable, whatever its operation": {test: func(t *testing.T, s *subject) {
		s.reset(t)
		s.put(t, Node("n1", nil, Cores(2)))
		for _, op := range []match.Op{match.Allocate, match.Satisfiability, match.WithoutAllocating} {
			s.fails(t, 1, Slots("a", 1, Cores(1)), match.ErrUnavailable, as(op))
			s.fails(t, 1, Slots("a", 1, Cores(9)), match.ErrUnavailable, as(op))
		}
		s.ready(t)
		s.places(t, 1, Slots("a", 1, Cores(1)), "0@n1")
	}},
	"before ready all but match is taken": {needs: updates, test: func(t *testing.T, s *subject) {
		s.reset(t)
		s.put(t, Node("n1", nil, Cores(2)), Node("n2", nil, Cores(2)), Node("n3", nil, Cores(2)))
		s.update(t, 1, Held("a", "n1", Cores(2)))
		s.update(t, 2, Held("a", "n2", Cores(2)))
		s.remove(t, "n3")
		s.setStatus(t, "n2", resource.Down)
		s.release(t, 1)
		s.holding(t, "2: a@n2")
		s.ready(t)
		s.places(t, 3, Slots("a", 2, Cores(1)), "0@n1 1@n1")
		s.refuses(t, 4, Slots("a", 1, Cores(1)), match.ErrBusy)
	}},
	"a context that has ended is its own error and changes nothing": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)), Node("n2", nil, Cores(2)))
		s.match(t, 5, Slots("a", 1, Cores(1)), keys("x"))
		before := s.jobs(t)
		for name, err := range s.callAll(gone(t)) {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s = %v, want the error %q", name, err, context.Canceled)
			}
		}
		if _, err := s.Reset(gone(t)); !errors.Is(err, context.Canceled) {
			t.Errorf("Reset() = %v, want the error %q", err, context.Canceled)
		}
		same(t, "what is held", s.jobs(t), before)
		s.places(t, 6, Slots("a", 3, Cores(1)), "0@n1 1@n2 2@n2")
	}},
}

// callAll calls all methods except Reset, and returns their errors. The arguments would change a
// graph of nodes n1 and n2 in which job 5 holds slot x.
func (s *subject) callAll(ctx context.Context) map[string]error {
	_, errMatch := s.try(ctx, 9, Slots("a", 1, Cores(1)))
	_, errJobs := s.Jobs(ctx, s.epoch)
	_, errNodes := s.Nodes(ctx, s.epoch, "", 1)
	errs := map[string]error{
		"Match":      errMatch,
		"Jobs":       errJobs,
		"Nodes":      errNodes,
		"Release":    s.Release(ctx, s.epoch, 5),
		"PutNode":    s.PutNode(ctx, s.epoch, Node("n1", nil, Cores(8))),
		"SetStatus":  s.SetStatus(ctx, s.epoch, "n1", resource.Down),
		"RemoveNode": s.RemoveNode(ctx, s.epoch, "n2"),
		"Ready":      s.Ready(ctx, s.epoch),
	}
	if s.can.Update {
		errs["Update"] = s.Update(ctx, s.epoch, match.Job{ID: 5, Slots: []match.Slot{Held("y", "n2", Cores(1))}})
	}
	return errs
}
