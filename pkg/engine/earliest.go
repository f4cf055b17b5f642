package engine

import (
	"context"
	"time"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/engine/store"
	"github.com/flux-k8s/fluence/pkg/match"
)

// laterBudget bounds how many times are tried in vain for one reservation.
const laterBudget = 64

// later finds the earliest time after the present at which there is room for a
// request all through its duration: the end of something held or promised, since
// at no other time there comes to be more. It is false where there is none, or
// none found within the budget. Nodes that are down or ruled out for the present
// are promised to nobody.
func (p *pools) later(ctx context.Context, r *match.Request, l *solver.Layout, v *store.WindowView) (*store.Job, bool, error) {
	if o, _ := l.Solve(solver.View{Empty: true, Up: true, Now: true}); o == solver.Impossible {
		return nil, false, nil
	}
	present := v.Window().From()
	c := l.FitCounter()
	if c == nil {
		return nil, false, nil
	}
	tries := 0
	for t, ok := v.Next(present, present); ok; t, ok = v.Next(t, present) {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		if l.Spent() {
			break
		}
		if p.move(c, v, store.WindowFrom(t, r.Duration)); l.Spent() {
			break
		}
		if !c.MayFit() {
			continue
		}
		if c.Try() {
			j := p.allocate(r, l, v, time.Unix(0, t).In(r.Now.Location()))
			j.Reserve()
			return j, true, nil
		}
		if tries++; tries == laterBudget {
			break
		}
	}
	return nil, false, nil
}

// move turns the columns to what is free within a window. It counts anew what fits on the nodes
// where that differs from the window before.
func (p *pools) move(c *solver.FitCounter, v *store.WindowView, to store.Window) {
	v.Turn(to, func(name string) bool {
		if !c.Pay(store.CoverSteps) {
			return false
		}
		if at, ok := v.Cover(name); ok {
			p.bound.lookAgain()
			c.Count(at)
		}
		return true
	})
}
