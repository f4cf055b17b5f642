package gate

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/gang"
)

// An Asker is a group that may ask for nodes as far as it goes itself.
type Asker struct {
	Group types.NamespacedName
	// Rank is the place in the queue of the pod that asks for it.
	Rank gang.Rank
	// Pods is how many it asks for.
	Pods int
}

// turns is the groups of one lane that ask, or want to.
type turns struct {
	// line holds the groups that wait for their turn.
	line heapOf[*turn]
	// all are these and those that were admitted, by group.
	all map[types.NamespacedName]*turn
}

// turn is a group's turn to ask.
type turn struct {
	Asker
	// since is when it came into the line.
	since time.Time
	// admitted is when it was admitted; zero while it waits.
	admitted time.Time
	// counts says that its pods count as ahead of the next group.
	counts bool
	index  int
}

func newTurns() turns {
	return turns{
		line: heapOf[*turn]{
			before: func(t, o *turn) bool { return t.Rank.Less(o.Rank) },
			index:  func(t *turn) *int { return &t.index },
		},
		all: map[types.NamespacedName]*turn{},
	}
}

// Admit says whether a group may ask now. One that may not waits for its turn, and Due
// names it when that has come. A group that was admitted may ask until Asked.
func (g *Gate) Admit(a Asker, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	in := LaneOf(a.Pods)
	g.dropTurn(1-in, a.Group, now)
	l := &g.lanes[in]
	t := l.turns.all[a.Group]
	switch {
	case t == nil:
		t = &turn{Asker: a, since: now}
		l.turns.all[a.Group] = t
		l.turns.line.add(t)
	case !t.admitted.IsZero():
		if t.counts {
			l.admitted += a.Pods - t.Pods
		}
		t.Asker = a
		return true
	default:
		t.Asker = a
		l.turns.line.changed(t)
	}
	if l.turns.line.first() != t || !l.room(a.Pods, now) {
		return false
	}
	l.admit(t, now)
	return true
}

// admit lets the first in the line ask.
func (l *lane) admit(t *turn, now time.Time) {
	l.turns.line.remove(t)
	t.admitted, t.counts = now, true
	l.admitted += t.Pods
	l.touch(now)
}

// stopCounting has a group that was admitted no longer count.
func (l *lane) stopCounting(t *turn) {
	if t.counts {
		t.counts = false
		l.admitted -= t.Pods
	}
}

// Due admits the groups whose turn has come, and names them: the caller has them ask.
func (g *Gate) Due(now time.Time) []types.NamespacedName {
	g.mu.Lock()
	defer g.mu.Unlock()
	var due []types.NamespacedName
	for i := range g.lanes {
		l := &g.lanes[i]
		for l.turns.line.Len() > 0 && l.room(l.turns.line.first().Pods, now) {
			t := l.turns.line.first()
			l.admit(t, now)
			due = append(due, t.Group)
		}
	}
	return due
}

// Asked takes note that a group has asked, or does not want to any more.
func (g *Gate) Asked(key types.NamespacedName, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, in := range Lanes() {
		g.dropTurn(in, key, now)
	}
}

func (g *Gate) dropTurn(in Lane, key types.NamespacedName, now time.Time) {
	l := &g.lanes[in]
	t := l.turns.all[key]
	switch {
	case t == nil:
		return
	case t.admitted.IsZero():
		l.turns.line.remove(t)
	default:
		l.stopCounting(t)
	}
	delete(l.turns.all, key)
	l.touch(now)
}

// Waits says whether a group waits for its turn.
func (g *Gate) Waits(key types.NamespacedName) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.lanes {
		if t := g.lanes[i].turns.all[key]; t != nil && t.admitted.IsZero() {
			return true
		}
	}
	return false
}

// Idle lists the groups that were admitted longer than after ago and have not asked. The
// caller has them ask again, or says that they have Asked.
func (g *Gate) Idle(now time.Time, after time.Duration) []types.NamespacedName {
	g.mu.Lock()
	defer g.mu.Unlock()
	var idle []types.NamespacedName
	for i := range g.lanes {
		for key, t := range g.lanes[i].turns.all {
			if !t.admitted.IsZero() && now.Sub(t.admitted) > after {
				idle = append(idle, key)
			}
		}
	}
	return idle
}
