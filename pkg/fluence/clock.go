package fluence

import (
	"math"
	"time"
)

// pausePart is the part of maxReserve for which a reservation pauses that did not get on.
const pausePart = 4

// A load is what stands on nodes before a group can have them: how many pods of other namespaces,
// and how many nodes with pods of its own. That an own pod ends beside others brings no node
// nearer, and everybody can make such.
type load struct{ others, own int }

// anyLoad is a load that every other is lower than.
func anyLoad() load { return load{math.MaxInt, math.MaxInt} }

func (l load) min(o load) load { return load{min(l.others, o.others), min(l.own, o.own)} }

// A clock says for how long the reservations of a turn have not got on. It is the turn's: it goes
// on where another group follows one that did not start.
type clock struct {
	// stood is for how long, until the time at, nodes were reserved and did not get on.
	stood time.Duration
	at    time.Time
	// least is the lowest load that reserved nodes have had since the clock began. A load is
	// progress if it is lower than that: that of other nodes may be higher first and then fall,
	// and brings the group no nearer than it was.
	least load
	// contested says that a group of another namespace was kept from reserved nodes. Until then
	// nobody but the group's own namespace has less for it, so that what ends of its own is
	// progress as well.
	contested bool
	// until is when a pause ends; zero where there is none.
	until time.Time
}

func newClock(now time.Time) clock { return clock{at: now, least: anyLoad()} }

// change takes note that others than nodes of one load are reserved now, of another: what has
// ended on the former is progress, and that the latter have less on them is none.
func (c *clock) change(old, l load) {
	c.got(old)
	c.least = c.least.min(l)
}

// got says whether the load of the reserved nodes is progress.
func (c *clock) got(l load) bool {
	progress := l.others < c.least.others || !c.contested && l.own < c.least.own
	if c.least = c.least.min(l); progress {
		c.stood = 0
	}
	return progress
}

// run lets the clock go on. The load is that of the reserved nodes; without any it stands still. A
// reservation that has not got on for as long as most pauses, unless that is 0, and after the
// pause begins again.
func (c *clock) run(reserved bool, l load, most time.Duration, now time.Time) (paused, again bool) {
	passed := now.Sub(c.at)
	c.at = now
	switch {
	case !c.until.IsZero():
		if now.Before(c.until) {
			return false, false
		}
		*c = newClock(now)
		return false, true
	case !reserved:
		return false, false
	}
	if c.got(l) {
		return false, false
	}
	if c.stood += passed; most == 0 || c.stood < most {
		return false, false
	}
	c.until = now.Add(most / pausePart)
	return true, false
}

// started takes note that the turn's group runs on some of the nodes that were reserved for it.
// Each of these takes its part of the clock away: a start elsewhere is no progress.
func (c *clock) started(runs, reserved int) {
	if runs == 0 {
		return
	}
	c.stood -= time.Duration(float64(c.stood) * float64(runs) / float64(reserved))
	c.least, c.contested = anyLoad(), false
}
