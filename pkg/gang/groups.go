package gang

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
)

// Groups holds all groups. Its methods are in eight roles, one for each use.
// They are safe for concurrent use, and wait for nothing except the lock.
type Groups struct {
	*core
	Watches
	Queueing
	Matching
	Assignments
	Retries
	Turns
	Seats
	Lister
}

// New returns an empty Groups. It calls owners with a lock held, so owners has to
// answer from memory. The policy, one of match.Policies, applies to groups that name
// none. The levels are the ones that topology annotations may name besides the nodes.
func New(owners group.Owners, policy string, levels ...group.Level) *Groups {
	c := &core{rules: rules{owners: owners, policy: policy, levels: levels}, registry: newRegistry()}
	return &Groups{c, Watches{c}, Queueing{c}, Matching{c}, Assignments{c}, Retries{c}, Turns{c}, Seats{c}, Lister{c}}
}

// SetPodRequests sets the function that returns how much of each resource a pod asks for.
// It has to be called before any other method. Without it no pod asks for anything.
func (g *Groups) SetPodRequests(requestsOf func(*corev1.Pod) map[string]int64) {
	g.podRequests = requestsOf
}

// SetSeatRules sets for how long seats are held. It has to be called before any other method.
func (g *Groups) SetSeatRules(r SeatRules) { g.seatRules = r }

// SetExclusiveRules sets the rules for whole nodes. It has to be called before any other method.
func (g *Groups) SetExclusiveRules(w ExclusiveRules) { g.exclusiveRules = w }

// SetIsEvicted sets which groups are being evicted for others: their pods wait until the last of those that
// are evicted has gone. The function is called with a lock held, and has to answer from memory. It has to be
// set before any other method is called.
func (g *Groups) SetIsEvicted(f func(key types.NamespacedName) bool) { g.isEvicted = f }

// SetWhyQueued sets which groups wait for their turn in a queue of jobs, with the reason and the message for users. The
// reason is empty for all others. The pod is one of the group, nil if there is none. The function is called with a lock
// held, and has to answer from memory. It has to be set before any other method is called. If its answer changes, the
// caller puts the group into the queue.
func (g *Groups) SetWhyQueued(f func(key types.NamespacedName, pod *corev1.Pod) (why, message string)) {
	g.whyQueued = f
}
