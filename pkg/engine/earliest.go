package engine

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/engine/store"
	"github.com/flux-k8s/fluence/pkg/match"
)

// maxStarts is the maximum number of start times at which a placement is tried for one reservation.
const maxStarts = 64

// earliestStart reserves the earliest time after the present at which the request
// fits for its whole duration, and returns the reservation. Only the ends of
// allocations and reservations are tried, because more becomes free at no other
// time. It returns false if there is no such time, or if none was found within
// the budget. Nodes that are down or excluded for the present are not reserved.
//
// The first ends are tried one by one. If that takes long, all ends before a lower bound are passed over at once.
func (p *storeBackend) earliestStart(ctx context.Context, r *match.Request, l *solver.Layout, v *store.WindowView) (*store.Job, bool, error) {
	if o, _ := l.SolveMin(solver.View{Empty: true, Up: true, Now: true}); o == solver.Impossible {
		return nil, false, nil
	}
	present := v.Window().Start()
	c := l.FitCounter()
	if c == nil {
		return nil, false, nil
	}
	tries, steps, bounded := 0, l.Remain(), false
	for t, ok := v.Next(present, present); ok; t, ok = v.Next(t, present) {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		if l.IsExhausted() {
			break
		}
		jump := false
		if !bounded && isWorthBounding(p.store, steps, l.Remain()) {
			bounded = true
			least, possible := leastStart(c, v, &p.builder.problem)
			if !possible {
				break
			}
			if jump = least > t; jump {
				if t, ok = v.Next(least-1, present); !ok {
					break
				}
			}
		}
		if p.moveWindow(c, v, store.WindowFrom(t, r.Duration), jump); l.IsExhausted() {
			break
		}
		if !c.MayFit() {
			continue
		}
		if c.Try() {
			j := p.allocate(r, l, v, time.Unix(0, t).In(r.Now.Location()))
			j.MarkReserved()
			return j, true, nil
		}
		if tries++; tries == maxStarts {
			break
		}
	}
	return nil, false, nil
}

// moveWindow makes the columns show what is free during a window. It recounts the slots
// that fit, but only on nodes where more or less is free than in the window before.
// jump is set if the window is likely to be very many ends later.
func (p *storeBackend) moveWindow(c *solver.FitCounter, v *store.WindowView, to store.Window, jump bool) {
	may := func() bool { return c.ChargeCount(store.OverlaySteps) }
	covered := func(at int) {
		p.builder.refreshExclusive()
		c.Count(at)
	}
	if jump {
		v.JumpTo(to, may, covered)
	} else {
		v.MoveTo(to, may, covered)
	}
}

// releaseSteps is the cost in steps of reading the end of a slot, and of reading a node without slots.
const releaseSteps = 8

// isWorthBounding reports whether a search for an end has taken so many steps that a lower bound is likely to be
// cheaper than to go on: a fourth of what the bound takes. There must be steps left for more than the bound.
func isWorthBounding(st *store.Store, before, left int) bool {
	_, slots, nodes := st.Sizes()
	bound := releaseSteps * (slots + nodes)
	return 4*(before-left) >= bound && left >= 2*bound
}

// A rise is how many more slots of a shape fit on a node from a time on.
type rise struct{ at, slots int64 }

// leastStart returns a lower bound on the start of a request: the first time from which the minimum of each shape would
// fit if the shape had the nodes for itself alone, without reservations, limits and a topology. What fits on a node then
// only grows. So for each shape the bound is a weighted selection: the rises on all nodes are sorted by time, and
// summed up to the minimum. It returns false if there is no such time, or if there are too few steps left to tell.
func leastStart(c *solver.FitCounter, v *store.WindowView, problem *solver.Problem) (least int64, possible bool) {
	shapes := problem.Shapes
	releases, fit, rises := v.Releases(problem.Needs, problem.Requester), make([]int64, len(shapes)), make([][]rise, len(shapes))
	for _, at := range problem.Order {
		clear(fit)
		slots := releases.Read(at, func(from int64, free []int64) {
			for s := range shapes {
				if n := c.RoomBeside(s, at, free); n > fit[s] {
					rises[s] = append(rises[s], rise{from, n - fit[s]})
					fit[s] = n
				}
			}
		})
		if c.Spend(releaseSteps * (1 + slots)); c.IsExhausted() {
			return 0, false
		}
	}
	for s := range shapes {
		slices.SortFunc(rises[s], func(a, b rise) int { return cmp.Compare(a.at, b.at) })
		sum := int64(0)
		for _, x := range rises[s] {
			if sum >= shapes[s].Count.Min {
				break
			}
			sum, least = sum+x.slots, max(least, x.at)
		}
		if sum < shapes[s].Count.Min {
			return 0, false
		}
	}
	return least, true
}
