package gang

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/group"
)

// Groups holds all groups, in the roles in which its callers meet it. Its methods are safe for
// concurrent use and return without waiting for anything.
type Groups struct {
	*core
	Watches
	Queueing
	Matching
	Assignments
	Retries
	Turns
	Lister
}

// New returns an empty Groups. Owners is asked with a lock held: it answers from
// memory. The policy, one of match.Policies, is that of groups that name none, and
// levels are those that their annotations may name beside the nodes.
func New(owners group.Owners, policy string, levels ...group.Level) *Groups {
	c := &core{rules: rules{owners: owners, policy: policy, levels: levels}, registry: newRegistry()}
	return &Groups{c, Watches{c}, Queueing{c}, Matching{c}, Assignments{c}, Retries{c}, Turns{c}, Lister{c}}
}

// SetAmounts sets what says how much of each resource a pod asks for. It is to be called before
// any other method; without it no pod asks for anything.
func (g *Groups) SetAmounts(of func(*corev1.Pod) map[string]int64) { g.amounts = of }

// SetExclusiveRules sets the rules. It is to be called before any other method.
func (g *Groups) SetExclusiveRules(w ExclusiveRules) { g.exclusiveRules = w }
