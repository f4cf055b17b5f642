package gang

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// searchPause is the time between two searches for seats of one group.
const searchPause = 10 * time.Second

// A seatSearch is the seats that a started group has lost, or has not got yet, and that are looked for.
type seatSearch struct {
	// sought is how many seats are looked for, by template.
	sought map[string]int
	// lost says which seats were lost last, and why. It is empty if none were.
	lost string
	// nextSearch is when the next search may begin.
	nextSearch time.Time
}

// A HeldSeat is a free seat.
type HeldSeat struct {
	Group types.NamespacedName
	// ID distinguishes the seat from others of its group.
	ID string
	// Pod is the pod as it is expected.
	Pod  *corev1.Pod
	Node string
}

// HeldSeats returns the free seats of groups that have started, those of the oldest starts first.
func (g Seats) HeldSeats() []HeldSeat {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []HeldSeat
	for _, s := range g.inSearchOrder() {
		if !s.started {
			continue
		}
		for _, t := range s.free {
			all = append(all, HeldSeat{s.key, t.slot.Key, t.pod, t.slot.Node})
		}
	}
	return all
}

// inSearchOrder returns the groups with seats, the one that started first first.
func (g Seats) inSearchOrder() []*groupState {
	return slices.SortedFunc(maps.Values(g.seatedGroups), func(a, b *groupState) int {
		return cmp.Or(a.heldSince.Compare(b.heldSince), cmp.Compare(a.key.String(), b.key.String()))
	})
}

// LoseSeat gives back a seat whose pod could not be there any more. Another is looked for. The argument
// why says what has become of the room.
func (g Seats) LoseSeat(key types.NamespacedName, id, why string) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[key]
	if s == nil || !s.started {
		return g.output()
	}
	i := slices.IndexFunc(s.free, func(t *seat) bool { return t.slot.Key == id })
	if i < 0 {
		return g.output()
	}
	t := s.free[i]
	s.free = slices.Delete(s.free, i, i+1)
	g.releaseSeat(s, t)
	seek(s, t.template, 1)
	s.lost = fmt.Sprintf("a seat of template %s has no room any more, and another is looked for near the others: %s", t.template, why)
	g.noteGivenBack(s, 1, why)
	g.recompute(s)
	return g.output()
}

// seek has seats looked for.
func seek(s *groupState, template string, n int) {
	if s.sought == nil {
		s.sought = map[string]int{}
	}
	s.sought[template] += n
}

// seekMore has seats looked for if the owner of a started group with seats wants more pods than before.
func seekMore(s *groupState, before *Templates) {
	if !s.started || before == nil || len(s.free)+len(s.sought) == 0 {
		return
	}
	was := map[string]int{}
	for _, t := range before.List {
		was[t.Name] = t.Expected
	}
	for _, t := range templatesOf(s) {
		if more := t.Expected - was[t.Name]; more > 0 && t.Stage <= stageOf(s) {
			seek(s, t.Name, more)
		}
	}
}

// endSearch ends the search for seats of pods that are not expected any more, or have come.
func endSearch(s *groupState) {
	if len(s.sought) == 0 {
		return
	}
	open := map[string]int{}
	for _, t := range templatesOf(s) {
		open[t.Name] = openSeats(s, t)
	}
	for _, t := range s.free {
		open[t.template]--
	}
	maps.DeleteFunc(s.sought, func(template string, n int) bool {
		s.sought[template] = min(n, open[template])
		return s.sought[template] <= 0
	})
	if len(s.sought) == 0 {
		s.seatSearch = seatSearch{}
		s.version++
	}
}

// anySought reports whether a search for seats may begin.
func (r *registry) anySought(now time.Time) bool {
	for _, s := range r.seatedGroups {
		if len(s.sought) > 0 && !now.Before(s.nextSearch) {
			return true
		}
	}
	return false
}

// PlanSeats returns a Plan for the seats of a started group that are looked for. It returns false if there
// are none. The pods of the Plan do not exist. The caller passes it to AssignSeats or RefuseSeats.
func (g Seats) PlanSeats(now time.Time) (Plan, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.anySought(now) {
		return Plan{}, false
	}
	for _, s := range g.inSearchOrder() {
		if !s.started || len(s.sought) == 0 || s.podGroup == nil || now.Before(s.nextSearch) {
			continue
		}
		m := s.first((*member).isPresent)
		if m == nil {
			continue
		}
		s.nextSearch = now.Add(searchPause)
		p := Plan{Key: s.key, Holder: s.key.String(), Precedence: Precedence{Rank: m.rank(), Late: true}}
		p.Policy, p.Topology = g.policyFor(m), s.effectiveTopology().topology
		p.PodsPerNode, p.Occupied = perNode(s)
		for _, o := range s.ordered((*member).isPresent) {
			p.Near = append(p.Near, o.node())
		}
		for _, t := range s.free {
			p.Near = append(p.Near, t.slot.Node)
		}
		p.Domain, p.podGroup = s.podGroup.Domain, s.podGroup.UID
		p.Job = Matching(g).nextJob(s.id(""))
		p.standIns = map[types.UID]standIn{}
		sought, _ := g.boundSeats(s, s.sought, now)
		for _, e := range sought {
			p.standIns[e.pod.UID] = e
			p.Required = append(p.Required, e.pod)
		}
		if p.Expected = len(p.Required); p.Expected > 0 {
			p.uid = p.Required[0].UID
			return p, true
		}
	}
	return Plan{}, false
}

// AssignSeats gives a group the seats that a match has found for a Plan of PlanSeats.
func (g Seats) AssignSeats(p Plan, slots []match.Slot) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[p.Key]
	if s == nil || !s.started || s.podGroup == nil || s.podGroup.UID != p.podGroup {
		g.out.release(p.Job)
		return g.output()
	}
	for _, slot := range slots {
		e := p.standIns[types.UID(slot.Key)]
		if s.sought[e.template] == 0 {
			g.out.release(p.Job, slot.Key)
			continue
		}
		s.sought[e.template]--
		g.addSeats(s, []*seat{g.newSeat(e, p.Job, slot)})
	}
	g.recompute(s)
	g.out.activate(s.key)
	return g.output()
}

// RefuseSeats records that a search for seats has found none.
func (g Seats) RefuseSeats(p Plan, why string) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.groups[p.Key]; s != nil && len(s.sought) > 0 {
		n := 0
		for _, more := range s.sought {
			n += more
		}
		text := fmt.Sprintf("%s without room are looked for near the others: %s", reason.Plural(n, "seat"), why)
		if s.lost != text {
			s.lost = text
			s.version++
		}
	}
	return g.output()
}
