package bindqueue

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// groupQueue holds the waiting pods of one group and lane, in the order in which they leave.
type groupQueue struct {
	key  inLane
	pods indexedHeap[*assignedPod]
	// started says that a bind of the group was sent.
	started bool
	// since is when the first of these pods arrived.
	since time.Time
	// index is the position in laneQueue.fresh.
	index int
}

// inLane is a group in one lane. Members that come late may be in another lane than
// the rest of their group, so one group can have a queue in each.
type inLane struct {
	group types.NamespacedName
	lane  Lane
}

func newGroupQueue(of inLane, since time.Time) *groupQueue {
	return &groupQueue{key: of, since: since, pods: indexedHeap[*assignedPod]{before: (*assignedPod).before, index: (*assignedPod).place}}
}

// before reports whether p leaves before o, of the same group. Pods whose binds were
// throttled leave first, and otherwise pods leave by rank.
func (p *assignedPod) before(o *assignedPod) bool {
	if p, o := p.backoff.times > 0, o.backoff.times > 0; p != o {
		return p
	}
	return p.ranksBefore(o)
}

func (p *assignedPod) ranksBefore(o *assignedPod) bool { return p.queued.Rank.Less(o.queued.Rank) }

func (p *assignedPod) place() *int { return &p.index }

// laneQueue holds the groupQueues of one lane that
// are not empty. Pods that back off are not in them.
type laneQueue struct {
	// fresh holds the groups of which no bind was sent, by the rank of their first pods.
	fresh indexedHeap[*groupQueue]
	// started holds the other groups. They are few, because a group is finished
	// before the next one begins.
	started map[*groupQueue]bool
}

func newLaneQueue() laneQueue {
	return laneQueue{
		fresh: indexedHeap[*groupQueue]{
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
		c.fresh.add(s)
	default:
		c.fresh.changed(s)
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
		c.fresh.remove(s)
	default:
		c.fresh.changed(s)
	}
}

// start records that a bind of a group was sent.
func (c *laneQueue) start(s *groupQueue) {
	if s.started {
		return
	}
	c.fresh.remove(s)
	s.started = true
	c.started[s] = true
}

// first returns the pod that leaves first, or nil if there is none. A started group goes before
// all others if it has at most maxRemaining pods here.
// finishesGroup reports whether the pod is of such a group.
func (c *laneQueue) first(maxRemaining int) (p *assignedPod, finishesGroup bool) {
	if c.fresh.Len() > 0 {
		p = c.fresh.first().pods.first()
	}
	for s := range c.started {
		o, oEnds := s.pods.first(), s.pods.Len() <= maxRemaining
		if goesBefore(o, oEnds, p, finishesGroup) {
			p, finishesGroup = o, oEnds
		}
	}
	return p, finishesGroup
}

// goesBefore reports whether p leaves before o. ends says that p is of a started
// group that ends soon, and oEnds says the same of o. A nil pod leaves last.
func goesBefore(p *assignedPod, ends bool, o *assignedPod, oEnds bool) bool {
	switch {
	case p == nil || o == nil:
		return o == nil
	case ends != oEnds:
		return ends
	}
	return p.ranksBefore(o)
}
