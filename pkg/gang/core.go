package gang

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
)

// core is what all roles share: the rules, the groups, the lock
// that every call takes, and the Output that the call returns.
type core struct {
	rules
	// queue has the ranks of the pods in the scheduling queue. It has a separate lock.
	queue queueOrder

	mu sync.Mutex
	registry
	// synced is true once MarkSynced was called.
	synced bool
	// attempts numbers the matches, so that each job id is used once.
	// Otherwise a late release of one match could release slots of the next.
	attempts uint64
	// events counts the events of each kind. Refuse compares the counts
	// with the counts in the Plan, to find what happened during the match.
	events [numEvents]uint64
	// seats is what is known of how namespaces have used their seats.
	seats seatAccounts
	// out collects the Output of the current call, and which groups it reports as placed.
	out pending
}

// group returns the group of a key. It makes the group if there is none.
func (g *core) group(key types.NamespacedName) *groupState {
	s := g.groups[key]
	if s == nil {
		_, native := group.NativeName(key)
		s = &groupState{key: key, isNative: native, levels: g.levels}
		s.members = members{}
		g.groups[key] = s
	}
	return s
}

// output returns the Output of the current call, and begins a new one.
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
