package engine

import "context"

const (
	// briefWork is how many steps a match may take while it holds the engine, and longWork
	// how many on a copy of the columns beside it. A step is about as much as to look at one
	// pool of one node: 5 to 12 ns.
	briefWork = 1 << 22
	longWork  = 1 << 25
	// stepsPerLook is how many steps go by between two looks at the caller's context.
	stepsPerLook = 1 << 14
)

// A meter counts the work of one match. Steps are the same on every machine, so that the
// same request on the same graph ends in the same way everywhere.
type meter struct {
	ctx context.Context
	// remain are the steps that are left, and look what is left when the context is looked at next.
	remain, look int
	// over are the steps that were taken although none were left.
	over int
}

// allow begins with so many steps, as long as ctx has not ended.
func (m *meter) allow(ctx context.Context, steps int) {
	*m = meter{ctx: ctx, remain: steps, look: max(0, steps-stepsPerLook)}
}

// charge counts steps that are about to be taken. It is false where there are not so many left:
// then they are not to be taken, and none are left.
func (m *meter) charge(steps int) bool {
	if m.remain -= steps; m.remain >= m.look {
		return true
	}
	if m.remain < 0 || m.ctx.Err() != nil {
		m.exhaust()
		return false
	}
	m.look = max(0, m.remain-stepsPerLook)
	return true
}

// owe counts steps that are taken whether or not there are any left: few at a time.
func (m *meter) owe(steps int) {
	left := max(0, m.remain)
	if !m.charge(steps) {
		m.over += max(0, steps-left)
	}
}

// giveBack returns steps that were charged and not taken.
func (m *meter) giveBack(steps int) {
	if !m.spent() {
		m.remain += steps
	}
}

// settleWork notes on the engine how far a match went beyond what it may take.
func (e *Engine) settleWork(m *meter) {
	for {
		most := e.overrun.Load()
		if int64(m.over) <= most || e.overrun.CompareAndSwap(most, int64(m.over)) {
			return
		}
	}
}

// exhaust says that there would have been more to do than steps are left for.
func (m *meter) exhaust() { m.remain, m.look = -1, 0 }

// spent says that there are no steps left. What is concluded from then on proves nothing:
// no node has room any more.
func (m *meter) spent() bool { return m.remain < 0 }
