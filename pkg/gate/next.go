package gate

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// share: of so many pods that leave, one is of the small lane, if any stands there.
const share = 8

// Next returns the pod that leaves the gate now, and false if none may. Its bind is in
// flight until Bound, Failed or Throttled says how it ended. Groups leave by rank, and
// one that has begun and is soon whole is finished before others begin.
func (g *Gate) Next(now time.Time) (Pod, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.inFlight) >= g.limit.now || now.Before(g.limit.pause) {
		return Pod{}, false
	}
	p := g.choose(now)
	if p == nil {
		return Pod{}, false
	}
	leaves := *p.at
	g.lanes[p.lane].crowd.begin(g.groups[inLane{leaves.Group, p.lane}])
	g.leavePlace(p)
	p.again = false
	if p.lane == Small {
		g.large = 0
	} else {
		g.large++
	}
	g.inFlight[leaves.UID] = sent{lane: p.lane, at: now}
	g.lanes[p.lane].inFlight++
	return leaves, true
}

// choose returns the pod that is to leave, or nil. A group that has begun goes before all
// others if what is left of it leaves within about a second: it is not to stay in part on
// nodes for those that come meanwhile.
func (g *Gate) choose(now time.Time) *pod {
	small, large := &g.lanes[Small], &g.lanes[Large]
	soon := max(2*g.limit.most, small.bound.count(now)+large.bound.count(now))
	p, ends := small.crowd.first(soon)
	if p != nil && g.large >= share-1 {
		return p
	}
	if o, oEnds := large.crowd.first(soon); goesBefore(o, oEnds, p, ends) {
		return o
	}
	return p
}

// Bound takes note that a pod was bound.
func (g *Gate) Bound(uid types.UID, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s, ok := g.land(uid, now); ok {
		g.lanes[s.lane].bound.add(now)
		g.limit.grow(now)
	}
	g.forget(uid, now)
}

// Failed takes note that a pod was not bound, and comes back to the gate by a further
// scheduling cycle if at all.
func (g *Gate) Failed(uid types.UID, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.land(uid, now)
	g.forget(uid, now)
}

// Throttled takes note that a bind was refused since the API server is overloaded. The
// pod stands at the gate again, before all others of its group, unless it was forgotten
// meanwhile: then it returns false. Nothing leaves the gate for as long as the server asked
// for.
func (g *Gate) Throttled(p Pod, after time.Duration, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	s, ok := g.land(p.UID, now)
	if !ok {
		return false
	}
	g.limit.halve(s.at, now, after)
	known := g.pods[p.UID]
	if known == nil {
		return false
	}
	known.again = true
	g.stand(known, p, now)
	return true
}

// land takes note that a bind was answered.
func (g *Gate) land(uid types.UID, now time.Time) (sent, bool) {
	s, ok := g.inFlight[uid]
	if ok {
		delete(g.inFlight, uid)
		g.lanes[s.lane].inFlight--
		g.lanes[s.lane].touch(now)
	}
	return s, ok
}

// Paused returns until when nothing leaves the gate; zero if pods leave as they come.
func (g *Gate) Paused(now time.Time) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.limit.pause.After(now) {
		return g.limit.pause
	}
	return time.Time{}
}
