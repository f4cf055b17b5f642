package matchtest

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// exclusives lists the paths of the vertices that a set holds exclusively, sorted.
func exclusives(r *resource.Set) []string {
	var paths []string
	for _, s := range r.Vertices {
		if s.Exclusively {
			paths = append(paths, s.Path)
		}
	}
	slices.Sort(paths)
	return paths
}

var graphMatchRules = map[string]graphRule{
	"slots are told by key, label and node": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(2))
		a := s.stands(t, 7, Slots("task", 3, whole("core", 2)), "x@node0 y@node0 z@node1", keys("x", "y", "z"), lasting(time.Hour))
		for _, slot := range a.Slots {
			if slot.Label != "task" {
				t.Errorf("slot %s has the label %q, want task", slot.Key, slot.Label)
			}
			same(t, "what slot "+slot.Key+" holds", len(leaves(pathsOf(slot.R), "core")), 2)
		}
		if a.ID != 7 || a.Reserved || !a.Start.Equal(Now) || !a.End.Equal(Now.Add(time.Hour)) {
			t.Errorf("job %d, reserved %v, from %s to %s; want job 7 for an hour from %s", a.ID, a.Reserved, a.Start, a.End, Now)
		}
		s.holding(t, "7: x@node0 y@node0 z@node1")
	},
	"the whole is what its slots are, each vertex after what it contains": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(2))
		a := s.give(t, 1, Slots("a", 3, whole("core", 2), whole("memory", 1)))
		var of []string
		for _, slot := range a.Slots {
			of = append(of, exclusives(slot.R)...)
		}
		slices.Sort(of)
		same(t, "what the slots hold", of, exclusives(a.R))
		paths := pathsOf(a.R)
		for i, p := range paths {
			for _, later := range paths[i+1:] {
				if strings.HasPrefix(later, p+"/") {
					t.Errorf("%s comes before %s, which it contains", p, later)
				}
			}
		}
		if last := paths[len(paths)-1]; last != "/"+Cluster {
			t.Errorf("the last vertex is %s, want the root", last)
		}
	},
	"a vertex is given out whole": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		a := s.give(t, 1, Slots("a", 2, whole("memory", 3)))
		same(t, "what two times 3 GB are given", Amounts(a.R, "rack"), map[string]int64{"memory": 32})
		s.refuse(t, 2, Slots("a", 1, whole("memory", 1)), match.ErrBusy)
		s.give(t, 3, Slots("a", 2, whole("core", 4)))
	},
	"no two jobs hold one vertex": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(2))
		var wg sync.WaitGroup
		var mu sync.Mutex
		holders := map[string]match.JobID{}
		for id := match.JobID(1); id <= 40; id++ {
			wg.Go(func() {
				a, err := s.try(t.Context(), id, Slots("a", 1, whole("core", 1)))
				mu.Lock()
				defer mu.Unlock()
				if errors.Is(err, match.ErrBusy) {
					return
				}
				if err != nil {
					t.Errorf("Match(%d) = %v", id, err)
					return
				}
				for _, path := range exclusives(a.R) {
					if other, taken := holders[path]; taken {
						t.Errorf("jobs %d and %d both hold %s", other, id, path)
					}
					holders[path] = id
				}
			})
		}
		wg.Wait()
		if len(holders) != 16 {
			t.Errorf("%d cores were given out, want all 16", len(holders))
		}
	},
	"what fits later is busy, and what never fits is not": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		s.give(t, 1, Slots("a", 1, whole("core", 2)))
		check := s.unchanged(t)
		s.refuse(t, 2, Slots("a", 2, whole("core", 4)), match.ErrBusy)
		for _, op := range []match.Op{match.Allocate, match.Satisfiability, match.WithoutAllocating} {
			s.refuse(t, 2, Slots("a", 3, whole("core", 4)), match.ErrUnsatisfiable, as(op))
			s.refuse(t, 2, Slots("a", 1, whole("core", 5)), match.ErrUnsatisfiable, as(op))
		}
		check()
	},
	"satisfiability counts as if nobody held anything and all were up": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		s.give(t, 1, Slots("a", 2, whole("core", 4)))
		s.setStatus(t, "/cluster0/rack0/node1", resource.Down)
		check := s.unchanged(t)
		if _, err := s.try(t.Context(), 2, Slots("a", 2, whole("core", 4)), as(match.Satisfiability)); err != nil {
			t.Errorf("Match() = %v, want it to be satisfiable", err)
		}
		check()
	},
	"without allocating books nothing": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		s.give(t, 1, Slots("a", 1, whole("core", 4)))
		check := s.unchanged(t)
		a := s.stands(t, 2, Slots("a", 1, whole("core", 3)), "x@node1", keys("x"), as(match.WithoutAllocating))
		s.refuse(t, 2, Slots("a", 2, whole("core", 3)), match.ErrBusy, as(match.WithoutAllocating))
		check()
		b := s.stands(t, 2, Slots("a", 1, whole("core", 3)), "x@node1", keys("x"))
		same(t, "what is given out", exclusives(b.R), exclusives(a.R))
	},
	"ignored jobs count as if they held nothing, and hold on": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		s.give(t, 1, Slots("a", 1, whole("core", 4)))
		s.give(t, 2, Slots("a", 1, whole("core", 4)))
		check := s.unchanged(t)
		s.stands(t, 3, Slots("a", 1, whole("core", 4)), "0@node1", as(match.WithoutAllocating), without(2, 2, 77))
		s.refuse(t, 3, Slots("a", 2, whole("core", 4)), match.ErrBusy, as(match.WithoutAllocating), without(2))
		s.stands(t, 3, Slots("a", 2, whole("core", 4)), "0@node0 1@node1", as(match.WithoutAllocating), without(1, 2))
		s.fails(t, 3, Slots("a", 1, whole("core", 4)), match.ErrInvalid, without(1))
		check()
	},
	"what is expected counts as held for one request alone": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		a := s.give(t, 1, Slots("a", 1, whole("core", 4)))
		s.release(t, 1)
		check := s.unchanged(t)
		expects := func(r *match.Request) { r.Expected = a.Slots }
		s.stands(t, 2, Slots("a", 1, whole("core", 4)), "0@node1", expects, as(match.WithoutAllocating))
		s.refuse(t, 2, Slots("a", 2, whole("core", 4)), match.ErrBusy, expects)
		if _, err := s.try(t.Context(), 2, Slots("a", 2, whole("core", 4)), expects, as(match.Satisfiability)); err != nil {
			t.Errorf("Match() = %v, want it to be satisfiable", err)
		}
		check()
		s.stands(t, 2, Slots("a", 1, whole("core", 4)), "0@node0")
	},
	"every policy is taken, also one that is spelled out": func(t *testing.T, s *graphSubject) {
		for _, policy := range append(match.GraphPolicies(), "policy=high", "policy=low node_centric=true node_exclusive=false") {
			s.loadGraph(t, machine(1))
			if _, err := s.try(t.Context(), 1, Slots("a", 1, whole("core", 2)), underPolicy(policy)); err != nil {
				t.Errorf("under policy %q Match() = %v", policy, err)
			}
		}
	},
	"a policy spelled out is the one of that name": func(t *testing.T, s *graphSubject) {
		for named, spelled := range map[string]string{
			match.PolicyLow:     "policy=low",
			match.PolicyHigh:    "policy=high",
			match.PolicyLonode:  "policy=low node_centric=true",
			match.PolicyHinode:  "policy=high node_centric=true",
			match.PolicyHinodex: "policy=high node_centric=true node_exclusive=true",
		} {
			var given [][]string
			for _, policy := range []string{named, spelled} {
				s.loadGraph(t, machine(2))
				given = append(given, pathsOf(s.match(t, 1, Slots("a", 3, whole("core", 2)), underPolicy(policy)).R))
			}
			same(t, "what "+spelled+" gives", given[1], given[0])
		}
	},
	"units are not displaced": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		s.give(t, 1, Slots("a", 1, whole("core", 2)), keys("x"))
		s.fails(t, 2, Slots("a", 1, whole("core", 2)), match.ErrInvalid, displacing(unit(0, slotsOf(1, "x"))))
	},
	"whole nodes are given out whole": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		a := s.match(t, 1, Slots("a", 1, whole("core", 1)), underPolicy(match.PolicyHinodex))
		same(t, "the cores", leaves(pathsOf(a.R), "core"), cores(1, 0, 1, 2, 3))
		s.refuse(t, 2, Slots("a", 5, whole("core", 1)), match.ErrBusy)
	},
}

func pathsOf(r *resource.Set) []string {
	paths := make([]string, len(r.Vertices))
	for i := range r.Vertices {
		paths[i] = r.Vertices[i].Path
	}
	return paths
}
