package bindqueue

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Snapshot say how the gate is used at a moment.
type Snapshot struct {
	// InFlight counts the binds that were sent and not answered, and Limit is how many
	// there may be.
	InFlight, Limit int
	// Pods counts the pods at the gate by lane, and Waiting the groups that wait for
	// their turn to ask.
	Pods, Groups [2]int
}

// Snapshot returns those of now.
func (g *Queue) Snapshot() Snapshot {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := Snapshot{InFlight: len(g.inFlight), Limit: g.limit.current}
	for i := range g.lanes {
		f.Pods[i], f.Groups[i] = g.lanes[i].waiting, g.lanes[i].admissions.waiting.Len()
	}
	return f
}

// IsIdle says that no bind is in flight, and that all pods at the gate are in Gate.aside. A
// pause of the gate does not count.
func (g *Queue) IsIdle() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.groups) == 0 && len(g.inFlight) == 0
}

// LongWaitingPods returns the groups of which pods have waited for their binds for longer than
// after, with how many of their pods stand at the gate or have a bind in flight.
func (g *Queue) LongWaitingPods(now time.Time, after time.Duration) map[types.NamespacedName]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	lasting := map[types.NamespacedName]int{}
	for of, s := range g.groups {
		if now.Sub(s.since) > after {
			lasting[of.group] += s.pods.Len()
		}
	}
	for _, p := range g.aside.items {
		if now.Sub(p.since) > after {
			lasting[p.queued.Group]++
		}
	}
	for _, s := range g.inFlight {
		if now.Sub(s.since) > after {
			lasting[s.group]++
		}
	}
	return lasting
}

// LongWaitingGroups lists the groups that have waited for their turn to ask for longer than
// after.
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
