package engine

import (
	"context"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
)

// laterBudget bounds how many times are tried in vain for one reservation.
const laterBudget = 64

// coverSteps is how many steps it counts to foresee a host.
const coverSteps = 64

// soon is how long after the present a slot that is past its end counts as given
// back.
const soon = int64(time.Second)

// A lookout counts how many slots of each shape fit while a horizon moves on, so
// that only the times at which there may be room are tried. Each shape is counted
// as if it were alone, so there is never less room than it says.
type lookout struct {
	*board
	*horizon
	from  int64   // the present
	index []int32 // into the order, by position of a node
	fit   []int64 // by shape and index: how many slots fit, the least wanted at the most
	sums  []int64 // by shape
	each  int     // steps to count what fits on a node
	tries int
}

// later finds the earliest time after the present at which there is room for a
// request all through its duration: the end of something held or promised, since
// at no other time there comes to be more. It is false where there is none, or
// none found within the budget. Nodes that are down or ruled out for the present
// are promised to nobody.
func (e *Engine) later(ctx context.Context, r *match.Request, b *board, h *horizon) (*job, bool, error) {
	if o, _ := b.solve(view{empty: true, up: true, now: true}); o == impossible {
		return nil, false, nil
	}
	l := e.lookout(b, h)
	if l == nil {
		return nil, false, nil
	}
	for t, ok := l.next(l.from); ok; t, ok = l.next(t) {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		if b.spent() {
			break
		}
		past := l.window
		l.window = windowFrom(t, r.Duration)
		if l.move(past); b.spent() {
			break
		}
		if !l.mayFit() {
			continue
		}
		if o, _ := b.solve(seeNow); o == placed {
			b.extend()
			j := e.draw(r, b, h, time.Unix(0, t).In(r.Now.Location()))
			j.reserved = true
			return j, true, nil
		}
		if l.tries++; l.tries == laterBudget {
			break
		}
		b.start(seeNow)
	}
	return nil, false, nil
}

// lookout returns the lookout of a board; nil where there are too few steps left for it.
func (e *Engine) lookout(b *board, h *horizon) *lookout {
	steps := 0
	for s := range b.ask.shapes {
		steps += b.steps(s)
	}
	if b.spent() || !b.affords(8*len(b.order)*len(b.ask.shapes)) || !b.charge(len(b.order)*steps) {
		return nil
	}
	l := &lookout{
		board: b, horizon: h, from: h.window.from, index: make([]int32, len(b.order)),
		fit: make([]int64, len(b.order)*len(b.ask.shapes)), sums: make([]int64, len(b.ask.shapes)),
		each: steps,
	}
	b.start(seeNow)
	for i, at := range b.order {
		l.index[at] = int32(i)
		l.count(i)
	}
	return l
}

// count counts anew what fits on a node. Who calls it charges steps.
func (l *lookout) count(i int) {
	l.filled[l.order[i]] = 0
	for s := range l.ask.shapes {
		fit := &l.fit[s*len(l.order)+i]
		l.sums[s] -= *fit
		*fit = l.fits(s, i, l.ask.shapes[s].count.Min)
		l.sums[s] += *fit
	}
}

// mayFit says whether there is room for each shape alone.
func (l *lookout) mayFit() bool {
	for s, sum := range l.sums {
		if sum < l.ask.shapes[s].count.Min {
			return false
		}
	}
	return true
}

// next returns the first time to try after the given one.
func (l *lookout) next(after int64) (int64, bool) {
	t, ok := l.promises.ends.times.Next(after)
	if then := l.from + soon; after < then && (!ok || then < t) && l.promises.ends.begins(l.from) {
		return then, true
	}
	return t, ok
}

// move has the columns say what there is within the window, after they said it of
// the past one. From the present to the first later window, what is past its end
// goes too.
func (l *lookout) move(past window) {
	moved := make(map[string]bool)
	see := func(s *slot) { moved[s.node] = true }
	if past.present {
		l.promises.ends.upTo(past.from, see)
	}
	l.promises.ends.within(past.from, l.window.from, see)
	l.promises.starts.within(past.to-1, l.window.to-1, see)
	for name := range moved {
		if !l.charge(coverSteps + l.each) {
			return
		}
		if n := l.cover(name); n != nil {
			l.tenancies = l.graph.columns.hindering(l.tenant)
			l.count(int(l.index[n.position]))
		}
	}
}
