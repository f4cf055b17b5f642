package solver

import "context"

// StepsPerLook is how many steps go by between two looks at the caller's context. A step is about
// as much as to look at one pool of one node: 5 to 12 ns.
const StepsPerLook = 1 << 14

// A Meter counts the work of one match. Steps are the same on every machine, so that the
// same request on the same graph ends in the same way everywhere.
type Meter struct {
	ctx context.Context
	// remain are the steps that are left, and look what is left when the context is looked at next.
	remain, look int
	// over are the steps that were taken although none were left.
	over int
}

// Allow begins with so many steps, as long as ctx has not ended.
func (m *Meter) Allow(ctx context.Context, steps int) {
	*m = Meter{ctx: ctx, remain: steps, look: max(0, steps-StepsPerLook)}
}

// Charge counts steps that are about to be taken. It is false where there are not so many left:
// then they are not to be taken, and none are left.
func (m *Meter) Charge(steps int) bool {
	if m.remain -= steps; m.remain >= m.look {
		return true
	}
	if m.remain < 0 || m.ctx.Err() != nil {
		m.Exhaust()
		return false
	}
	m.look = max(0, m.remain-StepsPerLook)
	return true
}

// Owe counts steps that are taken whether or not there are any left: few at a time.
func (m *Meter) Owe(steps int) {
	left := max(0, m.remain)
	if !m.Charge(steps) {
		m.over += max(0, steps-left)
	}
}

// giveBack returns steps that were charged and not taken.
func (m *Meter) giveBack(steps int) {
	if !m.Spent() {
		m.remain += steps
	}
}

// Remain returns how many steps are left; below 0 for none.
func (m *Meter) Remain() int { return m.remain }

// Over returns how many steps were taken although none were left.
func (m *Meter) Over() int { return m.over }

// Exhaust says that there would have been more to do than steps are left for.
func (m *Meter) Exhaust() { m.remain, m.look = -1, 0 }

// Spent says that there are no steps left. What is concluded from then on proves nothing:
// no node has room any more.
func (m *Meter) Spent() bool { return m.remain < 0 }
