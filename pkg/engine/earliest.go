package engine

import (
	"context"
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
func (p *storeBackend) earliestStart(ctx context.Context, r *match.Request, l *solver.Layout, v *store.WindowView) (*store.Job, bool, error) {
	if o, _ := l.SolveMin(solver.View{Empty: true, Up: true, Now: true}); o == solver.Impossible {
		return nil, false, nil
	}
	present := v.Window().Start()
	c := l.FitCounter()
	if c == nil {
		return nil, false, nil
	}
	tries := 0
	for t, ok := v.Next(present, present); ok; t, ok = v.Next(t, present) {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		if l.IsExhausted() {
			break
		}
		if p.moveWindow(c, v, store.WindowFrom(t, r.Duration)); l.IsExhausted() {
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
func (p *storeBackend) moveWindow(c *solver.FitCounter, v *store.WindowView, to store.Window) {
	v.MoveTo(to, func() bool { return c.ChargeCount(store.OverlaySteps) }, func(at int) {
		p.builder.refreshExclusive()
		c.Count(at)
	})
}
