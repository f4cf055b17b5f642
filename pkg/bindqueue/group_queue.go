package bindqueue

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// groupQueue is the pods of one group and lane that stand at the gate, in the order in which
// they leave.
type groupQueue struct {
	key  inLane
	pods indexedHeap[*assignedPod]
	// started says that a bind of the group was sent.
	started bool
	// since is when the first of them came to the gate.
	since time.Time
	// index is the place among the groups of the lane that have not begun.
	index int
}

// inLane is a group in one of the lanes: members that come late may be in another one.
type inLane struct {
	group types.NamespacedName
	lane  Lane
}

func newGroupQueue(of inLane, since time.Time) *groupQueue {
	return &groupQueue{key: of, since: since, pods: indexedHeap[*assignedPod]{before: (*assignedPod).before, index: (*assignedPod).place}}
}

// before says whether a pod leaves before another of its group: those whose binds were
// refused, then by rank.
func (p *assignedPod) before(o *assignedPod) bool {
	if p, o := p.backoff.times > 0, o.backoff.times > 0; p != o {
		return p
	}
	return p.ranksBefore(o)
}

func (p *assignedPod) ranksBefore(o *assignedPod) bool { return p.queued.Rank.Less(o.queued.Rank) }

func (p *assignedPod) place() *int { return &p.index }

// laneQueue is the groups of a lane of which pods stand at the gate.
type laneQueue struct {
	// fresh holds the groups of which no bind was sent, in the order of their first pods.
	fresh indexedHeap[*groupQueue]
	// started holds the other groups. They are few: a group is finished before the next begins.
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

// add brings a pod to its group.
func (c *laneQueue) add(s *groupQueue, p *assignedPod) {
	s.pods.add(p)
	switch {
	case s.started:
	case s.pods.Len() == 1:
		c.fresh.add(s)
	default:
		c.fresh.changed(s)
	}
	if p.queued.GroupStarted {
		c.start(s)
	}
}

// remove takes a pod from its group.
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

// start takes note that a bind of a group was sent.
func (c *laneQueue) start(s *groupQueue) {
	if s.started {
		return
	}
	c.fresh.remove(s)
	s.started = true
	c.started[s] = true
}

// first returns the pod that leaves first, nil if none stands here. A group that has begun
// goes before all others if at most soon pods of it are left, as ends says.
func (c *laneQueue) first(soon int) (p *assignedPod, ends bool) {
	if c.fresh.Len() > 0 {
		p = c.fresh.first().pods.first()
	}
	for s := range c.started {
		o, oEnds := s.pods.first(), s.pods.Len() <= soon
		if goesBefore(o, oEnds, p, ends) {
			p, ends = o, oEnds
		}
	}
	return p, ends
}

// goesBefore says whether a pod leaves before another, which may be nil, by their groups.
func goesBefore(p *assignedPod, ends bool, o *assignedPod, oEnds bool) bool {
	switch {
	case p == nil || o == nil:
		return o == nil
	case ends != oEnds:
		return ends
	}
	return p.ranksBefore(o)
}
