package gang

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

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
	// tentativeMembers: an assignment that the API does not show yet. unboundMembers:
	// the same without the members that were bound.
	tentativeMembers
	unboundMembers
	// presentMembers: isPresent. placedMembers: isPlaced. reservedMembers: isReserved.
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
	// membersNeedingPodGroup: the member waits for its PodGroup to exist.
	membersNeedingPodGroup
	// membersNeedingMinimum: the member has no node, and waits for a minimum of its native PodGroup.
	membersNeedingMinimum
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

// A requestCount counts the members with one request.
type requestCount struct {
	all int
	// waiting counts the members that wait. running counts the members that have not ended.
	waiting, running int
}

// A memberCount is what a member counts as.
type memberCount struct {
	has      [numProperties]bool
	priority int32
	request  request
	running  bool
	template string
	// ofTemplate says what the member counts as in its template. place is where the member is
	// present. It is zero if it is nowhere.
	ofTemplate templateCount
	place      place
}

// count returns what the member counts as now.
func (m *member) count() memberCount {
	c := memberCount{priority: m.priority(), request: request{m.topology, m.pod.Annotations[group.MatchPolicyAnnotation]}, running: !isTerminal(m.pod)}
	deleted := m.pod.DeletionTimestamp != nil
	if c.template = group.TemplateOf(m.pod); c.template != "" {
		if !deleted && m.pod.Status.Phase != corev1.PodFailed {
			c.ofTemplate.all = 1
			if m.pod.Status.Phase == corev1.PodSucceeded {
				c.ofTemplate.succeeded = 1
			}
		}
		if m.isWaiting() || m.isPresent() {
			c.ofTemplate.active = 1
		}
		if !deleted && c.running && m.pod.Spec.NodeName == "" && m.assignment == nil {
			c.ofTemplate.unplaced = 1
			if !m.isGated() {
				c.ofTemplate.waiting = 1
			}
		}
		if m.isPresent() {
			c.place = place{c.template, m.node()}
		}
	}
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
		refusedMembers:         m.isRemembered(),
		membersNeedingPodGroup: m.needsPodGroup,
		membersNeedingMinimum:  m.needsMinimum && m.isWaiting(),
		faultyMembers:          m.isWaiting() && (m.missingOwner != (group.Owner{}) || m.labelFault != nil || m.policyError != nil || m.durationError != nil),
		membersInPositions:     m.isPresent() && m.position != nil,
		presentWithoutPosition: m.isPresent() && m.position == nil,
		replacingMembers:       m.isWaiting() && m.assignment == nil && m.position != nil,
		unsettledMembers:       m.hasNode() && m.exclusivity == ExclusivityUnknown,
	}
	return c
}

// A tally counts the members of a group by what they have, so that an event of one member
// costs no look at the others. Whatever changes a member calls changed. The member is counted
// again when a number is next asked for.
type tally struct {
	members
	numbers [numProperties]int
	// priorities counts the members that are unassigned by their priority.
	priorities map[int32]int
	requests   map[request]requestCount
	// templates counts the members by template, and places those that are present by template and node.
	templates map[string]templateCount
	places    map[place]int
	// templateChanges counts the changes of templates and places.
	templateChanges uint64
	// refused are the members that are counted as refusedMembers.
	refused members
	// recount has the members that have changed since they were counted.
	recount []*member
	// moved has the members that have changed since updatePositions looked at them.
	moved []*member
	// youngestPlacedWaitingSince is the start of the wait of the youngest member that has had
	// a node. It counts the members of all incarnations, so the end of one does not reset it.
	youngestPlacedWaitingSince time.Time
}

// A tallyEntry is the part of a member in the tally of its group.
type tallyEntry struct {
	// counted is what the member was last counted as. It is nil if it is not counted.
	counted *memberCount
	// inRecount and inMoved say in which lists of the tally the member is.
	inRecount, inMoved bool
}

// changed records that a member has changed, or has come to the group or left it.
func (t *tally) changed(m *member) {
	if !m.inRecount {
		m.inRecount = true
		t.recount = append(t.recount, m)
	}
	if !m.inMoved {
		m.inMoved = true
		t.moved = append(t.moved, m)
	}
}

// number returns how many members have a property.
func (t *tally) number(p property) int {
	t.update()
	return t.numbers[p]
}

// membersWith returns the members with a property. It looks at the members only if there are any.
func (t *tally) membersWith(p property) []*member {
	if t.number(p) == 0 {
		return nil
	}
	var with []*member
	for _, m := range t.members {
		if m.counted.has[p] {
			with = append(with, m)
		}
	}
	return with
}

// orderedWith does what membersWith does, the oldest first.
func (t *tally) orderedWith(p property) []*member {
	with := t.membersWith(p)
	slices.SortFunc(with, older)
	return with
}

// update counts the members again that have changed.
func (t *tally) update() {
	for _, m := range t.recount {
		m.inRecount = false
		changes, was := t.templateChanges, m.counted
		if was != nil {
			t.add(was, -1)
			m.counted = nil
			delete(t.refused, m.pod.UID)
		}
		if t.members[m.pod.UID] != m {
			continue
		}
		is := m.count()
		m.counted = &is
		t.add(&is, 1)
		if was != nil && was.template == is.template && was.ofTemplate == is.ofTemplate && was.place == is.place {
			t.templateChanges = changes
		}
		if is.has[refusedMembers] {
			if t.refused == nil {
				t.refused = members{}
			}
			t.refused[m.pod.UID] = m
		}
		if is.has[placedMembers] {
			t.youngestPlacedWaitingSince = later(t.youngestPlacedWaitingSince, m.waitingSince())
		}
	}
	clear(t.recount)
	t.recount = t.recount[:0]
}

// add adds a member to the numbers, or takes it out if n is -1.
func (t *tally) add(m *memberCount, n int) {
	for p, has := range m.has {
		if has {
			t.numbers[p] += n
		}
	}
	if t.requests == nil {
		t.requests, t.priorities, t.templates = map[request]requestCount{}, map[int32]int{}, map[string]templateCount{}
		t.places = map[place]int{}
	}
	if m.template != "" {
		t.templateChanges++
		of := t.templates[m.template]
		t.templates[m.template] = templateCount{
			all: of.all + n*m.ofTemplate.all, active: of.active + n*m.ofTemplate.active,
			unplaced: of.unplaced + n*m.ofTemplate.unplaced, waiting: of.waiting + n*m.ofTemplate.waiting,
			succeeded: of.succeeded + n*m.ofTemplate.succeeded,
		}
	}
	if m.place != (place{}) {
		if t.places[m.place] += n; t.places[m.place] == 0 {
			delete(t.places, m.place)
		}
	}
	r := t.requests[m.request]
	r.all += n
	if m.has[waitingMembers] {
		r.waiting += n
	}
	if m.running {
		r.running += n
	}
	if t.requests[m.request] = r; r.all == 0 {
		delete(t.requests, m.request)
	}
	if m.has[unassignedMembers] {
		if t.priorities[m.priority] += n; t.priorities[m.priority] == 0 {
			delete(t.priorities, m.priority)
		}
	}
}

// forgetMoved records that the members that had changed were looked at.
func (t *tally) forgetMoved() {
	for _, m := range t.moved {
		m.inMoved = false
	}
	clear(t.moved)
	t.moved = t.moved[:0]
}

// preplaced returns how many members were on a node before they joined the
// group, and still are on one. The minimum is smaller by as many.
func (t *tally) preplaced() int { return t.number(preplacedOnNodes) }

// needsPodGroup reports whether the group waits for its PodGroup to exist.
func (t *tally) needsPodGroup() bool { return t.number(membersNeedingPodGroup) > 0 }
