package fluence

import (
	"math"
	"time"
)

const (
	// pauseDivisor is the part of maxReserve for which a reservation pauses that did not get on.
	pauseDivisor = 4
	// maxPauseFactor is how many times maxReserve it pauses at the most, when each pause before was
	// half as long and nothing got nearer after it.
	maxPauseFactor = 4
)

// A load is what stands on nodes before a group can have them: how many pods of other namespaces,
// and how many nodes with pods of its own. That an own pod ends beside others brings no node
// nearer, and everybody can make such.
type blockers struct{ foreign, ownNodes int }

// maxBlockers is a load that every other is lower than.
func maxBlockers() blockers { return blockers{math.MaxInt, math.MaxInt} }

// isProgressOver says that a load is progress over another. That an own node becomes free is none where
// others are kept from them.
func (l blockers) isProgressOver(o blockers, contested bool) bool {
	return l.foreign < o.foreign || !contested && l.ownNodes < o.ownNodes
}

func (l blockers) min(o blockers) blockers {
	return blockers{min(l.foreign, o.foreign), min(l.ownNodes, o.ownNodes)}
}

// A clock says for how long the reservations of a turn have not got on. It is the turn's: it goes
// on where another group follows one that did not start.
type stallTimer struct {
	// stalled is for how long, until the time at, nodes were reserved and did not get on.
	stalled time.Duration
	at      time.Time
	// minSincePause is the lowest load that reserved nodes have had since the clock began, or the last
	// pause ended. A load is progress if it is lower than that: that of other nodes may be higher
	// first and then fall, and brings the group no nearer than it was.
	minSincePause blockers
	// contested says that a group of another namespace was kept from reserved nodes. Until then
	// nobody but the group's own namespace has less for it, so that what ends of its own is
	// progress as well.
	contested bool
	// pausedUntil is when a pause ends; zero where there is none. Pause is how long the last one was, if
	// the reserved nodes have not had a lower load since than ever before, which is best: what
	// comes in a pause and ends after it brings the group no nearer either.
	pausedUntil time.Time
	pause       time.Duration
	minEver     blockers
	// maxNodes is the most nodes that were reserved at a time since a group started on as many.
	maxNodes int
	// tenure is the part of the clock that is the present group's.
	tenure tenure
}

// A run is the time in which nodes were reserved for one group.
type tenure struct {
	// maxNodes is the most nodes at a time.
	maxNodes int
	// uncontestedStall is the part of what the clock stood that a start of the group takes away. While nothing
	// but its own namespace's pods kept the group from nodes that others want, it is none: who has
	// such pods and such groups could else keep nodes from others for ever, by hardly any request.
	uncontestedStall time.Duration
	// foreignStall is what the clock stood while pods of others were on the nodes. A start takes it away as
	// well where one of these ended: the group stood beside the rest, and did not wait for them.
	foreignStall time.Duration
	// foreign is how many pods of others there were when the nodes were reserved, and ended that there
	// were fewer of them since.
	foreign      int
	foreignEnded bool
	// mayReset says that there was time to take away, as much of it as other time when the reservation
	// last paused, or that the nodes had a lower load than ever before.
	mayReset bool
}

// observe takes note of what stands on the nodes.
func (r *tenure) observe(l blockers) { r.foreignEnded = r.foreignEnded || l.foreign < r.foreign }

// refund is what a start of the group takes away.
func (r *tenure) refund() time.Duration {
	if r.foreignEnded {
		return r.uncontestedStall + r.foreignStall
	}
	return r.uncontestedStall
}

func newStallTimer(now time.Time) stallTimer {
	return stallTimer{at: now, minSincePause: maxBlockers(), minEver: maxBlockers()}
}

// change takes note that others than nodes of one load are reserved now, so many of another: what
// has ended on the former is progress, and that the latter have less on them is none.
func (c *stallTimer) change(old, l blockers, nodes int) {
	c.observe(old)
	c.tenure.foreign = l.foreign
	c.minSincePause, c.minEver = c.minSincePause.min(l), c.minEver.min(l)
	c.maxNodes, c.tenure.maxNodes = max(c.maxNodes, nodes), max(c.tenure.maxNodes, nodes)
}

// observe says whether the load of the reserved nodes is progress.
func (c *stallTimer) observe(l blockers) bool {
	c.tenure.observe(l)
	if l.isProgressOver(c.minEver, c.contested) {
		c.pause, c.tenure.mayReset = 0, true
	}
	progress := l.isProgressOver(c.minSincePause, c.contested)
	if c.minSincePause, c.minEver = c.minSincePause.min(l), c.minEver.min(l); progress {
		c.stalled, c.tenure.uncontestedStall, c.tenure.foreignStall = 0, 0, 0
	}
	return progress
}

// advance lets the clock go on. The load is that of the reserved nodes; without any it stands still. A
// reservation that has not got on for as long as most pauses, unless that is 0, and after the
// pause begins again.
func (c *stallTimer) advance(reserved bool, l blockers, maxReserve time.Duration, now time.Time) (paused, resumed bool) {
	passed := now.Sub(c.at)
	c.at = now
	switch {
	case !c.pausedUntil.IsZero():
		if now.Before(c.pausedUntil) {
			return false, false
		}
		c.stalled, c.minSincePause, c.pausedUntil = 0, maxBlockers(), time.Time{}
		c.tenure.uncontestedStall, c.tenure.foreignStall, c.tenure.foreignEnded = 0, 0, false
		return false, true
	case !reserved:
		return false, false
	}
	if c.observe(l) {
		return false, false
	}
	c.stalled += passed
	switch {
	case !c.contested:
		c.tenure.uncontestedStall, c.tenure.mayReset = c.tenure.uncontestedStall+passed, true
	case l.foreign > 0:
		c.tenure.foreignStall, c.tenure.mayReset = c.tenure.foreignStall+passed, true
	}
	if maxReserve == 0 || c.stalled < maxReserve {
		return false, false
	}
	c.tenure.mayReset = c.tenure.mayReset && c.isMostlyRefunded()
	c.pause = min(max(maxReserve/pauseDivisor, 2*c.pause), maxPauseFactor*maxReserve)
	c.pausedUntil = now.Add(c.pause)
	return true, false
}

// isMostlyRefunded says that a start of the present group takes away half of what the clock stood, or more.
func (c *stallTimer) isMostlyRefunded() bool { return 2*c.tenure.refund() >= c.stalled }

// endTenure takes note that nodes are reserved for the turn's group no more, which runs on so many of those
// that were; they have this load now. Each of these takes its part of the group's own time away: a start
// elsewhere is no progress, and a start of one group gives nothing for the time of another. Pauses begin
// anew only where that takes away half of what the clock stood or more: a start on nodes that its own
// namespace's pods kept from others for most of the time makes no later pause shorter.
func (c *stallTimer) endTenure(runs int, l blockers) {
	c.observe(l)
	if own := c.tenure; own.maxNodes > 0 {
		most := c.isMostlyRefunded()
		c.stalled -= time.Duration(float64(own.refund()) * float64(min(runs, own.maxNodes)) / float64(own.maxNodes))
		if most && own.mayReset && runs >= c.maxNodes {
			c.pause, c.minSincePause, c.minEver, c.contested, c.maxNodes = 0, maxBlockers(), maxBlockers(), false, 0
		}
	}
	c.tenure = tenure{}
}
