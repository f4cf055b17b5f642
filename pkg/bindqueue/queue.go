// Package bindqueue decides which pod is bound next, and how far placements run ahead
// of binds. It does no I/O, starts no goroutine and reads no clock. Its caller sends
// the binds and reports how they ended.
//
// A group is admitted before it places (admission.go). From its match on, its pods are expected
// in the bind queue. A pod arrives when only its bind is left to do, and waits there in the
// queue of its group (group_queue.go). Pods leave in order (next.go), and no more binds are in
// flight than the API server takes (limit.go). A pod whose binds are throttled repeatedly is
// set aside, so that other pods go first (backoff.go). How many pods wait, and how many were
// bound in the last second, decides whether the next group is admitted (lane.go).
//
//	heap.go         which element is first, in an order that changes?
//	lane.go         how many pods may be ahead of the next group?
//	limit.go        how many binds may be in flight?
//	queue.go        which pods are expected, and which have arrived?
//	backoff.go      how long does a pod back off whose bind was throttled?
//	group_queue.go  in which order do the pods of a lane wait?
//	admission.go    which group may place next?
//	snapshot.go     what waits, and since when?
//	next.go         which pod is bound next, and how did its bind end?
package bindqueue

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/gang"
)

// A Pod waits in the bind queue: only its bind is left to do.
type Pod struct {
	UID   types.UID
	Group types.NamespacedName
	// Rank is the pod's place in the scheduling queue.
	Rank gang.Rank
	// GroupIncomplete says that binds of the pod's group were sent before, and that the
	// group still lacks pods with nodes.
	GroupIncomplete bool
}

// Queue is the bind queue of one scheduler. Its methods are safe for concurrent use
// and do not block.
type Queue struct {
	mu    sync.Mutex
	limit limit
	lanes [2]lane
	// pods holds the pods that were assigned a node, until they are bound or forgotten.
	pods map[types.UID]*assignedPod
	// groups holds the queues of groups with waiting pods that are not set aside.
	groups map[groupInLane]*groupQueue
	// inFlight holds the binds that were sent and not answered.
	inFlight map[types.UID]inFlightBind
	// largeInARow counts the pods that left the large lane since a pod last left the small lane.
	largeInARow int
	// succeeded counts the binds that succeeded. throttled counts the binds for which the
	// API server was too busy.
	succeeded, throttled int
	// backoffQ holds the waiting pods that back off. The first is the pod whose backoff ends first.
	backoffQ indexedHeap[*assignedPod]
}

// inFlightBind is a bind that was sent and not answered.
type inFlightBind struct {
	lane  Lane
	group types.NamespacedName
	// since is when the pod first arrived in the bind queue. sentAt is when its bind was sent.
	since, sentAt time.Time
}

// assignedPod is a pod that was assigned a node.
type assignedPod struct {
	lane Lane
	// expectedUntil is until when an expected pod counts as ahead. It is zero once
	// the pod has arrived, or no longer counts.
	expectedUntil time.Time
	// queued is the pod as it arrived. It is nil while the pod does not wait in the bind queue.
	queued *Pod
	// since is when the pod first arrived. Failed sets it back to zero.
	since time.Time
	// backoffUntil is when the pod's backoff ends. Invariant: a waiting pod is in
	// Queue.backoffQ if backoffUntil is set, and otherwise in the queue of its group.
	backoffUntil time.Time
	// backoff counts how often the pod's binds were throttled.
	backoff podBackoff
	// index is the pod's position in the heap that holds it: Queue.backoffQ or groupQueue.pods.
	index int
}

// New returns an empty bind queue that lets at most max binds be in flight.
func New(max int) *Queue {
	return &Queue{
		limit:    newLimit(max),
		pods:     map[types.UID]*assignedPod{},
		groups:   map[groupInLane]*groupQueue{},
		inFlight: map[types.UID]inFlightBind{},
		lanes:    [2]lane{newLane(max), newLane(max)},
		backoffQ: newBackoffQ(),
	}
}

// These are the times for which pods on their way count as ahead. Another plugin may
// hold an admitted group, and a permitted pod may be in PreBind for minutes. Without
// these times all groups behind them would wait as long.
const (
	admittedTimeout  = 2 * time.Second
	assignedTimeout  = 5 * time.Second
	permittedTimeout = time.Second
)

// Expect records pods that were matched together. They count as ahead for at most assignedTimeout.
func (g *Queue) Expect(uids []types.UID, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	lane := LaneOf(len(uids))
	for _, uid := range uids {
		g.forget(uid, now)
		g.pods[uid] = &assignedPod{lane: lane, expectedUntil: now.Add(assignedTimeout)}
		g.lanes[lane].expected++
	}
	g.lanes[lane].updateBusySince(now)
}

// Permitted records that expected pods have passed Permit. From now on they count as
// ahead for at most permittedTimeout.
func (g *Queue) Permitted(uids []types.UID, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, uid := range uids {
		if p := g.pods[uid]; p != nil && p.expectedUntil.After(now.Add(permittedTimeout)) {
			p.expectedUntil = now.Add(permittedTimeout)
		}
	}
}

// Arrive records that a pod waits to be bound.
func (g *Queue) Arrive(p Pod, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	known := g.pods[p.UID]
	if known == nil {
		// The pod has its node from an earlier attempt. It comes alone, so its lane is
		// the small one.
		known = &assignedPod{lane: Small}
		g.pods[p.UID] = known
	}
	g.enqueue(known, p, now)
}

// enqueue puts a pod into the bind queue: into aside while it backs off, otherwise
// into the queue of its group.
func (g *Queue) enqueue(known *assignedPod, p Pod, now time.Time) {
	l := &g.lanes[known.lane]
	g.stopCounting(known)
	g.dequeue(known)
	known.queued = &p
	if known.since.IsZero() {
		known.since = now
	}
	if known.backoffUntil.After(now) {
		g.backoffQ.add(known)
	} else {
		g.enqueueInGroup(known)
	}
	l.waiting++
	l.updateBusySince(now)
}

// enqueueInGroup adds a pod to the queue of its group.
func (g *Queue) enqueueInGroup(p *assignedPod) {
	key := groupInLane{p.queued.Group, p.lane}
	s := g.groups[key]
	if s == nil {
		s = newGroupQueue(key, p.since)
		g.groups[key] = s
	}
	p.backoffUntil = time.Time{}
	g.lanes[p.lane].queue.add(s, p)
}

// Forget drops pods that have lost their nodes, that are gone, or that the API shows on
// their nodes. Their binds that are in flight stay in flight until they are answered.
func (g *Queue) Forget(now time.Time, uids ...types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, uid := range uids {
		g.forget(uid, now)
	}
}

func (g *Queue) forget(uid types.UID, now time.Time) {
	p := g.pods[uid]
	if p == nil {
		return
	}
	g.stopCounting(p)
	g.dequeue(p)
	delete(g.pods, uid)
	g.lanes[p.lane].updateBusySince(now)
}

// stopCounting removes an expected pod from the count of its lane.
func (g *Queue) stopCounting(p *assignedPod) {
	if !p.expectedUntil.IsZero() {
		p.expectedUntil = time.Time{}
		g.lanes[p.lane].expected--
	}
}

// dequeue removes a pod from the bind queue. It does nothing if the pod does not wait there.
func (g *Queue) dequeue(p *assignedPod) {
	if p.queued == nil {
		return
	}
	if !p.backoffUntil.IsZero() {
		g.backoffQ.remove(p)
	} else {
		s := g.groups[groupInLane{p.queued.Group, p.lane}]
		g.lanes[p.lane].queue.remove(s, p)
		if s.pods.Len() == 0 {
			delete(g.groups, s.key)
		}
	}
	p.queued = nil
	g.lanes[p.lane].waiting--
}

// ExpireCounts stops counting the pods and groups that have been on their way for too long. While this
// scheduler does not lead, admitted groups go on counting, because they cannot place then.
func (g *Queue) ExpireCounts(now time.Time, leads bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.pods {
		if !p.expectedUntil.IsZero() && !p.expectedUntil.After(now) {
			g.stopCounting(p)
		}
	}
	for i := range g.lanes {
		l := &g.lanes[i]
		for _, t := range l.admissions.byGroup {
			if leads && t.isCounted && now.Sub(t.admitted) >= admittedTimeout {
				l.stopCounting(t)
			}
		}
		l.updateBusySince(now)
	}
}
