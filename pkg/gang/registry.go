package gang

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A registry finds groups and members: all of them, and those that are of interest in some way.
type registry struct {
	groups  map[types.NamespacedName]*state
	members map[types.UID]*member
	// unseen are the members whose group is known when an owner is seen, by the UID
	// of that.
	unseen map[types.UID]map[types.UID]*member
	// unseated is the part of groups with a member that waits for a seat, or with
	// no member though some are to come, and seated the part with a seat that the
	// API does not show yet: what is looked through on every wake and every tick
	// stays small.
	unseated map[types.NamespacedName]*state
	seated   map[types.NamespacedName]*state
	// refused is the part of unseated with a refusal that may stand. An event of the
	// cluster is looked up in it.
	refused map[types.NamespacedName]*state
	// returned is when, by namespace, a group last asked again since its time was over. It has the
	// namespaces of the last moment alone.
	returned map[string]time.Time
	// wanting is the part of groups whose time runs, and of those that it has ceased
	// to run for.
	wanting map[types.NamespacedName]*state
}

func newRegistry() registry {
	return registry{
		groups:   map[types.NamespacedName]*state{},
		members:  map[types.UID]*member{},
		unseen:   map[types.UID]map[types.UID]*member{},
		unseated: map[types.NamespacedName]*state{},
		seated:   map[types.NamespacedName]*state{},
		refused:  map[types.NamespacedName]*state{},
		returned: map[string]time.Time{},
		wanting:  map[types.NamespacedName]*state{},
	}
}

// see takes a member out of those that wait for their owner.
func (r *registry) see(m *member) {
	if waiting := r.unseen[m.unseen.UID]; waiting != nil {
		delete(waiting, m.pod.UID)
		if len(waiting) == 0 {
			delete(r.unseen, m.unseen.UID)
		}
	}
}

func set(m map[types.NamespacedName]*state, s *state, in bool) {
	if in {
		m[s.key] = s
	} else {
		delete(m, s.key)
	}
}
