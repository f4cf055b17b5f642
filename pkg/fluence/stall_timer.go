package fluence

import (
	"math"
	"time"
)

const (
	// pauseDivisor: the first pause of a reservation lasts 1/pauseDivisor of the time
	// without progress before it, which is normally maxReserve.
	pauseDivisor = 4
	// maxPauseFactor limits a pause to maxPauseFactor*maxReserve. Each
	// further pause without progress is twice as long as the one before.
	maxPauseFactor = 4
	// ownStallDivisor: if only pods of the group's own namespace are on contested nodes, a reservation
	// pauses after maxReserve/ownStallDivisor, but not before minOwnStall. The owner of the
	// pods can end them, and nobody else can.
	ownStallDivisor = 16
	minOwnStall     = time.Minute
)

// blockers is what has to end on nodes before a group can use them: foreign is the number of
// pods of other namespaces, and ownNodes the number of nodes with pods of the group's
// namespace. Own pods are not counted one by one, because a node does not become free when one
// of several own pods ends, and because users could feign progress with pods that end soon.
type blockers struct{ foreign, ownNodes int }

// maxBlockers returns more blockers than any nodes have.
func maxBlockers() blockers { return blockers{math.MaxInt, math.MaxInt} }

// isProgressOver reports whether l is progress over o: fewer pods of other
// namespaces or, if the nodes are not contested, fewer nodes with own pods.
func (l blockers) isProgressOver(o blockers, contested bool) bool {
	return l.foreign < o.foreign || !contested && l.ownNodes < o.ownNodes
}

// min returns the lower number of each kind.
func (l blockers) min(o blockers) blockers {
	return blockers{min(l.foreign, o.foreign), min(l.ownNodes, o.ownNodes)}
}

// stallTimer measures how long the reservation of a turn has made no progress. It
// belongs to the turn, not to the group: if another group gets the turn, the stalled
// time is kept. If the group before has started, endTenure subtracts a part of it.
type stallTimer struct {
	// stalled is how long nodes had been reserved without progress when the timer was last advanced.
	// ownStalled is the part of it in which only own pods were on contested nodes.
	stalled, ownStalled time.Duration
	// at is when the timer was last advanced.
	at time.Time
	// minSincePause has the fewest blockers since the timer began or the last pause ended.
	// Only fewer blockers than these are progress: if other nodes get reserved, the blockers
	// may increase and then decrease again without bringing the group closer to its start.
	minSincePause blockers
	// contested means that a group of another namespace could not use
	// the reserved nodes. Until then the reservation costs only the
	// group's own namespace, so the end of own pods is progress too.
	contested bool
	// pausedUntil is when the present pause ends; zero if there is none.
	pausedUntil time.Time
	// ownPause means that the last pause began because of ownStalled, before maxReserve.
	ownPause bool
	// pause is the length of the last pause. Fewer blockers than minEver reset it to zero.
	pause time.Duration
	// minEver has the fewest blockers since the timer began or was reset by
	// a start. It also counts those before the last pause: pods that come
	// in a pause and end after it bring the group no closer to its start.
	minEver blockers
	// maxNodes is the largest number of nodes reserved at once since
	// the timer began or was reset by a start: see endTenure.
	maxNodes int
	// tenure is the part of the timer that belongs to the present group.
	tenure tenure
}

// tenure is the time in which nodes were reserved for one group.
type tenure struct {
	// maxNodes is the largest number of nodes reserved at once.
	maxNodes int
	// uncontestedStall is the stalled time before the nodes were contested. If the group starts,
	// it is subtracted from the turn's stalled time. The time in which only own pods held
	// contested nodes is never subtracted. Otherwise a namespace could keep nodes from others
	// forever: its own pods hold them, and now and then a small group starts and resets the timer.
	uncontestedStall time.Duration
	// foreignStall is the stalled time with pods of other namespaces on contested
	// nodes. If the group starts and at least one of those pods has ended,
	// foreignStall is subtracted too, because the group had to wait for that pod.
	foreignStall time.Duration
	// foreign is the number of pods of other namespaces on the nodes when they were reserved.
	foreign int
	// foreignEnded means that the number of those pods has been lower since.
	foreignEnded bool
	// mayReset means that a start of the group may reset the length of pauses.
	// It becomes true when time is added to uncontestedStall or foreignStall,
	// or when there are fewer blockers than ever before. It becomes false at a
	// pause if a start would subtract less than half of the stalled time.
	mayReset bool
}

// observe records the present blockers of the nodes.
func (r *tenure) observe(l blockers) { r.foreignEnded = r.foreignEnded || l.foreign < r.foreign }

// refund returns how much stalled time a start of the group subtracts.
func (r *tenure) refund() time.Duration {
	if r.foreignEnded {
		return r.uncontestedStall + r.foreignStall
	}
	return r.uncontestedStall
}

// newStallTimer returns a timer that begins now.
func newStallTimer(now time.Time) stallTimer {
	return stallTimer{at: now, minSincePause: maxBlockers(), minEver: maxBlockers()}
}

// change records that other nodes are reserved from now on. oldBlockers are the present blockers
// of the nodes reserved until now. They are progress if they are fewer than minSincePause.
// newBlockers and nodes are the blockers and the number of the new nodes. A difference between
// oldBlockers and newBlockers is not progress.
func (c *stallTimer) change(oldBlockers, newBlockers blockers, nodes int) {
	c.observe(oldBlockers)
	c.tenure.foreign = newBlockers.foreign
	c.minSincePause, c.minEver = c.minSincePause.min(newBlockers), c.minEver.min(newBlockers)
	c.maxNodes, c.tenure.maxNodes = max(c.maxNodes, nodes), max(c.tenure.maxNodes, nodes)
}

// observe records the present blockers of the reserved nodes, and reports
// whether they are progress. Progress sets the stalled time to zero.
func (c *stallTimer) observe(l blockers) bool {
	c.tenure.observe(l)
	if l.isProgressOver(c.minEver, c.contested) {
		c.pause, c.tenure.mayReset = 0, true
	}
	progress := l.isProgressOver(c.minSincePause, c.contested)
	if c.minSincePause, c.minEver = c.minSincePause.min(l), c.minEver.min(l); progress {
		c.stalled, c.ownStalled, c.tenure.uncontestedStall, c.tenure.foreignStall = 0, 0, 0, 0
	}
	return progress
}

// advance advances the timer to now. l are the blockers of the reserved nodes;
// if no nodes are reserved, the stalled time does not grow. paused reports
// whether a pause begins: there was no progress for maxReserve (zero means no limit),
// or, if only own pods are on contested nodes, for a part of it (see ownStallDivisor).
// resumed reports whether a pause has just ended.
func (c *stallTimer) advance(reserved bool, l blockers, maxReserve time.Duration, now time.Time) (paused, resumed bool) {
	passed := now.Sub(c.at)
	c.at = now
	switch {
	case !c.pausedUntil.IsZero():
		if now.Before(c.pausedUntil) {
			return false, false
		}
		c.stalled, c.ownStalled, c.minSincePause, c.pausedUntil = 0, 0, maxBlockers(), time.Time{}
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
	case l.ownNodes > 0:
		c.ownStalled += passed
	}
	maxOwn := min(maxReserve, max(maxReserve/ownStallDivisor, minOwnStall))
	own := c.stalled < maxReserve
	if maxReserve == 0 || own && c.ownStalled < maxOwn {
		return false, false
	}
	c.ownPause = own
	c.tenure.mayReset = c.tenure.mayReset && c.isLargelyRefunded()
	c.pause = min(max(min(c.stalled, maxReserve)/pauseDivisor, 2*c.pause), maxPauseFactor*maxReserve)
	c.pausedUntil = now.Add(c.pause)
	return true, false
}

// isLargelyRefunded reports whether a start of the present
// group would subtract at least half of the stalled time.
func (c *stallTimer) isLargelyRefunded() bool { return 2*c.tenure.refund() >= c.stalled }

// endTenure records that nodes are no longer reserved for the present group. runs is the
// number of its reserved nodes that the group now runs on. l are the present blockers of all
// nodes reserved until now.
//
// Each of these nodes subtracts its share of the group's refund from
// the stalled time. So a start on other nodes subtracts nothing, and
// the start of one group does not count for the time of another.
//
// Pauses are short again only if the group runs on maxNodes nodes and the refund
// is at least half of the stalled time. If only the namespace's own pods were on the
// nodes for most of the time, pauses stay long after a start.
func (c *stallTimer) endTenure(runs int, l blockers) {
	c.observe(l)
	if own := c.tenure; own.maxNodes > 0 {
		largely := c.isLargelyRefunded()
		used := float64(min(runs, own.maxNodes)) / float64(own.maxNodes)
		c.stalled -= time.Duration(float64(own.refund()) * used)
		c.ownStalled -= time.Duration(float64(c.ownStalled) * used)
		if largely && own.mayReset && runs >= c.maxNodes {
			c.pause, c.minSincePause, c.minEver, c.contested, c.maxNodes = 0, maxBlockers(), maxBlockers(), false, 0
		}
	}
	c.tenure = tenure{}
}
