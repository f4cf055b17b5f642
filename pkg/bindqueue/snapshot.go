package bindqueue

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A Snapshot is the state of the bind queue at one moment.
type Snapshot struct {
	// InFlight counts the binds that were sent and not answered. Limit is how many there may be.
	InFlight, Limit int
	// Pods counts the waiting pods by lane. Groups counts, by lane, the groups that
	// wait to be admitted.
	Pods, Groups [2]int
}

// Snapshot returns the present state.
func (g *Queue) Snapshot() Snapshot {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := Snapshot{InFlight: len(g.inFlight), Limit: g.limit.current}
	for i := range g.lanes {
		f.Pods[i], f.Groups[i] = g.lanes[i].waiting, g.lanes[i].admissions.waiting.Len()
	}
	return f
}

// IsIdle reports whether no bind is in flight and all waiting pods back off. A bind
// queue with other pods is not idle during a pause.
func (g *Queue) IsIdle() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.groups) == 0 && len(g.inFlight) == 0
}

// LongWaitingPods counts, by group, the pods that have waited for their binds for
// longer than after, in the bind queue or in flight. A group's queue counts as a
// whole if its first pod has waited that long.
func (g *Queue) LongWaitingPods(now time.Time, after time.Duration) map[types.NamespacedName]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	longWaiting := map[types.NamespacedName]int{}
	for of, s := range g.groups {
		if now.Sub(s.since) > after {
			longWaiting[of.group] += s.pods.Len()
		}
	}
	for _, p := range g.backoffQ.items {
		if now.Sub(p.since) > after {
			longWaiting[p.queued.Group]++
		}
	}
	for _, s := range g.inFlight {
		if now.Sub(s.since) > after {
			longWaiting[s.group]++
		}
	}
	return longWaiting
}

// LongWaitingGroups lists the groups that have waited to be admitted for longer than after.
func (g *Queue) LongWaitingGroups(now time.Time, after time.Duration) []types.NamespacedName {
	g.mu.Lock()
	defer g.mu.Unlock()
	var waiting []types.NamespacedName
	for i := range g.lanes {
		for _, t := range g.lanes[i].admissions.waiting.items {
			if now.Sub(t.since) > after {
				waiting = append(waiting, t.Group)
			}
		}
	}
	return waiting
}
