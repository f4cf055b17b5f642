package gang

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/group"
)

// rules are what all groups go by. They do not change once pods come. Their methods decide on a group
// or a member by what is remembered of it, and know of no other group.
type rules struct {
	owners group.Owners
	// policy is that of groups that name none.
	policy string
	levels []group.Level
	// amounts says how much of each resource a pod asks for; nil is nothing.
	amounts func(*corev1.Pod) map[string]int64
	// exclusiveRules are the rules for whole nodes.
	exclusiveRules ExclusiveRules
}

// ExclusiveRules are the rules for whole nodes. Both functions are asked with a lock held and
// answer from memory; nil allows all.
type ExclusiveRules struct {
	// WhyDenied says why the annotations in a namespace give no whole nodes, in words fit for a
	// user; empty where they do. It does not go for the scheduler's own policy.
	WhyDenied func(namespace string) string
	// HasForeignPods says whether a pod of another namespace is on a node, but for those that run on
	// every node.
	HasForeignPods func(node, namespace string) bool
}
