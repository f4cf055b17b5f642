package fluence

import (
	"math"
	"time"
)

const (
	// pausePart is the part of maxReserve for which a reservation pauses that did not get on.
	pausePart = 4
	// mostPause is how many times maxReserve it pauses at the most, when each pause before was
	// half as long and nothing got nearer after it.
	mostPause = 4
)

// A load is what stands on nodes before a group can have them: how many pods of other namespaces,
// and how many nodes with pods of its own. That an own pod ends beside others brings no node
// nearer, and everybody can make such.
type load struct{ others, own int }

// anyLoad is a load that every other is lower than.
func anyLoad() load { return load{math.MaxInt, math.MaxInt} }

// below says that a load is progress over another. That an own node becomes free is none where
// others are kept from them.
func (l load) below(o load, contested bool) bool {
	return l.others < o.others || !contested && l.own < o.own
}

func (l load) min(o load) load { return load{min(l.others, o.others), min(l.own, o.own)} }

// A clock says for how long the reservations of a turn have not got on. It is the turn's: it goes
// on where another group follows one that did not start.
type clock struct {
	// stood is for how long, until the time at, nodes were reserved and did not get on.
	stood time.Duration
	at    time.Time
	// least is the lowest load that reserved nodes have had since the clock began, or the last
	// pause ended. A load is progress if it is lower than that: that of other nodes may be higher
	// first and then fall, and brings the group no nearer than it was.
	least load
	// contested says that a group of another namespace was kept from reserved nodes. Until then
	// nobody but the group's own namespace has less for it, so that what ends of its own is
	// progress as well.
	contested bool
	// until is when a pause ends; zero where there is none. Pause is how long the last one was, if
	// the reserved nodes have not had a lower load since than ever before, which is best: what
	// comes in a pause and ends after it brings the group no nearer either.
	until time.Time
	pause time.Duration
	best  load
	// wide is the most nodes that were reserved at a time since a group started on as many.
	wide int
	// own is the part of the clock that is the present group's.
	own run
}

// A run is the time in which nodes were reserved for one group.
type run struct {
	// wide is the most nodes at a time.
	wide int
	// back is the part of what the clock stood that a start of the group takes away. While nothing
	// but its own namespace's pods kept the group from nodes that others want, it is none: who has
	// such pods and such groups could else keep nodes from others for ever, by hardly any request.
	back time.Duration
	// beside is what the clock stood while pods of others were on the nodes. A start takes it away as
	// well where one of these ended: the group stood beside the rest, and did not wait for them.
	beside time.Duration
	// others is how many pods of others there were when the nodes were reserved, and ended that there
	// were fewer of them since.
	others int
	ended  bool
	// gotOn says that there was time to take away, as much of it as other time when the reservation
	// last paused, or that the nodes had a lower load than ever before.
	gotOn bool
}

// see takes note of what stands on the nodes.
func (r *run) see(l load) { r.ended = r.ended || l.others < r.others }

// givesBack is what a start of the group takes away.
func (r *run) givesBack() time.Duration {
	if r.ended {
		return r.back + r.beside
	}
	return r.back
}

func newClock(now time.Time) clock { return clock{at: now, least: anyLoad(), best: anyLoad()} }

// change takes note that others than nodes of one load are reserved now, so many of another: what
// has ended on the former is progress, and that the latter have less on them is none.
func (c *clock) change(old, l load, nodes int) {
	c.got(old)
	c.own.others = l.others
	c.least, c.best = c.least.min(l), c.best.min(l)
	c.wide, c.own.wide = max(c.wide, nodes), max(c.own.wide, nodes)
}

// got says whether the load of the reserved nodes is progress.
func (c *clock) got(l load) bool {
	c.own.see(l)
	if l.below(c.best, c.contested) {
		c.pause, c.own.gotOn = 0, true
	}
	progress := l.below(c.least, c.contested)
	if c.least, c.best = c.least.min(l), c.best.min(l); progress {
		c.stood, c.own.back, c.own.beside = 0, 0, 0
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
		c.stood, c.least, c.until = 0, anyLoad(), time.Time{}
		c.own.back, c.own.beside, c.own.ended = 0, 0, false
		return false, true
	case !reserved:
		return false, false
	}
	if c.got(l) {
		return false, false
	}
	c.stood += passed
	switch {
	case !c.contested:
		c.own.back, c.own.gotOn = c.own.back+passed, true
	case l.others > 0:
		c.own.beside, c.own.gotOn = c.own.beside+passed, true
	}
	if most == 0 || c.stood < most {
		return false, false
	}
	c.own.gotOn = c.own.gotOn && c.mostlyBack()
	c.pause = min(max(most/pausePart, 2*c.pause), mostPause*most)
	c.until = now.Add(c.pause)
	return true, false
}

// mostlyBack says that a start of the present group takes away half of what the clock stood, or more.
func (c *clock) mostlyBack() bool { return 2*c.own.givesBack() >= c.stood }

// ends takes note that nodes are reserved for the turn's group no more, which runs on so many of those
// that were; they have this load now. Each of these takes its part of the group's own time away: a start
// elsewhere is no progress, and a start of one group gives nothing for the time of another. Pauses begin
// anew only where that takes away half of what the clock stood or more: a start on nodes that its own
// namespace's pods kept from others for most of the time makes no later pause shorter.
func (c *clock) ends(runs int, l load) {
	c.got(l)
	if own := c.own; own.wide > 0 {
		most := c.mostlyBack()
		c.stood -= time.Duration(float64(own.givesBack()) * float64(min(runs, own.wide)) / float64(own.wide))
		if most && own.gotOn && runs >= c.wide {
			c.pause, c.least, c.best, c.contested, c.wide = 0, anyLoad(), anyLoad(), false, 0
		}
	}
	c.own = run{}
}
