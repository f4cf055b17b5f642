package solver

import "context"

// StepsPerCheck is the number of steps between two checks of the caller's context.
// A step costs about as much as reading one pool of one node: 5 to 12 ns.
const StepsPerCheck = 1 << 14

// A Meter limits the work of one match. It counts steps instead of time, because
// the same request on the same graph must have the same result on every machine.
type Meter struct {
	ctx context.Context
	// remain is the number of steps left. The context is
	// checked next when remain falls below nextCheck.
	remain, nextCheck int
	// overrun is the number of steps taken although none were left (see Spend).
	overrun int
}

// Begin starts the meter with this number of steps. If
// ctx ends, the next check of it exhausts the meter.
func (m *Meter) Begin(ctx context.Context, steps int) {
	*m = Meter{ctx: ctx, remain: steps, nextCheck: max(0, steps-StepsPerCheck)}
}

// Charge takes steps for work that the caller is about to do. If too few steps are
// left, it exhausts the meter and returns false. The caller must not do the work then.
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

// Spend takes steps for work that the caller does even if
// the meter is exhausted. It is for a few steps at a time.
func (m *Meter) Spend(steps int) {
	left := max(0, m.remain)
	if !m.Charge(steps) {
		m.overrun += max(0, steps-left)
	}
}

// refund gives back steps for work that was charged and not done.
func (m *Meter) refund(steps int) {
	if !m.IsExhausted() {
		m.remain += steps
	}
}

// Remain returns the number of steps left; below 0 if the meter is exhausted.
func (m *Meter) Remain() int { return m.remain }

// Overrun returns the number of steps taken although none were left.
func (m *Meter) Overrun() int { return m.overrun }

// Exhaust exhausts the meter, because the work to do is known to exceed the steps left.
func (m *Meter) Exhaust() { m.remain, m.nextCheck = -1, 0 }

// IsExhausted reports whether the meter is exhausted. Nothing that is concluded from
// then on is proven, because functions that get no steps report that no node has room.
func (m *Meter) IsExhausted() bool { return m.remain < 0 }
