package matchtest

import (
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
)

var updateRules = map[string]rule{
	"what the cluster holds is not given out": {needs: updates, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4), Pods(2)), Node("n2", nil, Cores(4), Pods(9)))
		s.update(t, 1, Held("a", "n1", Cores(1), Pods(1)))
		s.holding(t, "1: a@n1")
		s.places(t, 2, Slots("a", 3, Cores(1), Pods(1)), "0@n1 1@n2 2@n2")
		s.release(t, 1)
		s.places(t, 3, Slots("a", 1, Cores(3), Pods(1)), "0@n1")
	}},
	"what is held is listed as it was given": {needs: updates, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		s.update(t, 1, Held("b", "n1", Cores(1), Pods(1)), Held("a", "n9", Memory(2)))
		jobs := s.jobs(t)
		if len(jobs) != 1 || standing(jobs[0].Slots) != "a@n9 b@n1" {
			t.Fatalf("held is %q", s.held(t))
		}
		same(t, "what slot a holds", Amounts(jobs[0].Slots[0].R), map[string]int64{"memory": 2 * GiB})
		same(t, "what slot b holds", Amounts(jobs[0].Slots[1].R), map[string]int64{"core": 1000, "pods": 1})
	}},
	"a slot replaces the job's slot of that key": {needs: updates, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)), Node("n2", nil, Cores(4)))
		s.update(t, 1, Held("a", "n1", Cores(3)), Held("b", "n1", Cores(1)))
		s.update(t, 1, Held("a", "n2", Cores(2)))
		s.holding(t, "1: a@n2 b@n1")
		s.places(t, 2, Slots("a", 5, Cores(1)), "0@n1 1@n1 2@n1 3@n2 4@n2")
	}},
	"the same key in two jobs is two slots": {needs: updates, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		s.update(t, 1, Held("a", "n1", Cores(1)))
		s.update(t, 2, Held("a", "n1", Cores(1)))
		s.holding(t, "1: a@n1; 2: a@n1")
	}},
	"there need be no room for it": {needs: updates, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)), Node("n2", nil, Cores(2)))
		s.match(t, 1, Slots("a", 1, Cores(2)))
		s.update(t, 2, Held("b", "n1", Cores(64)))
		s.holding(t, "1: 0@n1; 2: b@n1")
		s.places(t, 3, Slots("a", 1, Cores(1)), "0@n2")
		s.release(t, 1)
		s.refuses(t, 4, Slots("a", 1, Cores(2)), match.ErrBusy)
		s.release(t, 2)
		s.places(t, 4, Slots("a", 1, Cores(2)), "0@n1")
	}},
	"a node that is not there yet is charged once it is put": {needs: updates, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		s.update(t, 1, Held("a", "n2", Cores(3)))
		s.put(t, Node("n2", nil, Cores(4)))
		s.places(t, 2, Slots("a", 3, Cores(1)), "0@n1 1@n1 2@n2")
		s.refuses(t, 3, Slots("a", 1, Cores(1)), match.ErrBusy)
	}},
	"a pool that is not there yet is charged once it is put": {needs: updates, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		s.update(t, 1, Held("a", "n1", Cores(1), GPUs(3)))
		s.put(t, Node("n1", nil, Cores(2), GPUs(4)))
		s.places(t, 2, Slots("a", 1, Cores(1), GPUs(1)), "0@n1")
		s.refuses(t, 3, Slots("a", 1, GPUs(1)), match.ErrBusy)
		s.release(t, 1)
		s.places(t, 3, Slots("a", 1, GPUs(3)), "0@n1")
	}},
	"what the cluster says of a slot given out here counts": {needs: updates, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)), Node("n2", nil, Cores(4)))
		s.match(t, 1, Slots("a", 1, Cores(2)))
		s.update(t, 1, Held("0", "n1", Cores(3)))
		s.places(t, 2, Slots("a", 2, Cores(1)), "0@n1 1@n2")
		s.update(t, 1, Held("0", "n2", Cores(3)))
		s.places(t, 3, Slots("a", 1, Cores(3)), "0@n1")
		s.refuses(t, 4, Slots("a", 1, Cores(1)), match.ErrBusy)
	}},
	"an update by the vertices that a match gave out books just them": {needs: updates, test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		a := s.match(t, 1, Slots("a", 1, Cores(3), Memory(1)))
		s.release(t, 1)
		s.update(t, 1, a.Slots[0])
		s.holding(t, "1: 0@n1")
		s.places(t, 2, Slots("a", 2, Cores(1)), "0@n1 1@n2")
	}},
	"several jobs are booked in one call": {needs: updates, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		err := s.Update(t.Context(), s.epoch,
			match.Job{ID: 2, Slots: []match.Slot{Held("a", "n1", Cores(1))}},
			match.Job{ID: 1, Slots: []match.Slot{Held("a", "n1", Cores(1)), Held("b", "n1", Cores(1))}},
		)
		if err != nil {
			t.Fatalf("Update() = %v", err)
		}
		s.holding(t, "1: a@n1 b@n1; 2: a@n1")
		s.places(t, 3, Slots("a", 1, Cores(1)), "0@n1")
	}},
	"a job without slots is not kept": {needs: updates, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		s.update(t, 1)
		s.holding(t, "")
		s.places(t, 1, Slots("a", 1, Cores(1)), "0@n1")
	}},
}
