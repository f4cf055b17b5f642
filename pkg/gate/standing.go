package gate

import (
	"container/heap"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// standing is the pods of one group and lane that stand at the gate, a heap in the order
// in which they leave.
type standing struct {
	of   inLane
	pods []*pod
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

// first returns the pod that leaves first.
func (s *standing) first() *pod { return s.pods[0] }

// before says whether a pod leaves before another of its group: those whose binds were
// refused, then by rank.
func (p *pod) before(o *pod) bool {
	if p, o := p.refused.times > 0, o.refused.times > 0; p != o {
		return p
	}
	return p.ranksBefore(o)
}

func (p *pod) ranksBefore(o *pod) bool { return p.at.Rank.Less(o.at.Rank) }

// Len implements heap.Interface.
func (s *standing) Len() int { return len(s.pods) }

// Less implements heap.Interface.
func (s *standing) Less(i, j int) bool { return s.pods[i].before(s.pods[j]) }

// Swap implements heap.Interface.
func (s *standing) Swap(i, j int) {
	s.pods[i], s.pods[j] = s.pods[j], s.pods[i]
	s.pods[i].index, s.pods[j].index = i, j
}

// Push implements heap.Interface.
func (s *standing) Push(x any) {
	p := x.(*pod)
	p.index = len(s.pods)
	s.pods = append(s.pods, p)
}

// Pop implements heap.Interface.
func (s *standing) Pop() any {
	last := len(s.pods) - 1
	p := s.pods[last]
	s.pods[last] = nil
	s.pods = s.pods[:last]
	return p
}

// crowd is the groups of a lane of which pods stand at the gate.
type crowd struct {
	// fresh is a heap of those that have not begun, and begun those that have: these are
	// few, since groups are finished one by one.
	fresh []*standing
	begun map[*standing]bool
}

// add brings a pod to its group.
func (c *crowd) add(s *standing, p *pod) {
	heap.Push(s, p)
	switch {
	case s.begun:
	case len(s.pods) == 1:
		heap.Push(c, s)
	default:
		heap.Fix(c, s.index)
	}
	if p.at.Begun {
		c.begin(s)
	}
}

// remove takes a pod from its group.
func (c *crowd) remove(s *standing, p *pod) {
	heap.Remove(s, p.index)
	switch last := len(s.pods) == 0; {
	case s.begun && last:
		delete(c.begun, s)
	case s.begun:
	case last:
		heap.Remove(c, s.index)
	default:
		heap.Fix(c, s.index)
	}
}

// begin takes note that a bind of a group was sent.
func (c *crowd) begin(s *standing) {
	if s.begun {
		return
	}
	heap.Remove(c, s.index)
	s.begun = true
	c.begun[s] = true
}

// first returns the pod that leaves first, nil if none stands here. A group that has begun
// goes before all others if at most soon pods of it are left, as ends says.
func (c *crowd) first(soon int) (p *pod, ends bool) {
	if len(c.fresh) > 0 {
		p = c.fresh[0].first()
	}
	for s := range c.begun {
		o, oEnds := s.first(), len(s.pods) <= soon
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

// Len implements heap.Interface.
func (c *crowd) Len() int { return len(c.fresh) }

// Less implements heap.Interface.
func (c *crowd) Less(i, j int) bool { return c.fresh[i].first().ranksBefore(c.fresh[j].first()) }

// Swap implements heap.Interface.
func (c *crowd) Swap(i, j int) {
	c.fresh[i], c.fresh[j] = c.fresh[j], c.fresh[i]
	c.fresh[i].index, c.fresh[j].index = i, j
}

// Push implements heap.Interface.
func (c *crowd) Push(x any) {
	s := x.(*standing)
	s.index = len(c.fresh)
	c.fresh = append(c.fresh, s)
}

// Pop implements heap.Interface.
func (c *crowd) Pop() any {
	last := len(c.fresh) - 1
	s := c.fresh[last]
	c.fresh[last] = nil
	c.fresh = c.fresh[:last]
	return s
}
