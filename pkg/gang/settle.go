package gang

import (
	"math"
	"time"
)

// settle brings what is derived from a group's members up to date: it begins a
// new incarnation when nobody is seated any more, and drops an empty group.
func (g *core) settle(s *state) {
	var waiting, unconfirmed, binding, remembered bool
	s.checked, s.topology, s.neededBy = false, nil, ""
	onNode, refused, present := 0, 0, 0
	lowest, highest := int32(math.MaxInt32), int32(math.MinInt32)
	s.gang, s.brought = false, 0
	for _, m := range s.members {
		s.gang = s.gang || m.gang
		if m.refusedSeat() {
			refused++
		}
		remembered = remembered || m.refusal != nil
		if m.waits() && m.seat == nil {
			waiting = true
			lowest, highest = min(lowest, m.priority()), max(highest, m.priority())
		}
		unconfirmed = unconfirmed || m.seat != nil && !m.holds()
		if m.present() {
			present++
		}
		if m.brought && m.holds() && m.pod.DeletionTimestamp == nil {
			s.brought++
		}
		binding = binding || m.seat != nil && !m.onNode() && !m.holds()
		if m.onNode() {
			onNode++
			s.youngest = later(s.youngest, m.since())
		}
	}
	ended := s.started && present == 0
	if ended {
		g.out.transition(Transition{Kind: Ended, Key: s.key})
		s.permitted, s.started, s.startTold, s.taken, s.complete = false, false, false, false, time.Time{}
		s.told, s.toldRefused, s.met = 0, 0, 0
		s.life++
		s.forgive()
	}
	if present == 0 {
		s.fenced, s.matched, s.toldShared = WholeUnknown, false, false
	}
	if present == 0 && (ended || !waiting) {
		s.created = time.Time{}
	}
	if onNode > 0 {
		// It may have begun before this process did, or by somebody else's bind.
		s.started, s.taken = true, true
	}
	if s.started && s.met == 0 && !s.matched && s.podGroup != nil {
		// A minimum that was raised since is none that the group has come up to.
		s.met = min(s.podGroup.Placed, s.minimum())
	}
	if s.started && present >= s.minimum() && (s.podGroup != nil || !s.gang) {
		// Of a gang whose PodGroup is yet to be seen the minimum is not known.
		s.met = max(s.met, s.minimum())
	}
	if !s.started && lowest < highest {
		// Another may have the group's priority now.
		s.representative = ""
	}
	g.occupy(s)
	s.told = min(s.told, onNode)
	if news := onNode > s.told || refused != s.toldRefused; s.podGroup != nil && !binding && onNode > 0 && news && onNode >= s.owed() {
		s.told, s.toldRefused = max(s.told, onNode), refused
		g.out.place(s.key)
	}
	if inVain := g.asksInVain(s) != ""; s.told > 0 && s.podGroup != nil && s.toldShared != inVain {
		s.toldShared = inVain
		g.out.place(s.key)
	}
	if !s.since.IsZero() || !s.complete.IsZero() {
		// A group with seats is past waiting, whoever joins it.
		if why, _ := g.incomplete(s); s.started || why != "" && !unconfirmed {
			s.since, s.complete = time.Time{}, time.Time{}
			s.astray, s.lacked = false, s.lacked || why != ""
			s.stayInTurn()
		}
	}
	missing := len(s.members) == 0 && s.podGroup != nil && !s.podGroup.Ended
	set(g.unseated, s, waiting || missing)
	set(g.refused, s, (waiting || missing) && (remembered || s.refusal != nil))
	set(g.seated, s, unconfirmed)
	g.await(s)
	g.yield(s)
	if len(s.members) == 0 && s.podGroup == nil {
		delete(g.groups, s.key)
		delete(g.wanting, s.key)
		g.yield(s)
	}
}
