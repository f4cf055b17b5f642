package bindqueue

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/gang"
)

// A Candidate is a group that is ready to place and needs only to be admitted.
type Candidate struct {
	Group types.NamespacedName
	// Rank is the rank of the pod that waits for the group's admission.
	Rank gang.Rank
	// Pods is how many pods the group places at once.
	Pods int
}

// admissions holds the groups of one lane that wait to be admitted, and the groups
// that were admitted and have not placed yet.
type admissions struct {
	// waiting holds the groups that wait to be admitted, by rank.
	waiting indexedHeap[*admission]
	// byGroup holds all groups, waiting and admitted.
	byGroup map[types.NamespacedName]*admission
}

// admission is the state of one group that waits to be admitted, or was.
type admission struct {
	Candidate
	// since is when the group began to wait.
	since time.Time
	// admitted is when the group was admitted. It is zero while the group waits.
	admitted time.Time
	// isCounted says that the group's pods count as ahead of the next group.
	isCounted bool
	index     int
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

// Admit reports whether a group may place now. Otherwise the group waits, and AdmitWaiting
// returns it once it may place. A group that was admitted may place until EndAdmission.
func (g *Queue) Admit(a Candidate, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	lane := LaneOf(a.Pods)
	g.dropAdmission(1-lane, a.Group, now)
	l := &g.lanes[lane]
	t := l.admissions.byGroup[a.Group]
	switch {
	case t == nil:
		t = &admission{Candidate: a, since: now}
		l.admissions.byGroup[a.Group] = t
		l.admissions.waiting.add(t)
	case !t.admitted.IsZero():
		if t.isCounted {
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

// admit admits a group that waits.
func (l *lane) admit(t *admission, now time.Time) {
	l.admissions.waiting.remove(t)
	t.admitted, t.isCounted = now, true
	l.admitted += t.Pods
	l.updateBusySince(now)
}

// stopCounting removes an admitted group from the count of its lane.
func (l *lane) stopCounting(t *admission) {
	if t.isCounted {
		t.isCounted = false
		l.admitted -= t.Pods
	}
}

// AdmitWaiting admits the waiting groups that may place now, and returns them. The
// caller activates their pods.
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

// EndAdmission ends the admission of a group, or its wait: the group has placed, or
// no longer wants to.
func (g *Queue) EndAdmission(key types.NamespacedName, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, lane := range Lanes() {
		g.dropAdmission(lane, key, now)
	}
}

func (g *Queue) dropAdmission(lane Lane, key types.NamespacedName, now time.Time) {
	l := &g.lanes[lane]
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
	l.updateBusySince(now)
}

// IsWaiting reports whether a group waits to be admitted.
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

// StaleAdmissions lists the groups that were admitted longer than age ago and have not placed.
// The caller activates their pods again, or calls EndAdmission.
func (g *Queue) StaleAdmissions(now time.Time, age time.Duration) []types.NamespacedName {
	g.mu.Lock()
	defer g.mu.Unlock()
	var idle []types.NamespacedName
	for i := range g.lanes {
		for key, t := range g.lanes[i].admissions.byGroup {
			if !t.admitted.IsZero() && now.Sub(t.admitted) > age {
				idle = append(idle, key)
			}
		}
	}
	return idle
}
