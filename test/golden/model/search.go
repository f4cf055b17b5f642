package model

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/test/golden"
)

// An ask is a jobspec prepared for a search.
type ask struct {
	rs       []request
	sums     map[string]int64
	shadow   map[string]bool
	holds    jobspec.Condition
	narrowed bool // by a constraint
	queue    string
	duration int64
}

func (m *model) ask(text string) (*ask, error) {
	j, err := jobspec.Parse([]byte(text))
	if err != nil {
		return nil, err
	}
	if !m.g.knows(j.Resources) {
		return nil, errors.New("a resource type that the graph does not know")
	}
	s := j.Attributes.System
	a := &ask{shadow: map[string]bool{"node": m.policy.exclusive}, narrowed: s.Constraints != nil && s.Constraints.Op != "", queue: s.Queue}
	a.rs, a.sums = m.g.prepare(j.Resources, a.shadow)
	if a.holds, err = s.Constraints.Compile(); err != nil {
		return nil, err
	}
	a.duration = int64((s.Duration + time.Second - 1) / time.Second)
	if a.duration > lifetime {
		return nil, fmt.Errorf("duration %d: longer than the graph lives", a.duration)
	}
	if a.duration == 0 {
		a.duration = lifetime
	}
	return a, nil
}

// feasible counts the nodes before the search. It returns an error if there are too few.
func (m *model) feasible(a *ask, op string) error {
	if !a.narrowed && !m.g.tracked["node"] {
		return nil
	}
	satisfiability := op == golden.AllocateWithSatisfy || op == golden.OpSatisfy
	status := golden.Busy
	if satisfiability {
		status = golden.Unsatisfiable
	}
	var up, usable int64
	for _, v := range m.g.vertices {
		if v.typ != "node" {
			continue
		}
		if !v.down {
			up++
		}
		// The other calls use the end of the graph's time, when nothing is booked.
		now := op == golden.Allocate || op == golden.WithoutAllocating
		if (!v.down || satisfiability) && a.holds(v.name, v.rank, v.properties) && (!now || v.size > v.own.peak(0, 1)) {
			usable++
		}
	}
	// For satisfiability the library counts only nodes that are up
	// too. The model counts all nodes, because a satisfiable request
	// may need nodes that are down now. No recorded case decides.
	if wanted := nodes(a.rs); up < wanted && !satisfiability || usable < wanted {
		return refuse(status, "%d nodes are wanted, %d are up, %d usable", wanted, up, usable)
	}
	return nil
}

func (m *model) attempt(a *ask, at int64) *attempt {
	return &attempt{g: m.g, policy: m.policy, shadow: a.shadow, holds: a.holds, at: at, end: at + a.duration}
}

// satisfiable tries the request at the far end of time, where nothing is booked.
func (m *model) satisfiable(a *ask) error {
	t := m.attempt(a, math.MaxInt64-a.duration-1)
	t.empty = true
	if _, ok := t.run(a.rs); !ok {
		if t.conflict != "" {
			return errors.New(t.conflict)
		}
		return refuse(golden.Unsatisfiable, "does not fit an empty graph")
	}
	return nil
}

// search finds the start of a match.
func (m *model) search(a *ask, op string) (*attempt, mark, error) {
	if err := m.feasible(a, op); err != nil {
		return nil, mark{}, err
	}
	t := m.attempt(a, 0)
	if root, ok := t.run(a.rs); ok {
		return t, root, nil
	}
	if t.conflict != "" {
		return nil, mark{}, errors.New(t.conflict)
	}
	busy := refuse(golden.Busy, "no room")
	switch op {
	case golden.AllocateOrElseReserve, golden.WithoutAllocatingFuture:
		for _, at := range m.times(a) {
			t := m.attempt(a, at)
			if root, ok := t.run(a.rs); ok {
				t.end = min(t.end, lifetime)
				return t, root, nil
			}
		}
	case golden.AllocateWithSatisfy:
	default:
		return nil, mark{}, busy
	}
	if err := m.satisfiable(a); err != nil {
		return nil, mark{}, err
	}
	return nil, mark{}, busy
}

// times returns the times at which a reservation may start: a span of
// the root's totals starts or ends, and the totals of the request fit.
func (m *model) times(a *ask) []int64 {
	at := map[int64]bool{}
	for _, b := range m.g.root.below {
		for _, s := range b.spans {
			at[s.start], at[s.end] = true, true
		}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(at)), func(t int64) bool {
		for typ, n := range a.sums {
			if b := m.g.root.below[typ]; b != nil && b.size-b.peak(t, t+a.duration) < n {
				return true
			}
		}
		return t < 1 || t == lifetime // at the lifetime the library answers busy; satisfiable checks that
	})
}
