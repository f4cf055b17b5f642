package matchtest

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

var concurrencyRules = map[string]rule{
	"many at once are never given more than there is": {test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(g)))
				for i := range 50 {
					id := match.JobID(1 + g*1000 + i)
					_, err := s.try(t.Context(), id, Slots("a", 1+random.Int64N(4), Cores(1+random.Int64N(3)), Memory(1)))
					if err != nil && !errors.Is(err, match.ErrBusy) {
						t.Errorf("Match(%d) = %v", id, err)
						return
					}
					s.audit(t)
					if err := s.Release(t.Context(), s.epoch, id); err != nil {
						t.Errorf("Release(%d) = %v", id, err)
					}
				}
			})
		}
		wg.Wait()
		s.holding(t, "")
		s.places(t, 1, Slots("all", 4, Cores(4), Memory(8)), "0@n1 1@n2 2@n3 3@n4")
	}},
	"of many who ask for the last room one gets it": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(1)))
		var (
			wg  sync.WaitGroup
			mu  sync.Mutex
			got int
		)
		for id := match.JobID(1); id <= 16; id++ {
			wg.Go(func() {
				_, err := s.try(t.Context(), id, Slots("a", 1, Cores(1)))
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					got++
				case !errors.Is(err, match.ErrBusy):
					t.Errorf("Match(%d) = %v", id, err)
				}
			})
		}
		wg.Wait()
		if got != 1 {
			t.Errorf("%d jobs got the one core, want 1", got)
		}
	}},
	"the same request from many at once is one allocation": {test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		all := make([]*match.Allocation, 16)
		var wg sync.WaitGroup
		for i := range all {
			wg.Go(func() {
				var err error
				if all[i], err = s.try(t.Context(), 1, Slots("a", 3, Cores(2))); err != nil {
					t.Errorf("Match(1) = %v", err)
				}
			})
		}
		wg.Wait()
		for _, a := range all {
			same(t, "an allocation", a, all[0])
		}
		s.holding(t, "1: 0@n1 1@n1 2@n2")
	}},
	"what the caller does to its arguments afterwards changes nothing": {test: func(t *testing.T, s *subject) {
		s.reset(t)
		g := WithProperties(Node("n1", nil, Cores(4)), "fast", "")
		s.put(t, g)
		for i := range g.Vertices {
			g.Vertices[i].Size, g.Vertices[i].Name, g.Vertices[i].Status = 0, "changed", resource.Down
			g.Vertices[i].Path = "/changed"
			clear(g.Vertices[i].Properties)
		}
		s.ready(t)
		js, names := Slots("a", 2, Cores(1)), []string{"x", "y"}
		first := s.match(t, 1, js, keys(names...))
		emitted(t, first.R, Cluster, "n1", "core0")
		js.Resources[0].With[0].Count.Max, names[0] = 99, "changed"
		same(t, "the second allocation", s.match(t, 1, Slots("a", 2, Cores(1)), keys("x", "y")), first)
		if s.can.Update {
			held := Held("a", "n1", Cores(1))
			s.update(t, 2, held)
			held.R.Vertices[0].Amount, held.R.Vertices[0].Type = 4000, "changed"
			s.places(t, 3, Slots("a", 1, Cores(1)), "0@n1")
			s.holding(t, "1: x@n1 y@n1; 2: a@n1; 3: 0@n1")
		}
	}},
	"what the caller does to an answer changes nothing": {test: func(t *testing.T, s *subject) {
		s.load(t, WithProperties(Node("n1", nil, Cores(4)), "fast", ""))
		js := Slots("a", 2, Cores(1))
		spoil(s.match(t, 1, js))
		a := s.match(t, 1, js)
		emitted(t, a.R, Cluster, "n1", "core0")
		same(t, "the whole", Amounts(a.R), map[string]int64{"core": 2000})
		if _, ok := a.R.Vertices[1].Properties["fast"]; !ok {
			t.Errorf("the node has the properties %v", a.R.Vertices[1].Properties)
		}
		for _, j := range s.jobs(t) {
			spoil(&match.Allocation{R: &resource.Set{}, Slots: j.Slots})
		}
		s.holding(t, "1: 0@n1 1@n1")
		s.places(t, 2, Slots("a", 2, Cores(1)), "0@n1 1@n1")
	}},
}

// spoil overwrites everything in an allocation.
func spoil(a *match.Allocation) {
	spoilSet(a.R)
	for i := range a.Slots {
		spoilSet(a.Slots[i].R)
		a.Slots[i].Key, a.Slots[i].Node = "changed", "changed"
	}
}

func spoilSet(r *resource.Set) {
	for i := range r.Vertices {
		v := &r.Vertices[i]
		v.Name, v.Type, v.Amount = "changed", "changed", 77
		v.Path = "/changed"
		clear(v.Properties)
	}
}

// audit checks that jobs hold no more of the nodes of inRacks than these have.
func (s *subject) audit(t *testing.T) {
	jobs, err := s.Jobs(t.Context(), s.epoch)
	if err != nil {
		t.Errorf("Jobs() = %v", err)
		return
	}
	held := make(map[string]int64)
	for _, j := range jobs {
		for _, slot := range j.Slots {
			for kind, n := range Amounts(slot.R) {
				held[slot.Node+" "+kind] += n
			}
		}
	}
	for _, node := range []string{"n1", "n2", "n3", "n4"} {
		if n := held[node+" core"]; n > 4000 {
			t.Errorf("%dm of 4000m cores are held on %s", n, node)
		}
		if n := held[node+" memory"]; n > 8*GiB {
			t.Errorf("%d of %d bytes are held on %s", n, 8*GiB, node)
		}
	}
}
