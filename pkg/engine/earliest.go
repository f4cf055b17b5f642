package engine

import (
	"context"
	"time"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/engine/store"
	"github.com/flux-k8s/fluence/pkg/match"
)

// maxStarts bounds how many times are tried in vain for one reservation.
const maxStarts = 64

// earliestStart finds the earliest time after the present at which there is room for a
// request all through its duration: the end of something held or promised, since
// at no other time there comes to be more. It is false where there is none, or
// none found within the budget. Nodes that are down or ruled out for the present
// are promised to nobody.
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

// moveWindow turns the columns to what is free within a window. It counts anew what fits on the nodes
// where that differs from the window before.
func (p *storeBackend) moveWindow(c *solver.FitCounter, v *store.WindowView, to store.Window) {
	v.MoveTo(to, func(name string) bool {
		if !c.ChargeCount(store.OverlaySteps) {
			return false
		}
		if at, ok := v.Overlay(name); ok {
			p.binding.refreshExclusive()
			c.Count(at)
		}
		return true
	})
}
