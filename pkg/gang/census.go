package gang

import (
	"slices"
	"time"

	"github.com/flux-k8s/fluence/pkg/group"
)

// A property is something that a member has or does not have, and that its group counts.
type property uint

const (
	// waitingMembers: isWaiting. unassignedMembers: the same without an assignment.
	waitingMembers property = iota
	unassignedMembers
	// assignedMembers: an assignment. aliveAssignedMembers: the same without members that are being deleted.
	assignedMembers
	aliveAssignedMembers
	// tentativeMembers: an assignment that the API does not show yet. unbound
	// is the same without the members that were bound.
	tentativeMembers
	unboundMembers
	presentMembers
	placedMembers
	reservedMembers
	// membersOnNodes: hasNode. preplacedOnNodes: the same for preplaced members that are not being deleted.
	membersOnNodes
	preplacedOnNodes
	// aliveMembers: a pod that has not ended, and is not being deleted.
	aliveMembers
	// refusedLateMembers: wasRefused. refusedMembers: a refusal, or the count of failures of earlier ones.
	refusedLateMembers
	refusedMembers
	membersNeedingPodGroup
	// faultyMembers: a member that waits and has a fault of its own, for which the group may not be placed.
	faultyMembers
	// membersInPositions: a present member with a position. presentWithoutPosition: one without a
	// position. replacingMembers: a member that waits for the position that it has.
	membersInPositions
	presentWithoutPosition
	replacingMembers
	// unsettledMembers: a member on a node of which it is not known whether it is exclusive.
	unsettledMembers

	numProperties
)

// A request is what a pod asks for that is compared within its group.
type request struct {
	topology group.TopologyAnnotations
	// policy is the annotation of the match policy.
	policy string
}

// A requestCount counts the members with one request: all, those that wait, and those that have not ended.
type requestCount struct{ all, waiting, running int }

// A memberCount is what a member counts as.
type memberCount struct {
	has      [numProperties]bool
	priority int32
	request  request
	running  bool
}

// count returns what the member counts as now.
func (m *member) count() memberCount {
	c := memberCount{priority: m.priority(), request: request{m.topology, m.pod.Annotations[group.MatchPolicyAnnotation]}, running: !isTerminal(m.pod)}
	deleted := m.pod.DeletionTimestamp != nil
	c.has = [numProperties]bool{
		waitingMembers:         m.isWaiting(),
		unassignedMembers:      m.isWaiting() && m.assignment == nil,
		assignedMembers:        m.assignment != nil,
		aliveAssignedMembers:   m.assignment != nil && !deleted,
		tentativeMembers:       m.assignment != nil && !m.hasNode(),
		unboundMembers:         m.assignment != nil && !m.hasNode() && !m.isPlaced(),
		presentMembers:         m.isPresent(),
		placedMembers:          m.isPlaced(),
		reservedMembers:        m.isReserved(),
		membersOnNodes:         m.hasNode(),
		preplacedOnNodes:       m.preplaced && m.hasNode() && !deleted,
		aliveMembers:           c.running && !deleted,
		refusedLateMembers:     m.wasRefused(),
		refusedMembers:         m.refusalState.isRemembered(),
		membersNeedingPodGroup: m.needsPodGroup,
		faultyMembers:          m.isWaiting() && (m.missingOwner != (group.Owner{}) || m.labelFault != nil || m.policyError != nil),
		membersInPositions:     m.isPresent() && m.position != nil,
		presentWithoutPosition: m.isPresent() && m.position == nil,
		replacingMembers:       m.isWaiting() && m.assignment == nil && m.position != nil,
		unsettledMembers:       m.hasNode() && m.exclusivity == ExclusivityUnknown,
	}
	return c
}

// A census counts the members of a group by what they have, so that an event of one member
// costs no look at the others. Whatever changes a member calls changed. The member is counted
// again when a number is next asked for.
type census struct {
	members
	numbers [numProperties]int
	// priorities counts the members that are unassigned by their priority.
	priorities map[int32]int
	requests   map[request]requestCount
	// recount has the members that have changed since they were counted.
	recount []*member
	// moved has the members that have changed since updatePositions looked at them.
	moved []*member
	// youngestPlacedWaitingSince is the start of the wait of the youngest member that has had
	// a node. It counts the members of all incarnations, so the end of one does not reset it.
	youngestPlacedWaitingSince time.Time
}

// A censusEntry is the part of a member in the census of its group.
type censusEntry struct {
	// counted is what the member was last counted as. It is nil if it is not counted.
	counted *memberCount
	// inRecount and inMoved say in which lists of the census the member is.
	inRecount, inMoved bool
}

// changed records that a member has changed, or has come to the group or left it.
func (s *census) changed(m *member) {
	if !m.inRecount {
		m.inRecount = true
		s.recount = append(s.recount, m)
	}
	if !m.inMoved {
		m.inMoved = true
		s.moved = append(s.moved, m)
	}
}

// number returns how many members have a property.
func (s *census) number(p property) int {
	s.update()
	return s.numbers[p]
}

// membersWith returns the members with a property. It looks at the members only if there are any.
func (s *census) membersWith(p property) []*member {
	if s.number(p) == 0 {
		return nil
	}
	var with []*member
	for _, m := range s.members {
		if m.counted.has[p] {
			with = append(with, m)
		}
	}
	return with
}

// orderedWith does what membersWith does, the oldest first.
func (s *census) orderedWith(p property) []*member {
	with := s.membersWith(p)
	slices.SortFunc(with, older)
	return with
}

// update counts the members again that have changed.
func (s *census) update() {
	for _, m := range s.recount {
		m.inRecount = false
		if was := m.counted; was != nil {
			s.add(was, -1)
			m.counted = nil
		}
		if s.members[m.pod.UID] != m {
			continue
		}
		is := m.count()
		m.counted = &is
		s.add(&is, 1)
		if is.has[placedMembers] {
			s.youngestPlacedWaitingSince = later(s.youngestPlacedWaitingSince, m.waitingSince())
		}
	}
	s.recount = s.recount[:0]
}

// add adds a member to the numbers, or takes it out if n is -1.
func (c *census) add(m *memberCount, n int) {
	for p, has := range m.has {
		if has {
			c.numbers[p] += n
		}
	}
	if c.requests == nil {
		c.requests, c.priorities = map[request]requestCount{}, map[int32]int{}
	}
	r := c.requests[m.request]
	r.all += n
	if m.has[waitingMembers] {
		r.waiting += n
	}
	if m.running {
		r.running += n
	}
	if c.requests[m.request] = r; r.all == 0 {
		delete(c.requests, m.request)
	}
	if m.has[unassignedMembers] {
		if c.priorities[m.priority] += n; c.priorities[m.priority] == 0 {
			delete(c.priorities, m.priority)
		}
	}
}

// forgetMoved records that the members that had changed were looked at.
func (s *census) forgetMoved() {
	for _, m := range s.moved {
		m.inMoved = false
	}
	clear(s.moved)
	s.moved = s.moved[:0]
}

// preplaced returns how many members were on a node before they joined the
// group, and still are on one. The minimum is smaller by as many.
func (s *census) preplaced() int { return s.number(preplacedOnNodes) }

// needsPodGroup reports whether the group waits for its PodGroup to exist.
func (s *census) needsPodGroup() bool { return s.number(membersNeedingPodGroup) > 0 }
