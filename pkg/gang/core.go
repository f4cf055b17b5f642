package gang

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// core is what the roles share: the groups, the rules that they go by, the lock that every call
// takes, and the Output that it returns.
type core struct {
	rules
	queue queueOrder

	mu sync.Mutex
	registry
	// synced says that Listed was called.
	synced bool
	// attempts numbers the matches, so that no two share a job id: what is still to
	// be given back of one can never be taken from the next.
	attempts uint64
	// events counts, by kind, the events that may help a waiting group.
	events [numEvents]uint64
	// out is what the call is to return that is under way.
	out pending
}

// group returns the group of a key. It makes one where there is none.
func (g *core) group(key types.NamespacedName) *groupState {
	s := g.groups[key]
	if s == nil {
		s = &groupState{key: key, members: map[types.UID]*member{}, levels: g.levels}
		g.groups[key] = s
	}
	return s
}

// output ends a call that changed the state: it returns what came of it.
func (g *core) output() Output {
	out := g.out.Output
	for key := range g.out.placedGroups {
		if s := g.groups[key]; s != nil && s.started {
			out.Placed = append(out.Placed, g.placedGroup(s))
		}
	}
	g.out = pending{}
	return out
}
