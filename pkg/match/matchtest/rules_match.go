package matchtest

import (
	"strings"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// inRacks returns two racks of two nodes.
func inRacks() []*resource.Graph {
	pools := []Pool{Cores(4), Memory(8), Pods(10)}
	return []*resource.Graph{
		Node("n1", [][2]string{{"zone", "z"}, {"rack", "r1"}}, pools...),
		Node("n2", [][2]string{{"zone", "z"}, {"rack", "r1"}}, pools...),
		Node("n3", [][2]string{{"zone", "z"}, {"rack", "r2"}}, pools...),
		Node("n4", [][2]string{{"zone", "z"}, {"rack", "r2"}}, pools...),
	}
}

var matchRules = map[string]rule{
	"a slot holds on one node what it asked for": {test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		a := s.places(t, 1, Slots("worker", 3, Cores(2), Memory(3), Pods(1)), "a@n1 b@n1 c@n2", keys("a", "b", "c"))
		if a.ID != 1 || a.Reserved {
			t.Errorf("job %d, reserved %v, want job 1, not reserved", a.ID, a.Reserved)
		}
		for _, slot := range a.Slots {
			if slot.Label != "worker" {
				t.Errorf("slot %s has the label %q", slot.Key, slot.Label)
			}
			same(t, "what slot "+slot.Key+" holds", Amounts(slot.R), map[string]int64{"core": 2000, "memory": 3 * GiB, "pods": 1})
			for _, v := range slot.R.Vertices {
				onNode := "/" + Cluster + "/z/r1/" + slot.Node
				if p := v.Path; p != onNode && !strings.HasPrefix(p, onNode+"/") {
					t.Errorf("slot %s on %s holds %s", slot.Key, slot.Node, p)
				}
			}
		}
	}},
	"the whole is what the slots hold, each vertex once and after what it contains": {test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		a := s.match(t, 1, Slots("worker", 5, Cores(2), Pods(1)))
		same(t, "the whole", Amounts(a.R, "zone", "rack"), map[string]int64{"core": 10000, "pods": 5})
		emitted(t, a.R, Cluster, "z", "r1", "r2", "n1", "n2", "n3", "core0", "core0", "core0", "pods0", "pods0", "pods0")
	}},
	"the vertices of a slot come after what they contain": {test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		a := s.match(t, 1, Slots("worker", 1, Cores(1), Memory(1)))
		emitted(t, a.Slots[0].R, "n1", "core0", "memory0")
	}},
	"without a duration the end is not known": {test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		a := s.match(t, 1, Slots("worker", 1, Cores(1)))
		if !a.Start.Equal(Now) || !a.End.IsZero() {
			t.Errorf("the allocation lasts from %s to %s, want from %s on", a.Start, a.End, Now)
		}
		for _, r := range []*resource.Set{a.R, a.Slots[0].R} {
			if !r.Start.Equal(Now) || !r.Expiration.IsZero() {
				t.Errorf("R lasts from %s to %s, want from %s on", r.Start, r.Expiration, Now)
			}
		}
	}},
	"a duration counts from now": {test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		a := s.match(t, 1, Slots("worker", 1, Cores(1)), lasting(time.Hour))
		end := Now.Add(time.Hour)
		if !a.Start.Equal(Now) || !a.End.Equal(end) {
			t.Errorf("the allocation lasts from %s to %s, want from %s to %s", a.Start, a.End, Now, end)
		}
		for _, r := range []*resource.Set{a.R, a.Slots[0].R} {
			if !r.Start.Equal(Now) || !r.Expiration.Equal(end) {
				t.Errorf("R lasts from %s to %s, want from %s to %s", r.Start, r.Expiration, Now, end)
			}
		}
	}},
	"a job past its end holds until it is released": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(1)))
		s.match(t, 1, Slots("worker", 1, Cores(1)), lasting(time.Minute))
		s.refuses(t, 2, Slots("worker", 1, Cores(1)), match.ErrBusy, at(Now.Add(time.Hour)))
		s.holding(t, "1: 0@n1")
	}},
	"without keys slots are numbered from 0": {test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		s.places(t, 1, Slots("worker", 3, Cores(2)), "0@n1 1@n1 2@n2")
	}},
	"what is held is not given out again": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4), GPUs(2)), Node("n2", nil, Cores(4)))
		s.places(t, 1, Slots("a", 1, Cores(1), GPUs(1)), "0@n1")
		s.places(t, 2, Slots("a", 1, Cores(1), GPUs(1)), "0@n1")
		s.refuses(t, 3, Slots("a", 1, Cores(1), GPUs(1)), match.ErrBusy)
		s.places(t, 4, Slots("a", 3, Cores(2)), "0@n1 1@n2 2@n2")
		s.refuses(t, 5, Slots("a", 1, Cores(1)), match.ErrBusy)
	}},
	"all slots are given out or none": {test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		s.match(t, 1, Slots("a", 1, Cores(4)))
		s.refuses(t, 2, Slots("a", 4, Cores(4)), match.ErrBusy)
		s.holding(t, "1: 0@n1")
		s.places(t, 3, Slots("a", 3, Cores(4)), "0@n2 1@n3 2@n4")
	}},
	"what is held is listed by job and key": {test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		s.match(t, 20, Slots("a", 2, Cores(4), Memory(1)), keys("b", "a"))
		s.match(t, 3, Slots("b", 1, Cores(1)), keys("z"))
		s.holding(t, "3: z@n3; 20: a@n2 b@n1")
		jobs := s.jobs(t)
		same(t, "what slot a holds", Amounts(jobs[1].Slots[0].R), map[string]int64{"core": 4000, "memory": GiB})
	}},
}

// emitted checks that a set has the vertices with these names, each once, and each after those
// below it.
func emitted(t *testing.T, r *resource.Set, want ...string) {
	t.Helper()
	names := make(map[string]int)
	for _, n := range want {
		names[n]++
	}
	got := make(map[string]int)
	seen := make(map[string]bool)
	for _, v := range r.Vertices {
		got[v.Name]++
		path := v.Path
		if seen[path] {
			t.Errorf("%s is there twice", path)
		}
		for p := range seen {
			if strings.HasPrefix(path, p+"/") {
				t.Errorf("%s comes after %s, which contains it", path, p)
			}
		}
		seen[path] = true
	}
	same(t, "the vertices by name", got, names)
}
