package solver

import "context"

// StepsPerCheck is how many steps go by between two looks at the caller's context. A step is about
// as much as to look at one pool of one node: 5 to 12 ns.
const StepsPerCheck = 1 << 14

// A Meter counts the work of one match. Steps are the same on every machine, so that the
// same request on the same graph ends in the same way everywhere.
type Meter struct {
	ctx context.Context
	// remain are the steps that are left, and look what is left when the context is looked at next.
	remain, nextCheck int
	// overrun are the steps that were taken although none were left.
	overrun int
}

// Begin begins with so many steps, as long as ctx has not ended.
func (m *Meter) Begin(ctx context.Context, steps int) {
	*m = Meter{ctx: ctx, remain: steps, nextCheck: max(0, steps-StepsPerCheck)}
}

// Charge counts steps that are about to be taken. It is false where there are not so many left:
// then they are not to be taken, and none are left.
func (m *Meter) Charge(steps int) bool {
	if m.remain -= steps; m.remain >= m.nextCheck {
		return true
	}
	if m.remain < 0 || m.ctx.Err() != nil {
		m.Exhaust()
		return false
	}
	m.nextCheck = max(0, m.remain-StepsPerCheck)
	return true
}

// Spend counts steps that are taken whether or not there are any left: few at a time.
func (m *Meter) Spend(steps int) {
	left := max(0, m.remain)
	if !m.Charge(steps) {
		m.overrun += max(0, steps-left)
	}
}

// refund returns steps that were charged and not taken.
func (m *Meter) refund(steps int) {
	if !m.IsExhausted() {
		m.remain += steps
	}
}

// Remain returns how many steps are left; below 0 for none.
func (m *Meter) Remain() int { return m.remain }

// Overrun returns how many steps were taken although none were left.
func (m *Meter) Overrun() int { return m.overrun }

// Exhaust says that there would have been more to do than steps are left for.
func (m *Meter) Exhaust() { m.remain, m.nextCheck = -1, 0 }

// IsExhausted says that there are no steps left. What is concluded from then on proves nothing:
// no node has room any more.
func (m *Meter) IsExhausted() bool { return m.remain < 0 }
