package bindqueue

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// smallLaneInterval gives the small lane its share: at least one in this many pods that
// leave is of it, if any of its pods wait.
const smallLaneInterval = 8

// Next returns the pod that leaves the bind queue now, and false if none may. The pod's bind is
// in flight until Bound, Failed or Throttled reports how it ended. Pods leave by rank, except
// that the small lane has its share, and that a started group that ends soon is finished first.
func (g *Queue) Next(now time.Time) (Pod, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.inFlight) >= g.limit.current || now.Before(g.limit.pausedUntil) {
		return Pod{}, false
	}
	for g.backoffQ.Len() > 0 && !g.backoffQ.first().backoffUntil.After(now) {
		p := g.backoffQ.first()
		g.backoffQ.remove(p)
		g.enqueueInGroup(p)
	}
	p := g.choose(now)
	if p == nil {
		return Pod{}, false
	}
	leaves := *p.queued
	g.inFlight[leaves.UID] = inFlightBind{lane: p.lane, group: leaves.Group, since: p.since, sentAt: now}
	g.lanes[p.lane].queue.start(g.groups[groupInLane{leaves.Group, p.lane}])
	g.dequeue(p)
	if p.lane == Small {
		g.largeInARow = 0
	} else {
		g.largeInARow++
	}
	g.lanes[p.lane].inFlight++
	return leaves, true
}

// choose returns the pod that leaves next, or nil. A started group goes before all
// others if the rest of it leaves within about a second. Otherwise pods that arrive
// meanwhile could pass its last pods, and a part of the group would wait.
func (g *Queue) choose(now time.Time) *assignedPod {
	small, large := &g.lanes[Small], &g.lanes[Large]
	maxRemaining := max(2*g.limit.max, small.binds.count(now)+large.binds.count(now))
	p, pEndsSoon := small.queue.first(maxRemaining)
	if p != nil && g.largeInARow >= smallLaneInterval-1 {
		return p
	}
	if o, oEndsSoon := large.queue.first(maxRemaining); goesBefore(o, oEndsSoon, p, pEndsSoon) {
		return o
	}
	return p
}

// Bound records that a pod was bound.
func (g *Queue) Bound(uid types.UID, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s, ok := g.bindAnswered(uid, now); ok {
		g.lanes[s.lane].binds.add(now)
		g.limit.grow(now)
		g.succeeded++
	}
	g.forget(uid, now)
}

// Failed records that a pod was not bound, or stopped waiting to be bound. Only
// another scheduling cycle brings it back. Its lane is kept until Forget.
func (g *Queue) Failed(uid types.UID, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bindAnswered(uid, now)
	if p := g.pods[uid]; p != nil {
		g.stopCounting(p)
		g.dequeue(p)
		p.since = time.Time{}
		g.lanes[p.lane].updateBusySince(now)
	}
}

// Throttled records that the API server was too busy for a bind. It puts the pod back,
// before all others of its group, and returns true. It returns false if the pod was
// forgotten meanwhile. The whole queue pauses for retryAfter, but at most for maxPause.
// A pod that was throttled before backs off for longer, so that others leave first.
func (g *Queue) Throttled(p Pod, retryAfter time.Duration, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	s, ok := g.bindAnswered(p.UID, now)
	if !ok {
		return false
	}
	retryAfter = min(retryAfter, maxPause)
	g.limit.halve(s.sentAt, now, retryAfter)
	known := g.pods[p.UID]
	if known == nil {
		return false
	}
	wait := known.backoff.next(g.succeeded, g.throttled, retryAfter)
	g.throttled++
	if wait > retryAfter {
		known.backoffUntil = now.Add(wait)
	}
	g.enqueue(known, p, now)
	return true
}

// bindAnswered records that a bind was answered. It returns false if the bind was not in flight.
func (g *Queue) bindAnswered(uid types.UID, now time.Time) (inFlightBind, bool) {
	s, ok := g.inFlight[uid]
	if ok {
		delete(g.inFlight, uid)
		g.lanes[s.lane].inFlight--
		g.lanes[s.lane].updateBusySince(now)
	}
	return s, ok
}

// NextTime returns when Next may return a pod although nothing else happens: at the end
// of the pause, or of the first backoff. It is zero if only an event lets a pod leave.
func (g *Queue) NextTime(now time.Time) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.limit.pausedUntil.After(now):
		return g.limit.pausedUntil
	case len(g.inFlight) >= g.limit.current:
		return time.Time{} // only an answer lets a pod leave
	case g.backoffQ.Len() > 0:
		return g.backoffQ.first().backoffUntil
	}
	return time.Time{}
}
