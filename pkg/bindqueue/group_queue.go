package bindqueue

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// groupQueue holds the waiting pods of one group and lane, in the order in which they leave.
type groupQueue struct {
	key  groupInLane
	pods indexedHeap[*assignedPod]
	// started says that a bind of the group was sent.
	started bool
	// since is when the first of these pods arrived.
	since time.Time
	// index is the position in laneQueue.notStarted.
	index int
}

// groupInLane is a group in one lane. Members that come late may be in another lane than
// the rest of their group, so one group can have a queue in each.
type groupInLane struct {
	group types.NamespacedName
	lane  Lane
}

func newGroupQueue(of groupInLane, since time.Time) *groupQueue {
	return &groupQueue{key: of, since: since, pods: indexedHeap[*assignedPod]{before: (*assignedPod).before, index: (*assignedPod).heapIndex}}
}

// before reports whether p leaves before o, of the same group. Pods whose binds were
// throttled leave first, and otherwise pods leave by rank.
func (p *assignedPod) before(o *assignedPod) bool {
	if p, o := p.backoff.throttledCount > 0, o.backoff.throttledCount > 0; p != o {
		return p
	}
	return p.ranksBefore(o)
}

func (p *assignedPod) ranksBefore(o *assignedPod) bool { return p.queued.Rank.Less(o.queued.Rank) }

func (p *assignedPod) heapIndex() *int { return &p.index }

// laneQueue holds the groupQueues of one lane that
// are not empty. Pods that back off are not in them.
type laneQueue struct {
	// notStarted holds the groups of which no bind was sent, by the rank of their first pods.
	notStarted indexedHeap[*groupQueue]
	// started holds the other groups. They are few, because a group is finished
	// before the next one begins.
	started map[*groupQueue]bool
}

func newLaneQueue() laneQueue {
	return laneQueue{
		notStarted: indexedHeap[*groupQueue]{
			before: func(s, o *groupQueue) bool { return s.pods.first().ranksBefore(o.pods.first()) },
			index:  func(s *groupQueue) *int { return &s.index },
		},
		started: map[*groupQueue]bool{},
	}
}

// add adds a pod to the queue of its group.
func (c *laneQueue) add(s *groupQueue, p *assignedPod) {
	s.pods.add(p)
	switch {
	case s.started:
	case s.pods.Len() == 1:
		c.notStarted.add(s)
	default:
		c.notStarted.changed(s)
	}
	if p.queued.GroupIncomplete {
		c.start(s)
	}
}

// remove removes a pod from the queue of its group.
func (c *laneQueue) remove(s *groupQueue, p *assignedPod) {
	s.pods.remove(p)
	switch last := s.pods.Len() == 0; {
	case s.started && last:
		delete(c.started, s)
	case s.started:
	case last:
		c.notStarted.remove(s)
	default:
		c.notStarted.changed(s)
	}
}

// start records that a bind of a group was sent.
func (c *laneQueue) start(s *groupQueue) {
	if s.started {
		return
	}
	c.notStarted.remove(s)
	s.started = true
	c.started[s] = true
}

// first returns the pod that leaves first, or nil if there is none. A started group goes before
// all others if it has at most maxRemaining pods here.
// pEndsSoon reports whether the pod is of such a group.
func (c *laneQueue) first(maxRemaining int) (p *assignedPod, pEndsSoon bool) {
	if c.notStarted.Len() > 0 {
		p = c.notStarted.first().pods.first()
	}
	for s := range c.started {
		o, oEndsSoon := s.pods.first(), s.pods.Len() <= maxRemaining
		if goesBefore(o, oEndsSoon, p, pEndsSoon) {
			p, pEndsSoon = o, oEndsSoon
		}
	}
	return p, pEndsSoon
}

// goesBefore reports whether p leaves before o. pEndsSoon says that p is of a
// started group that ends soon, and oEndsSoon says the same of o. A nil pod leaves last.
func goesBefore(p *assignedPod, pEndsSoon bool, o *assignedPod, oEndsSoon bool) bool {
	switch {
	case p == nil || o == nil:
		return o == nil
	case pEndsSoon != oEndsSoon:
		return pEndsSoon
	}
	return p.ranksBefore(o)
}
