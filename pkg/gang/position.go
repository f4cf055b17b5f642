package gang

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// A position stands for one required member of a started group, and not for a place in the queue.
// It outlives the member: the next member in it is a replacement, and goes before all other pods.
// Its demand is what its member was matched with. A member with a larger demand is no replacement.
// It may take an open position only after it was placed as an ordinary late member; then the
// position takes over its demand.
type position struct {
	demand demand
	// member is the member that fills the position, or
	// waits to fill it. It is nil if there is none.
	member *member
	// retired is true if no member may take the position any more: the
	// last one succeeded, or went to another group with its node.
	retired bool
	// node is the node of the member, or of the last one, even if
	// it was never bound. It is empty if the node is not known.
	node string
	// tolerations are the tolerations of the pod on that node.
	tolerations []corev1.Toleration
	// group is the group. It is nil once the group has begun anew.
	group *groupState
	// terminating is the number of former members that are being deleted and still have their nodes.
	terminating int
}

// demand is what a pod asks for, and its priority.
type demand struct {
	amounts  map[string]int64
	priority int32
}

// demandOf returns what a member asked for at the first call. What a
// resize in place adds later is left out, because it was not matched.
func (r *rules) demandOf(m *member) demand {
	if m.demand == nil {
		d := r.demandOfPod(m.pod)
		m.demand = &d
	}
	return *m.demand
}

// demandOfPod returns what a pod asks for.
func (r *rules) demandOfPod(pod *corev1.Pod) demand {
	d := demand{priority: rankOf(pod).Priority}
	if r.podRequests != nil {
		d.amounts = r.podRequests(pod)
	}
	return d
}

// covers reports whether b fits into a: its priority is
// not higher, and it asks for no more of any resource.
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

// isFilled reports whether the position has a present member.
func (p *position) isFilled() bool { return p.member != nil && p.member.isPresent() }

// maxTerminating is how many former members of a position may still have their
// nodes when another member takes it. One is allowed, because a pod on a
// lost node may stay for very long. Without a limit, a user who deletes each
// replacement in turn could hold the room of many pods through one position.
const maxTerminating = 1

// isFree reports whether a member that waits may have the position.
func (p *position) isFree() bool {
	return p.member == nil && !p.retired && p.terminating <= maxTerminating
}

// fill gives the position to a member, which fills it
// or waits to fill it. The former member loses it.
func (p *position) fill(m *member) {
	if o := p.member; o != nil {
		o.position, o.search = nil, 0
		o.group.changed(o)
	}
	p.member, p.retired, m.position = m, false, p
	m.group.changed(m)
	if m.isPresent() {
		p.recordNode(m)
	}
}

// recordNode records the node of a member. Of its pod it keeps only
// the tolerations, which decide whether a node is closed to the pod.
func (p *position) recordNode(m *member) {
	p.node, p.tolerations = m.node(), m.pod.Spec.Tolerations
}

// vacate takes a member out of its position.
func (m *member) vacate() {
	p := m.position
	if p == nil {
		return
	}
	// A pod that succeeded needs no replacement. A pod that is
	// being deleted needs one, even if it ends with success.
	p.retired = m.pod.Status.Phase == corev1.PodSucceeded && m.pod.DeletionTimestamp == nil
	p.member, m.position = nil, nil
	m.group.changed(m)
	if m.pod.Spec.NodeName != "" || m.assignment != nil {
		p.recordNode(m)
	}
	if m.hasNode() && m.pod.DeletionTimestamp != nil {
		m.formerPosition = p
		p.terminating++
	}
	p.group.changedPositions = append(p.group.changedPositions, p)
}

// retirePosition takes a member out of its position and closes the position.
// The member goes to another group with its node, so no pod replaces it.
func (m *member) retirePosition() {
	if p := m.position; p != nil {
		m.vacate()
		p.retired = true
	}
}

// updatePositions brings the positions of a group up to date with its
// present and waiting members. It looks only at the members that have changed.
func (r *rules) updatePositions(s *groupState) {
	if !s.started {
		s.clearPositions()
		return
	}
	for _, m := range s.moved {
		if !m.isPresent() && !m.isWaiting() {
			m.vacate()
		}
	}
	r.fillPositions(s)
	r.findReplacements(s)
	s.changedPositions, s.havePositions = nil, true
	s.forgetMoved()
}

// clearPositions removes all positions of a group.
func (s *groupState) clearPositions() {
	if s.havePositions || s.changedPositions != nil {
		for _, m := range s.members {
			m.position, m.search = nil, 0
			s.changed(m)
		}
		for _, p := range s.positions {
			p.group = nil
		}
		s.groupPositions = groupPositions{}
	}
	s.forgetMoved()
}

// fillPositions gives positions to present members that have none. Such a member gets an open
// position that covers its demand. Otherwise it gets a new one, if the group has fewer than the
// required number. Otherwise it gets any open one, and the position takes over its demand. That is
// fair, because a member without a position was placed without the precedence of a replacement.
func (r *rules) fillPositions(s *groupState) {
	filled := s.number(membersInPositions)
	if s.number(presentWithoutPosition) == 0 || filled == len(s.positions) && filled >= s.required() {
		return
	}
	var open []*position
	for _, p := range s.positions {
		if !p.isFilled() {
			open = append(open, p)
		}
	}
	for _, m := range s.ordered(func(m *member) bool { return m.position == nil && m.isPresent() }) {
		want := r.demandOf(m)
		p := smallestCovering(open, want)
		switch {
		case p != nil:
		case len(s.positions) < s.required():
			p = &position{demand: want, group: s}
			s.positions, s.changedPositions = append(s.positions, p), append(s.changedPositions, p)
		case len(open) > 0:
			p = open[0]
			p.demand = want
		default:
			return
		}
		p.fill(m)
		open = slices.DeleteFunc(open, (*position).isFilled)
	}
}

// findReplacements gives free positions to members that wait, and lists all members that
// wait for a position. If the group lost members before this process started, their demands
// are not known: a member may take such a position if a filled position covers its demand.
func (r *rules) findReplacements(s *groupState) {
	// The minimum may become known late. Then all are looked at again.
	if len(s.positions) < s.required() && !s.tooFewPositions || s.search == 0 {
		s.search++
	}
	s.tooFewPositions = len(s.positions) < s.required()
	for _, m := range s.replacements {
		if !m.replaces() {
			delete(s.replacements, m.pod.UID)
		}
	}
	for _, m := range s.moved {
		s.addReplacement(m)
	}
	for _, m := range membersToPosition(s) {
		among := s.changedPositions
		if m.search != s.search {
			// From now on only changed positions matter for this member.
			among, m.search = s.positions, s.search
		}
		if p := s.findPosition(r.demandOf(m), among); p != nil {
			p.fill(m)
			s.addReplacement(m)
		}
	}
}

// membersToPosition returns the members, the oldest first, for which a position has to be looked for.
func membersToPosition(s *groupState) []*member {
	if s.number(unassignedMembers) == s.number(replacingMembers) {
		return nil
	}
	mayFind := func(m *member) bool {
		return m.isWaiting() && m.assignment == nil && m.position == nil && (m.search != s.search || len(s.changedPositions) > 0)
	}
	if len(s.changedPositions) > 0 || s.searchedAll != s.search {
		s.searchedAll = s.search
		return s.ordered(mayFind)
	}
	found := slices.DeleteFunc(slices.Clone(s.moved), func(m *member) bool { return s.members[m.pod.UID] != m || !mayFind(m) })
	slices.SortFunc(found, older)
	return found
}

// replaces reports whether the member waits for the position that it has.
func (m *member) replaces() bool {
	return m.isWaiting() && m.assignment == nil && m.position != nil
}

// addReplacement lists a member among the replacements if it is one.
func (s *groupPositions) addReplacement(m *member) {
	if m.group.members[m.pod.UID] != m || !m.replaces() {
		return
	}
	if s.replacements == nil {
		s.replacements = members{}
	}
	s.replacements[m.pod.UID] = m
}

// findPosition returns a position that a member with this demand may wait for:
// a free one out of among, or a new one. It returns nil if there is none.
func (s *groupState) findPosition(want demand, among []*position) *position {
	var free, held []*position
	for _, p := range among {
		switch {
		case p.isFree():
			free = append(free, p)
		case p.isFilled():
			held = append(held, p)
		}
	}
	if p := smallestCovering(free, want); p != nil {
		return p
	}
	if len(s.positions) >= s.required() || smallestCovering(held, want) == nil {
		return nil
	}
	p := &position{demand: want, group: s}
	s.positions = append(s.positions, p)
	return p
}

// smallestCovering returns the smallest position that covers a demand, or
// the first if some cannot be compared. It returns nil if none covers it.
func smallestCovering(positions []*position, want demand) *position {
	var best *position
	for _, p := range positions {
		if p.demand.covers(want) && (best == nil || best.demand.covers(p.demand) && !p.demand.covers(best.demand)) {
			best = p
		}
	}
	return best
}
