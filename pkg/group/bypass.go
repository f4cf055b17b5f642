package group

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Head is a group that has waited for room for so long that those after it may
// not pass it any more.
type Head struct {
	Key types.NamespacedName
	// Since is the first of its refusals in a row that room could cure.
	Since time.Time
	Rank  Rank
	// Pods are those that have to be placed together, the one that asks first.
	Pods []*corev1.Pod
	// Seated says that it was matched meanwhile and is about to start.
	Seated bool
}

// Overdue lists the groups that have waited for room for as long as after, or for
// longer: of each priority the first in the queue's order, the highest priority
// first. A group that lacks members, or was refused something else last, is none
// of them.
func (g *Groups) Overdue(now time.Time, after time.Duration) []Head {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := map[int32]Head{}
	for key, s := range g.wanting {
		if s.since.IsZero() {
			delete(g.wanting, key)
			continue
		}
		if now.Sub(s.since) < after {
			continue
		}
		h, ok := g.headOf(s)
		if old, there := first[h.Rank.Priority]; ok && (!there || h.Rank.Less(old.Rank)) {
			first[h.Rank.Priority] = h
		}
	}
	heads := make([]Head, 0, len(first))
	for _, h := range first {
		heads = append(heads, h)
	}
	slices.SortFunc(heads, func(a, b Head) int {
		if a.Rank.Less(b.Rank) {
			return -1
		}
		return 1
	})
	return heads
}

// headOf describes a group that waits for room, and returns false if no member of
// it could be placed.
func (g *Groups) headOf(s *state) (Head, bool) {
	m := s.members[s.choose()]
	if m == nil {
		return Head{}, false
	}
	h := Head{Key: s.key, Since: s.since, Rank: g.rank(m), Pods: []*corev1.Pod{m.pod}, Seated: m.seat != nil}
	// It has not started, whatever the place of a former incarnation's members was.
	h.Rank.Incomplete = false
	for _, o := range s.ordered(func(o *member) bool { return o != m && o.waits() }) {
		if len(h.Pods) < s.minimum() {
			h.Pods = append(h.Pods, o.pod)
		}
	}
	return h, true
}

// wait takes note of what a group that has not started was refused: its time runs
// as long as room could cure it. A refusal that asking again may end says nothing of
// that, such as of a node whose room was given back a moment ago, which the scheduler
// itself has not yet heard of: a stream of small groups brings those along.
func (g *Groups) wait(s *state, r Refusal, now time.Time) {
	switch {
	case r.Cure == CureRoom:
		if s.since.IsZero() {
			s.since = now
			if !s.known && !s.before.IsZero() {
				s.since = s.before
			}
		}
		g.wanting[s.key] = s
	case r.Cure == CureOther && !r.Backoff:
		s.since = time.Time{}
	default:
		return
	}
	s.known = true
}

// Waited takes note of since when a group has waited for room by what its PodGroup
// says; zero is not at all. It counts if this scheduler has not yet asked for the
// group itself.
func (g *Groups) Waited(key types.NamespacedName, since time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.groups[key]; s != nil {
		s.before = since
	}
}

// A Cure is what a refused group waits for.
type Cure int

const (
	// CureOther says that room that others give back would not help by itself.
	CureOther Cure = iota
	// CureRoom says that it would.
	CureRoom
	// CureAnswer says that nobody knows, for the engine gave no answer.
	CureAnswer
)
