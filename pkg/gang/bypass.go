package gang

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
	// Rank is the group's place among those that wait for room. It is created, for that, when it
	// could first be asked for.
	Rank Rank
}

// Overdue lists the groups that have waited for room for as long as after, or for
// longer: of each namespace and priority the first in the queue's order, in that order. A
// group that lacks members, was refused something else last or yields is none of them.
func (g *Groups) Overdue(now time.Time, after time.Duration) []Head {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := map[Turn]Head{}
	for key, s := range g.wanting {
		if s.since.IsZero() {
			delete(g.wanting, key)
			continue
		}
		if !s.overdue(now, after) {
			continue
		}
		h, ok := g.headOf(s)
		at := TurnOf(key, h.Rank)
		if old, there := first[at]; ok && (!there || h.Rank.Less(old.Rank)) {
			first[at] = h
		}
	}
	heads := make([]Head, 0, len(first))
	for _, h := range first {
		heads = append(heads, h)
	}
	slices.SortFunc(heads, byRank)
	return heads
}

// HeadsAmong describes those of some groups that have waited for room for as long as after, or for
// longer, and that Overdue may list, in the queue's order: however many others wait, it looks at no
// more than these.
func (g *Groups) HeadsAmong(keys []types.NamespacedName, now time.Time, after time.Duration) []Head {
	g.mu.Lock()
	defer g.mu.Unlock()
	heads := make([]Head, 0, len(keys))
	for _, key := range keys {
		if s := g.wanting[key]; s != nil && s.overdue(now, after) {
			if h, ok := g.headOf(s); ok {
				heads = append(heads, h)
			}
		}
	}
	slices.SortFunc(heads, byRank)
	return heads
}

// overdue says whether a group that waits for room has done so for that long, and does not yield.
func (s *state) overdue(now time.Time, after time.Duration) bool {
	return !s.since.IsZero() && now.Sub(s.since) >= after && !s.astray && s.yields == ""
}

func byRank(a, b Head) int {
	if a.Rank.Less(b.Rank) {
		return -1
	}
	return 1
}

// IsHead says whether a group that is refused for want of room now is one that Overdue lists
// from then on, if it does not yield.
func (g *Groups) IsHead(key types.NamespacedName, now time.Time, after time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[key]
	if s == nil || s.started || now.Sub(s.waitsFrom(now)) < after {
		return false
	}
	own, ok := g.headOf(s)
	if !ok {
		return false
	}
	for _, o := range g.wanting {
		if o == s || o.key.Namespace != key.Namespace || !o.overdue(now, after) {
			continue
		}
		if h, ok := g.headOf(o); ok && h.Rank.Priority == own.Rank.Priority && h.Rank.Less(own.Rank) {
			return false
		}
	}
	return true
}

// waitsFrom is since when a group waits that is refused for want of room now.
func (s *state) waitsFrom(now time.Time) time.Time {
	switch {
	case !s.since.IsZero():
		return s.since
	case !s.known && !s.before.IsZero():
		return s.before
	}
	return now
}

// RunsOn lists the nodes of a group that has started; none of one that has not.
func (g *Groups) RunsOn(key types.NamespacedName) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[key]
	if s == nil || !s.started {
		return nil
	}
	var nodes []string
	for _, m := range s.members {
		if m.present() {
			nodes = append(nodes, m.node())
		}
	}
	return nodes
}

// Yield has a group leave its turn to the next in order, since no nodes can be reserved for it:
// something that does not end is in its way on some nodes. Without a reason it does not any more.
func (g *Groups) Yield(key types.NamespacedName, why string, way *NodeFilter, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[key]
	if s == nil {
		return
	}
	if s.soon {
		s.pause = min(max(2*s.pause, yieldPause), maxBackoff)
	} else {
		s.pause = yieldPause
	}
	s.yields, s.way, s.looked, s.lookAt = why, way, now, now.Add(maxBackoff)
	s.retry, s.soon = false, false
}

// Yields says why a group leaves its turn to the next; nothing if it does not, or if that may
// have changed: nodes have, what stood in its way has gone, or a while has passed.
func (g *Groups) Yields(key types.NamespacedName, now time.Time) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.groups[key]; s != nil && !s.retry && now.Before(s.lookAt) {
		return s.yields
	}
	return ""
}

// yieldPause is the shortest time between two times that a group which yields finds out whether
// nodes can be reserved for it. It doubles, up to maxBackoff, each time that something which came or
// went had it look before maxBackoff was over: everybody can make pods that come and go, and the
// group's namespace pays for the looks.
const yieldPause = 5 * time.Second

// OutOfTheWay takes note that a pod is gone which would not have ended. The groups that yield and
// that it may have stood in the way of are to find out whether nodes can be reserved for them by
// now: it was there when they last did, on a node where something was in their way.
func (g *Groups) OutOfTheWay(gone *corev1.Pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.wanting {
		if s.yields != "" && !s.looksSoon() && s.way.Has(gone.Spec.NodeName) && !gone.CreationTimestamp.After(s.looked) {
			s.lookSoon()
		}
	}
}

// lookSoon has a group that yields look as soon as it may, and looksSoon says that it does.
func (s *state) lookSoon() {
	if !s.looksSoon() {
		s.soon, s.lookAt = true, s.looked.Add(s.pause)
	}
}

func (s *state) looksSoon() bool { return s.retry || s.soon }

// Retry lists the groups that yield and are to find out whether nodes can be reserved for them,
// each once: nodes have changed, what stood in the way has gone, or a while has passed.
func (g *Groups) Retry(now time.Time) []types.NamespacedName {
	g.mu.Lock()
	defer g.mu.Unlock()
	var keys []types.NamespacedName
	for _, s := range g.wanting {
		if s.yields != "" && !now.Before(s.lookAt) {
			s.retry, s.lookAt = true, now.Add(maxBackoff)
			keys = append(keys, s.key)
		}
	}
	return keys
}

// reconsider has the groups that yield find that out soon.
func (g *Groups) reconsider() {
	for _, s := range g.wanting {
		if s.yields != "" {
			s.lookSoon()
		}
	}
}

// stayInTurn forgets that a group has left its turn: what it waits for is another thing now. It may
// begin anew with the shortest pause between two looks, for it has to wait as a new group does
// before it looks again, and pays for each.
func (s *state) stayInTurn() {
	s.yields, s.way, s.pause, s.retry, s.soon = "", nil, 0, false, false
}

// AskAgain lets a group ask that was refused for want of room, as if that had changed, or that was
// to ask after a while.
func (g *Groups) AskAgain(key types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.groups[key]; s != nil && s.refusal != nil && (s.refusal.Cure == CureRoom || s.refusal.After > 0) {
		s.refusal = nil
	}
}

// headOf describes a group that waits for room, and returns false if no member of
// it could be placed.
func (g *Groups) headOf(s *state) (Head, bool) {
	m := s.members[s.choose()]
	if m == nil {
		return Head{}, false
	}
	h := Head{Key: s.key, Since: s.since, Rank: g.rank(m)}
	// It has not started, whatever the place of a former incarnation's members was.
	h.Rank.Incomplete, h.Rank.Created = false, s.inTurnFrom(m)
	return h, true
}

// inTurnFrom is a group's place among those that wait for room: its creation, or when what it lacked
// was seen to be complete, if that was later. Otherwise whoever keeps groups that lack a pod could complete one
// after the other, and have each pass a group that waits.
func (s *state) inTurnFrom(m *member) time.Time {
	return later(s.creation(m), s.completed)
}

// wait takes note of what a group that has not started was refused: its time runs
// as long as room could cure it. A refusal that asking again may end says nothing of
// that, such as of a node whose room was given back a moment ago, which the scheduler
// itself has not yet heard of: a stream of small groups brings those along.
func (g *Groups) wait(s *state, r Refusal, now time.Time) {
	s.answered = true
	switch {
	case r.Cure == CureRoom:
		s.since = s.waitsFrom(now)
		g.wanting[s.key] = s
	case r.Cure == CureOther && !r.Backoff:
		s.since = time.Time{}
		s.stayInTurn()
	case r.Cure == CureNodes, r.Cure == CureOther && !r.Found:
		s.astray = true
		return
	default:
		return
	}
	s.known, s.astray = true, false
}

// Waited takes note of since when a group has waited for room by what its PodGroup
// says; zero is not at all. It counts if this scheduler has not yet asked for the
// group itself. What the PodGroup says after that is of this scheduler, which knows better.
func (g *Groups) Waited(key types.NamespacedName, since time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.groups[key]; s != nil && (!s.answered || since.IsZero()) {
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
	// CureNodes says that other nodes would, or the end of what runs on every node. The time of a
	// group that has waited for room stays: whoever makes pods that seem to run on every node could
	// end it.
	CureNodes
	// CureAnswer says that nobody knows, for the engine gave no answer.
	CureAnswer
)
