package bindqueue

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// smallShare: of so many pods that leave, one is of the small lane, if any stands there.
const smallShare = 8

// Next returns the pod that leaves the gate now, and false if none may. Its bind is in
// flight until Bound, Failed or Throttled says how it ended. Groups leave by rank, and
// one that has begun and is soon whole is finished before others begin.
func (g *Queue) Next(now time.Time) (Pod, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.inFlight) >= g.limit.current || now.Before(g.limit.pause) {
		return Pod{}, false
	}
	for g.aside.Len() > 0 && !g.aside.first().until.After(now) {
		p := g.aside.first()
		g.aside.remove(p)
		g.join(p)
	}
	p := g.choose(now)
	if p == nil {
		return Pod{}, false
	}
	leaves := *p.queued
	g.inFlight[leaves.UID] = sent{lane: p.lane, group: leaves.Group, since: p.since, sentAt: now}
	g.lanes[p.lane].queue.start(g.groups[inLane{leaves.Group, p.lane}])
	g.dequeue(p)
	if p.lane == Small {
		g.largeInARow = 0
	} else {
		g.largeInARow++
	}
	g.lanes[p.lane].inFlight++
	return leaves, true
}

// choose returns the pod that is to leave, or nil. A group that has begun goes before all
// others if what is left of it leaves within about a second: otherwise those that come
// meanwhile would leave a part of it waiting.
func (g *Queue) choose(now time.Time) *assignedPod {
	small, large := &g.lanes[Small], &g.lanes[Large]
	soon := max(2*g.limit.most, small.binds.count(now)+large.binds.count(now))
	p, ends := small.queue.first(soon)
	if p != nil && g.largeInARow >= smallShare-1 {
		return p
	}
	if o, oEnds := large.queue.first(soon); goesBefore(o, oEnds, p, ends) {
		return o
	}
	return p
}

// Bound takes note that a pod was bound.
func (g *Queue) Bound(uid types.UID, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s, ok := g.land(uid, now); ok {
		g.lanes[s.lane].binds.add(now)
		g.limit.grow(now)
		g.taken++
	}
	g.forget(uid, now)
}

// Failed takes note that a pod was not bound, or does not stand at the gate any more, and
// comes back there by a further scheduling cycle if at all. Its lane is kept until Forget.
func (g *Queue) Failed(uid types.UID, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.land(uid, now)
	if p := g.pods[uid]; p != nil {
		g.stopCounting(p)
		g.dequeue(p)
		p.since = time.Time{}
		g.lanes[p.lane].touch(now)
	}
}

// Throttled takes note that a bind was refused since the API server is overloaded. The
// pod stands at the gate again, before all others of its group, unless it was forgotten
// meanwhile: then it returns false. Nothing leaves the gate for as long as the server asked
// for, but no longer than half a minute. If the pod was refused before, others leave first.
func (g *Queue) Throttled(p Pod, after time.Duration, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	s, ok := g.land(p.UID, now)
	if !ok {
		return false
	}
	after = min(after, maxPause)
	g.limit.halve(s.sentAt, now, after)
	known := g.pods[p.UID]
	if known == nil {
		return false
	}
	wait := known.backoff.next(g.taken, g.throttled, after)
	g.throttled++
	if wait > after {
		known.until = now.Add(wait)
	}
	g.enqueue(known, p, now)
	return true
}

// land takes note that a bind was answered.
func (g *Queue) land(uid types.UID, now time.Time) (sent, bool) {
	s, ok := g.inFlight[uid]
	if ok {
		delete(g.inFlight, uid)
		g.lanes[s.lane].inFlight--
		g.lanes[s.lane].touch(now)
	}
	return s, ok
}

// NextTime returns when a pod may leave the gate that may not now, though nothing happens
// meanwhile; zero if there is none.
func (g *Queue) NextTime(now time.Time) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.limit.pause.After(now):
		return g.limit.pause
	case len(g.inFlight) >= g.limit.current:
		return time.Time{} // an answer comes first
	case g.aside.Len() > 0:
		return g.aside.first().until
	}
	return time.Time{}
}
