package gate

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// standing is the pods of one group and lane that stand at the gate, in the order in which
// they leave.
type standing struct {
	of   inLane
	pods heapOf[*pod]
	// begun says that a bind of the group was sent.
	begun bool
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

func newStanding(of inLane, since time.Time) *standing {
	return &standing{of: of, since: since, pods: heapOf[*pod]{before: (*pod).before, index: (*pod).place}}
}

// before says whether a pod leaves before another of its group: those whose binds were
// refused, then by rank.
func (p *pod) before(o *pod) bool {
	if p, o := p.refused.times > 0, o.refused.times > 0; p != o {
		return p
	}
	return p.ranksBefore(o)
}

func (p *pod) ranksBefore(o *pod) bool { return p.at.Rank.Less(o.at.Rank) }

func (p *pod) place() *int { return &p.index }

// crowd is the groups of a lane of which pods stand at the gate.
type crowd struct {
	// fresh holds the groups of which no bind was sent, in the order of their first pods.
	fresh heapOf[*standing]
	// begun holds the other groups. They are few: a group is finished before the next begins.
	begun map[*standing]bool
}

func newCrowd() crowd {
	return crowd{
		fresh: heapOf[*standing]{
			before: func(s, o *standing) bool { return s.pods.first().ranksBefore(o.pods.first()) },
			index:  func(s *standing) *int { return &s.index },
		},
		begun: map[*standing]bool{},
	}
}

// add brings a pod to its group.
func (c *crowd) add(s *standing, p *pod) {
	s.pods.add(p)
	switch {
	case s.begun:
	case s.pods.Len() == 1:
		c.fresh.add(s)
	default:
		c.fresh.changed(s)
	}
	if p.at.Begun {
		c.begin(s)
	}
}

// remove takes a pod from its group.
func (c *crowd) remove(s *standing, p *pod) {
	s.pods.remove(p)
	switch last := s.pods.Len() == 0; {
	case s.begun && last:
		delete(c.begun, s)
	case s.begun:
	case last:
		c.fresh.remove(s)
	default:
		c.fresh.changed(s)
	}
}

// begin takes note that a bind of a group was sent.
func (c *crowd) begin(s *standing) {
	if s.begun {
		return
	}
	c.fresh.remove(s)
	s.begun = true
	c.begun[s] = true
}

// first returns the pod that leaves first, nil if none stands here. A group that has begun
// goes before all others if at most soon pods of it are left, as ends says.
func (c *crowd) first(soon int) (p *pod, ends bool) {
	if c.fresh.Len() > 0 {
		p = c.fresh.first().pods.first()
	}
	for s := range c.begun {
		o, oEnds := s.pods.first(), s.pods.Len() <= soon
		if goesBefore(o, oEnds, p, ends) {
			p, ends = o, oEnds
		}
	}
	return p, ends
}

// goesBefore says whether a pod leaves before another, which may be nil, by their groups.
func goesBefore(p *pod, ends bool, o *pod, oEnds bool) bool {
	switch {
	case p == nil || o == nil:
		return o == nil
	case ends != oEnds:
		return ends
	}
	return p.ranksBefore(o)
}
