// Package gate decides which pod is bound next, and how far decisions on groups may run
// ahead of binds. It does no I/O, starts no goroutine and reads no clock: its caller
// sends the binds and says how they ended.
//
// A group asks for nodes when it is its turn (admission.go). Its pods are expected at the gate
// from then on, stand there when all else is done for them (group_queue.go), and leave in
// order (next.go), as many at a time as the API server takes (limit.go). A pod whose bind
// is refused again and again lets others go first (backoff.go). What stands at the gate, and
// how fast it left in the last second, decides whether the next group may ask (lane.go).
//
//	heap.go      who is first by an order that may change?
//	lane.go      how far may groups of a size run ahead of their binds?
//	limit.go     how many binds are in flight at a time?
//	queue.go      which pods are expected, and which have come?
//	backoff.go     how long does a pod stand aside whose bind was refused?
//	group_queue.go  in which order do pods stand at the gate?
//	admission.go      which group asks for nodes next?
//	snapshot.go      what stands at the gate, and since when?
//	next.go      which pod is bound next, and how did its bind end?
package bindqueue

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/gang"
)

// A Pod is one that stands at the gate: all is done for it but its bind.
type Pod struct {
	UID   types.UID
	Group types.NamespacedName
	// Rank is the pod's place in the queue.
	Rank gang.Rank
	// GroupStarted says that a bind of its group was sent before, and that it is not whole yet.
	GroupStarted bool
}

// Queue is the gate of one scheduler. Its methods are safe for concurrent use and return
// without waiting for anything.
type Queue struct {
	mu    sync.Mutex
	limit limit
	lanes [2]lane
	// pods are those that were given nodes, by what the gate knows of them.
	pods map[types.UID]*assignedPod
	// groups are those of which pods stand at the gate.
	groups map[inLane]*groupQueue
	// inFlight are the binds that were sent and not answered, with their lanes.
	inFlight map[types.UID]sent
	// largeInARow counts the pods of large groups that left since one of a small group did.
	largeInARow int
	// taken counts the binds that the API server took, and throttled those for which it was
	// too busy.
	taken, throttled int
	// aside are the pods whose binds are not sent before a time of their own.
	aside indexedHeap[*assignedPod]
}

// A sent bind has not been answered.
type sent struct {
	lane  Lane
	group types.NamespacedName
	// since is when the pod first came to the gate, and at when its bind was sent.
	since, sentAt time.Time
}

// assignedPod is a pod that was given a node.
type assignedPod struct {
	lane Lane
	// expectedUntil is until when an expected pod counts as one ahead; zero of one that stands
	// at the gate or no longer counts.
	expectedUntil time.Time
	// queued is set while the pod stands at the gate.
	queued *Pod
	// since is when it first came there.
	since time.Time
	// until is the time before which the pod's bind is not sent. A pod that stands at the gate
	// is in Gate.aside until then. It is zero for a pod in its group's standing.
	until time.Time
	// backoff is what was answered to its binds.
	backoff podBackoff
	// index is the pod's place in the heap that it is in: Gate.aside or standing.pods.
	index int
}

// New returns an empty gate that lets at most max binds be in flight.
func New(max int) *Queue {
	return &Queue{
		limit:    newLimit(max),
		pods:     map[types.UID]*assignedPod{},
		groups:   map[inLane]*groupQueue{},
		inFlight: map[types.UID]sent{},
		lanes:    [2]lane{newLane(max), newLane(max)},
		aside:    newAside(),
	}
}

// What is on its way to the gate counts for so long if it does not arrive. A group that
// may ask can be held by another plugin, and pods that are permitted may sit in PreBind for
// minutes: nobody is to wait for these.
const (
	admittedTimeout  = 2 * time.Second
	assignedTimeout  = 5 * time.Second
	permittedTimeout = time.Second
)

// Expect takes note of pods that were matched together.
func (g *Queue) Expect(uids []types.UID, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	in := LaneOf(len(uids))
	for _, uid := range uids {
		g.forget(uid, now)
		g.pods[uid] = &assignedPod{lane: in, expectedUntil: now.Add(assignedTimeout)}
		g.lanes[in].expected++
	}
	g.lanes[in].touch(now)
}

// Permitted takes note of expected pods whose group may be bound.
func (g *Queue) Permitted(uids []types.UID, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, uid := range uids {
		if p := g.pods[uid]; p != nil && p.expectedUntil.After(now.Add(permittedTimeout)) {
			p.expectedUntil = now.Add(permittedTimeout)
		}
	}
}

// Arrive takes note of a pod that stands at the gate.
func (g *Queue) Arrive(p Pod, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	known := g.pods[p.UID]
	if known == nil {
		// It has its node from an earlier attempt, and comes alone.
		known = &assignedPod{lane: Small}
		g.pods[p.UID] = known
	}
	g.enqueue(known, p, now)
}

// enqueue puts a pod among those that stand at the gate.
func (g *Queue) enqueue(known *assignedPod, p Pod, now time.Time) {
	l := &g.lanes[known.lane]
	g.stopCounting(known)
	g.dequeue(known)
	known.queued = &p
	if known.since.IsZero() {
		known.since = now
	}
	if known.until.After(now) {
		g.aside.add(known)
	} else {
		g.join(known)
	}
	l.waiting++
	l.touch(now)
}

// join puts a pod that stands at the gate among those of its group.
func (g *Queue) join(p *assignedPod) {
	of := inLane{p.queued.Group, p.lane}
	s := g.groups[of]
	if s == nil {
		s = newGroupQueue(of, p.since)
		g.groups[of] = s
	}
	p.until = time.Time{}
	g.lanes[p.lane].queue.add(s, p)
}

// Forget drops pods that have no node any more, that are gone, or that the API shows on
// their nodes. A bind of theirs that is in flight stays in flight until it is answered.
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
	g.lanes[p.lane].touch(now)
}

// stopCounting has an expected pod no longer count.
func (g *Queue) stopCounting(p *assignedPod) {
	if !p.expectedUntil.IsZero() {
		p.expectedUntil = time.Time{}
		g.lanes[p.lane].expected--
	}
}

// dequeue takes a pod from among those that stand.
func (g *Queue) dequeue(p *assignedPod) {
	if p.queued == nil {
		return
	}
	if !p.until.IsZero() {
		g.aside.remove(p)
	} else {
		s := g.groups[inLane{p.queued.Group, p.lane}]
		g.lanes[p.lane].queue.remove(s, p)
		if s.pods.Len() == 0 {
			delete(g.groups, s.key)
		}
	}
	p.queued = nil
	g.lanes[p.lane].waiting--
}

// Sweep stops counting pods and groups that are on their way for too long. While this
// scheduler does not lead, admitted groups cannot ask, and go on counting.
func (g *Queue) Sweep(now time.Time, leads bool) {
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
			if leads && t.counts && now.Sub(t.admitted) >= admittedTimeout {
				l.stopCounting(t)
			}
		}
		l.touch(now)
	}
}
