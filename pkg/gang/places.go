package gang

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// A place is what one of those holds, or held, that make up the minimum of a group that has
// started. It outlives its member: who takes it thereafter replaces what was lost, and goes
// before all others. It is what was matched, and grows only when a greater one comes to it that
// has waited as a new group does.
type place struct {
	asks asks
	// by is the member that is in the place, or waits for it; nil if there is none.
	by *member
	// done says that nothing is to take the place: its member succeeded, or went to another group
	// with the room that it holds.
	done bool
	// node is where its member stands, or the last one stood, also by a seat that was not bound; it is
	// empty if that is not known. Was has the tolerations of that one's pod.
	node string
	was  *corev1.Pod
	// of is the group; nil once it has begun anew. Leaving counts the former members that are on
	// their way out and hold their room.
	of      *state
	leaving int
}

// asks is what a pod asks for, and how urgently.
type asks struct {
	amounts  map[string]int64
	priority int32
}

// asksOf is what a member asked for when that was first of interest: what a resize in place adds
// was not matched.
func (r *rules) asksOf(m *member) asks {
	if m.asks == nil {
		m.asks = &asks{priority: rankOf(m.pod).Priority}
		if r.amounts != nil {
			m.asks.amounts = r.amounts(m.pod)
		}
	}
	return *m.asks
}

// covers says whether who asks for b gets no more by a.
func (a asks) covers(b asks) bool {
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

// held says that the place has a member that counts.
func (p *place) held() bool { return p.by != nil && p.by.present() }

// mostLeaving is how many former members of a place may hold their room before another takes it.
// One on a node that is lost may do so for very long. If each could be replaced before it is gone,
// a place would hold the room of as many as somebody deletes.
const mostLeaving = 1

// free says that a member that waits may have the place.
func (p *place) free() bool { return p.by == nil && !p.done && p.leaving <= mostLeaving }

// give has a member be in the place, or wait for it. Who had it before has none.
func (p *place) give(m *member) {
	if p.by != nil {
		p.by.place, p.by.sought = nil, false
	}
	p.by, p.done, m.place = m, false, p
	if m.present() {
		p.stand(m)
	}
}

// stand takes note of where a member stands. Of its pod no more is kept than it takes to tell whether a
// node is closed to it.
func (p *place) stand(m *member) {
	p.node, p.was = m.node(), &corev1.Pod{Spec: corev1.PodSpec{Tolerations: m.pod.Spec.Tolerations}}
}

// vacate has a member leave its place.
func (m *member) vacate() {
	p := m.place
	if p == nil {
		return
	}
	// One that is on its way out has not done its part, however it ends.
	p.done = m.pod.Status.Phase == corev1.PodSucceeded && m.pod.DeletionTimestamp == nil
	p.by, m.place = nil, nil
	if m.pod.Spec.NodeName != "" || m.seat != nil {
		p.stand(m)
	}
	if m.holds() && m.pod.DeletionTimestamp != nil {
		m.left = p
		p.leaving++
	}
	p.of.fresh = append(p.of.fresh, p)
}

// moves has a member, which goes to another group with the room that it holds, leave its place to
// nobody.
func (m *member) moves() {
	if p := m.place; p != nil {
		m.vacate()
		p.done = true
	}
}

// occupy brings the places of a group up to date with who counts and who waits.
func (r *rules) occupy(s *state) {
	if !s.started {
		s.clearPlaces()
		return
	}
	for _, m := range s.members {
		if !m.present() && !m.waits() {
			m.vacate()
		}
	}
	r.hold(s)
	r.claim(s)
	s.fresh = nil
}

// clearPlaces has a group have none.
func (s *state) clearPlaces() {
	if s.places == nil && s.fresh == nil {
		return
	}
	for _, m := range s.members {
		m.place, m.sought = nil, false
	}
	for _, p := range s.places {
		p.of = nil
	}
	s.places, s.fresh, s.claimants, s.unseen = nil, nil, nil, false
}

// hold gives places to those that count: one that covers what they ask for, or one more while
// the group has fewer than members that it is to have, or any: what came without one was matched
// as a new group is.
func (r *rules) hold(s *state) {
	var open []*place
	for _, p := range s.places {
		if !p.held() {
			open = append(open, p)
		}
	}
	if len(open) == 0 && len(s.places) >= s.owed() {
		return
	}
	for _, m := range s.ordered(func(m *member) bool { return m.place == nil && m.present() }) {
		is := r.asksOf(m)
		p := least(open, is)
		switch {
		case p != nil:
		case len(s.places) < s.owed():
			p = &place{asks: is, of: s}
			s.places, s.fresh = append(s.places, p), append(s.fresh, p)
		case len(open) > 0:
			p = open[0]
			p.asks = is
		default:
			return
		}
		p.give(m)
		open = slices.DeleteFunc(open, (*place).held)
	}
}

// claim has members that wait for a seat claim places that are free, and lists all that do. A
// group may have lost members that this process never saw: their places are taken to be like
// those that are held.
func (r *rules) claim(s *state) {
	s.claimants = nil
	// The minimum may be known of late.
	again := len(s.places) < s.owed() && !s.unseen
	s.unseen = len(s.places) < s.owed()
	var news []*member
	for _, m := range s.members {
		m.sought = m.sought && !again
		switch {
		case !m.waits() || m.seat != nil:
		case m.place != nil:
			s.claimants = append(s.claimants, m)
		case !m.sought || len(s.fresh) > 0:
			news = append(news, m)
		}
	}
	slices.SortFunc(news, older)
	for _, m := range news {
		among := s.fresh
		if !m.sought {
			// From now on only what is new is of interest.
			among, m.sought = s.places, true
		}
		if p := s.claimable(r.asksOf(m), among); p != nil {
			p.give(m)
			s.claimants = append(s.claimants, m)
		}
	}
}

// claimable returns which of some places one that asks for so much may wait for; nil if none.
func (s *state) claimable(is asks, among []*place) *place {
	var free, held []*place
	for _, p := range among {
		switch {
		case p.free():
			free = append(free, p)
		case p.held():
			held = append(held, p)
		}
	}
	if p := least(free, is); p != nil {
		return p
	}
	if len(s.places) >= s.owed() || least(held, is) == nil {
		return nil
	}
	p := &place{asks: is, of: s}
	s.places = append(s.places, p)
	return p
}

// least returns the first of those places that cover what is asked for, and are covered by the
// others that do; nil if there is none.
func least(of []*place, is asks) *place {
	var best *place
	for _, p := range of {
		if p.asks.covers(is) && (best == nil || best.asks.covers(p.asks) && !p.asks.covers(best.asks)) {
			best = p
		}
	}
	return best
}
