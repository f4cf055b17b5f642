package gate

import (
	"container/heap"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
)

// An Asker is a group that may ask for nodes as far as it goes itself.
type Asker struct {
	Group types.NamespacedName
	// Rank is the place in the queue of the pod that asks for it.
	Rank group.Rank
	// Pods is how many it asks for.
	Pods int
}

// turns is the groups of one lane that ask, or want to.
type turns struct {
	// line is a heap of those that wait for their turn.
	line []*turn
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

func newTurns() turns { return turns{all: map[types.NamespacedName]*turn{}} }

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
		heap.Push(&l.turns, t)
	case !t.admitted.IsZero():
		if t.counts {
			l.admitted += a.Pods - t.Pods
		}
		t.Asker = a
		return true
	default:
		t.Asker = a
		heap.Fix(&l.turns, t.index)
	}
	if l.turns.line[0] != t || !l.room(a.Pods, now) {
		return false
	}
	l.admit(t, now)
	return true
}

// admit lets the first in the line ask.
func (l *lane) admit(t *turn, now time.Time) {
	heap.Remove(&l.turns, t.index)
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
		for len(l.turns.line) > 0 && l.room(l.turns.line[0].Pods, now) {
			t := l.turns.line[0]
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
		heap.Remove(&l.turns, t.index)
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

// Len implements heap.Interface.
func (t *turns) Len() int { return len(t.line) }

// Less implements heap.Interface.
func (t *turns) Less(i, j int) bool { return t.line[i].Rank.Less(t.line[j].Rank) }

// Swap implements heap.Interface.
func (t *turns) Swap(i, j int) {
	t.line[i], t.line[j] = t.line[j], t.line[i]
	t.line[i].index, t.line[j].index = i, j
}

// Push implements heap.Interface.
func (t *turns) Push(x any) {
	p := x.(*turn)
	p.index = len(t.line)
	t.line = append(t.line, p)
}

// Pop implements heap.Interface.
func (t *turns) Pop() any {
	last := len(t.line) - 1
	p := t.line[last]
	t.line[last] = nil
	t.line = t.line[:last]
	return p
}
