package gang

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// A place is what one of those holds, or held, that make up the minimum of a group that has
// started. It outlives its member: who takes it thereafter replaces what was lost, and goes
// before all others. It is what was matched, and grows only when a greater one comes to it that
// has waited as a new group does.
type position struct {
	demand demand
	// member is the member that is in the place, or waits for it; nil if there is none.
	member *member
	// closed says that nothing is to take the place: its member succeeded, or went to another group
	// with the room that it holds.
	closed bool
	// node is where its member stands, or the last one stood, also by a seat that was not bound; it is
	// empty if that is not known. Was has the tolerations of that one's pod.
	node    string
	lastPod *corev1.Pod
	// group is the group; nil once it has begun anew. Leaving counts the former members that are on
	// their way out and hold their room.
	group   *groupState
	leavers int
}

// demand is what a pod asks for, and how urgently.
type demand struct {
	amounts  map[string]int64
	priority int32
}

// demandOf is what a member asked for when that was first of interest: what a resize in place adds
// was not matched.
func (r *rules) demandOf(m *member) demand {
	if m.demand == nil {
		m.demand = &demand{priority: rankOf(m.pod).Priority}
		if r.amounts != nil {
			m.demand.amounts = r.amounts(m.pod)
		}
	}
	return *m.demand
}

// covers says whether who asks for b gets no more by a.
func (a demand) covers(b demand) bool {
	if b.priority > a.priority {
		return false
	}
	for name, n := range b.amounts {
		if n > a.amounts[name] {
			return false
		}
	}
	return true
}

// isHeld says that the place has a member that counts.
func (p *position) isHeld() bool { return p.member != nil && p.member.isPresent() }

// maxLeavers is how many former members of a place may hold their room before another takes it.
// One on a node that is lost may do so for very long. If each could be replaced before it is gone,
// a place would hold the room of as many as somebody deletes.
const maxLeavers = 1

// isFree says that a member that waits may have the place.
func (p *position) isFree() bool { return p.member == nil && !p.closed && p.leavers <= maxLeavers }

// fill has a member be in the place, or wait for it. Who had it before has none.
func (p *position) fill(m *member) {
	if p.member != nil {
		p.member.position, p.member.searched = nil, false
	}
	p.member, p.closed, m.position = m, false, p
	if m.isPresent() {
		p.recordNode(m)
	}
}

// recordNode takes note of where a member stands. Of its pod no more is kept than it takes to tell whether a
// node is closed to it.
func (p *position) recordNode(m *member) {
	p.node, p.lastPod = m.node(), &corev1.Pod{Spec: corev1.PodSpec{Tolerations: m.pod.Spec.Tolerations}}
}

// vacate has a member leave its place.
func (m *member) vacate() {
	p := m.position
	if p == nil {
		return
	}
	// One that is on its way out has not done its part, however it ends.
	p.closed = m.pod.Status.Phase == corev1.PodSucceeded && m.pod.DeletionTimestamp == nil
	p.member, m.position = nil, nil
	if m.pod.Spec.NodeName != "" || m.assignment != nil {
		p.recordNode(m)
	}
	if m.hasNode() && m.pod.DeletionTimestamp != nil {
		m.formerPosition = p
		p.leavers++
	}
	p.group.changedPositions = append(p.group.changedPositions, p)
}

// closePosition has a member, which goes to another group with the room that it holds, leave its place to
// nobody.
func (m *member) closePosition() {
	if p := m.position; p != nil {
		m.vacate()
		p.closed = true
	}
}

// updatePositions brings the places of a group up to date with who counts and who waits.
func (r *rules) updatePositions(s *groupState) {
	if !s.started {
		s.clearPositions()
		return
	}
	for _, m := range s.members {
		if !m.isPresent() && !m.isWaiting() {
			m.vacate()
		}
	}
	r.fillPositions(s)
	r.findReplacements(s)
	s.changedPositions = nil
}

// clearPositions has a group have none.
func (s *groupState) clearPositions() {
	if s.positions == nil && s.changedPositions == nil {
		return
	}
	for _, m := range s.members {
		m.position, m.searched = nil, false
	}
	for _, p := range s.positions {
		p.group = nil
	}
	s.positions, s.changedPositions, s.replacements, s.tooFewPositions = nil, nil, nil, false
}

// fillPositions gives places to those that count: one that covers what they ask for, or one more while
// the group has fewer than members that it is to have, or any: what came without one was matched
// as a new group is.
func (r *rules) fillPositions(s *groupState) {
	var open []*position
	for _, p := range s.positions {
		if !p.isHeld() {
			open = append(open, p)
		}
	}
	if len(open) == 0 && len(s.positions) >= s.required() {
		return
	}
	for _, m := range s.ordered(func(m *member) bool { return m.position == nil && m.isPresent() }) {
		is := r.demandOf(m)
		p := smallestCovering(open, is)
		switch {
		case p != nil:
		case len(s.positions) < s.required():
			p = &position{demand: is, group: s}
			s.positions, s.changedPositions = append(s.positions, p), append(s.changedPositions, p)
		case len(open) > 0:
			p = open[0]
			p.demand = is
		default:
			return
		}
		p.fill(m)
		open = slices.DeleteFunc(open, (*position).isHeld)
	}
}

// findReplacements has members that wait for a seat claim places that are free, and lists all that do. A
// group may have lost members that this process never saw: their places are taken to be like
// those that are held.
func (r *rules) findReplacements(s *groupState) {
	s.replacements = nil
	// The minimum may be known of late.
	again := len(s.positions) < s.required() && !s.tooFewPositions
	s.tooFewPositions = len(s.positions) < s.required()
	var news []*member
	for _, m := range s.members {
		m.searched = m.searched && !again
		switch {
		case !m.isWaiting() || m.assignment != nil:
		case m.position != nil:
			s.replacements = append(s.replacements, m)
		case !m.searched || len(s.changedPositions) > 0:
			news = append(news, m)
		}
	}
	slices.SortFunc(news, older)
	for _, m := range news {
		among := s.changedPositions
		if !m.searched {
			// From now on only what is new is of interest.
			among, m.searched = s.positions, true
		}
		if p := s.findPosition(r.demandOf(m), among); p != nil {
			p.fill(m)
			s.replacements = append(s.replacements, m)
		}
	}
}

// findPosition returns which of some places one that asks for so much may wait for; nil if none.
func (s *groupState) findPosition(is demand, among []*position) *position {
	var free, held []*position
	for _, p := range among {
		switch {
		case p.isFree():
			free = append(free, p)
		case p.isHeld():
			held = append(held, p)
		}
	}
	if p := smallestCovering(free, is); p != nil {
		return p
	}
	if len(s.positions) >= s.required() || smallestCovering(held, is) == nil {
		return nil
	}
	p := &position{demand: is, group: s}
	s.positions = append(s.positions, p)
	return p
}

// smallestCovering returns the first of those places that cover what is asked for, and are covered by the
// others that do; nil if there is none.
func smallestCovering(of []*position, is demand) *position {
	var best *position
	for _, p := range of {
		if p.demand.covers(is) && (best == nil || best.demand.covers(p.demand) && !p.demand.covers(best.demand)) {
			best = p
		}
	}
	return best
}
