package bindqueue

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/gang"
)

// An Asker is a group that may ask for nodes as far as it goes itself.
type Candidate struct {
	Group types.NamespacedName
	// Rank is the place in the queue of the pod that asks for it.
	Rank gang.Rank
	// Pods is how many it asks for.
	Pods int
}

// admissions is the groups of one lane that ask, or want to.
type admissions struct {
	// waiting holds the groups that wait for their turn.
	waiting indexedHeap[*admission]
	// byGroup are these and those that were admitted, by group.
	byGroup map[types.NamespacedName]*admission
}

// admission is a group's turn to ask.
type admission struct {
	Candidate
	// since is when it came into the line.
	since time.Time
	// admitted is when it was admitted; zero while it waits.
	admitted time.Time
	// counts says that its pods count as ahead of the next group.
	counts bool
	index  int
}

func newAdmissions() admissions {
	return admissions{
		waiting: indexedHeap[*admission]{
			before: func(t, o *admission) bool { return t.Rank.Less(o.Rank) },
			index:  func(t *admission) *int { return &t.index },
		},
		byGroup: map[types.NamespacedName]*admission{},
	}
}

// Admit says whether a group may ask now. One that may not waits for its turn, and Due
// names it when that has come. A group that was admitted may ask until Asked.
func (g *Queue) Admit(a Candidate, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	in := LaneOf(a.Pods)
	g.dropAdmission(1-in, a.Group, now)
	l := &g.lanes[in]
	t := l.admissions.byGroup[a.Group]
	switch {
	case t == nil:
		t = &admission{Candidate: a, since: now}
		l.admissions.byGroup[a.Group] = t
		l.admissions.waiting.add(t)
	case !t.admitted.IsZero():
		if t.counts {
			l.admitted += a.Pods - t.Pods
		}
		t.Candidate = a
		return true
	default:
		t.Candidate = a
		l.admissions.waiting.changed(t)
	}
	if l.admissions.waiting.first() != t || !l.mayAdmit(a.Pods, now) {
		return false
	}
	l.admit(t, now)
	return true
}

// admit lets the first in the line ask.
func (l *lane) admit(t *admission, now time.Time) {
	l.admissions.waiting.remove(t)
	t.admitted, t.counts = now, true
	l.admitted += t.Pods
	l.touch(now)
}

// stopCounting has a group that was admitted no longer count.
func (l *lane) stopCounting(t *admission) {
	if t.counts {
		t.counts = false
		l.admitted -= t.Pods
	}
}

// AdmitWaiting admits the groups whose turn has come, and names them: the caller has them ask.
func (g *Queue) AdmitWaiting(now time.Time) []types.NamespacedName {
	g.mu.Lock()
	defer g.mu.Unlock()
	var due []types.NamespacedName
	for i := range g.lanes {
		l := &g.lanes[i]
		for l.admissions.waiting.Len() > 0 && l.mayAdmit(l.admissions.waiting.first().Pods, now) {
			t := l.admissions.waiting.first()
			l.admit(t, now)
			due = append(due, t.Group)
		}
	}
	return due
}

// EndAdmission takes note that a group has asked, or does not want to any more.
func (g *Queue) EndAdmission(key types.NamespacedName, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, in := range Lanes() {
		g.dropAdmission(in, key, now)
	}
}

func (g *Queue) dropAdmission(in Lane, key types.NamespacedName, now time.Time) {
	l := &g.lanes[in]
	t := l.admissions.byGroup[key]
	switch {
	case t == nil:
		return
	case t.admitted.IsZero():
		l.admissions.waiting.remove(t)
	default:
		l.stopCounting(t)
	}
	delete(l.admissions.byGroup, key)
	l.touch(now)
}

// IsWaiting says whether a group waits for its turn.
func (g *Queue) IsWaiting(key types.NamespacedName) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.lanes {
		if t := g.lanes[i].admissions.byGroup[key]; t != nil && t.admitted.IsZero() {
			return true
		}
	}
	return false
}

// Idle lists the groups that were admitted longer than after ago and have not asked. The
// caller has them ask again, or says that they have Asked.
func (g *Queue) Idle(now time.Time, after time.Duration) []types.NamespacedName {
	g.mu.Lock()
	defer g.mu.Unlock()
	var idle []types.NamespacedName
	for i := range g.lanes {
		for key, t := range g.lanes[i].admissions.byGroup {
			if !t.admitted.IsZero() && now.Sub(t.admitted) > after {
				idle = append(idle, key)
			}
		}
	}
	return idle
}
