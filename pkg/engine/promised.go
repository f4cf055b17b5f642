package engine

import (
	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/engine/store"
	"github.com/flux-k8s/fluence/pkg/match"
)

// promised returns what reservations keep from a request that was refused for the present. It returns nil
// if reservations are not in the way, or if there are too few steps left to tell. Without reservations
// within the request's window it costs nothing.
func promised(b *problemBuilder, l *solver.Layout, v *store.WindowView, failed *solver.Shortfall, no *match.Reason) *match.Promised {
	reserved := v.Reserved()
	if len(reserved) == 0 || no.Code != match.TooFew && no.Code != match.NotFound {
		return nil
	}
	c := l.FitCounter()
	if c == nil {
		return nil
	}
	c.SpendCounts(store.OverlaySteps*len(reserved), 2*len(reserved))
	if l.IsExhausted() {
		return nil
	}
	shapes := failed.Shape + 1
	room := make([]int64, 0, shapes*len(reserved))
	for _, at := range reserved {
		for s := range shapes {
			room = append(room, c.Room(s, at))
		}
	}
	more, inTheWay := int64(0), reserved[:0:0]
	v.WithoutReservations(func() {
		b.refreshExclusive()
		for i, at := range reserved {
			c.Count(int(at))
			for s := range shapes {
				if c.Room(s, at) > room[i*shapes+s] {
					inTheWay = append(inTheWay, at)
					break
				}
			}
		}
		if len(inTheWay) > 0 {
			more = foundInAddition(c, b.problem.Order, failed, no)
		}
	})
	b.refreshExclusive()
	if more <= 0 || l.IsExhausted() {
		return nil
	}
	job, from := v.FirstReserved(inTheWay)
	return &match.Promised{Job: job, MoreSlots: more, From: from}
}

// foundInAddition returns how many more slots fit than a reason says, of the shape that failed. The columns
// show more room by now.
func foundInAddition(c *solver.FitCounter, order []int32, failed *solver.Shortfall, no *match.Reason) int64 {
	if c.IsExact() {
		return min(no.Wanted, c.Sum(failed.Shape)) - no.Found
	}
	switch o, again := solver.Within(c.Layout, order, 0).SolveMin(solver.ViewNow); {
	case o == solver.Placed || again.Shape > failed.Shape:
		return no.Wanted - no.Found
	case again.Shape == failed.Shape:
		return again.Found - no.Found
	}
	return 0
}
