package gang

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
)

// rules is what applies to all groups. Only whyNativeUnread changes once pods come. Its
// methods decide about one group or one member, and know nothing of other groups.
type rules struct {
	owners group.Owners
	// policy is the match policy of groups that name none.
	policy string
	// levels are the topology levels that annotations may name besides the nodes.
	levels []group.Level
	// podRequests returns how much of each resource a pod
	// asks for. Nil means that pods ask for nothing.
	podRequests func(*corev1.Pod) map[string]int64
	// seatRules say for how long seats are held.
	seatRules SeatRules
	// whyNativeUnread is why native PodGroups cannot be read. It
	// is empty if they can, and changes with the API server's answers.
	whyNativeUnread string
	// exclusiveRules are the rules for whole nodes.
	exclusiveRules ExclusiveRules
	// isEvicted reports whether a group is being evicted for another one. It is called with a lock held. Nil
	// means that none is.
	isEvicted func(types.NamespacedName) bool
	// whyQueued says why a group waits for its turn in a queue of jobs, or because of its queue label. pod is a pod of the
	// group, nil if there is none. A reason that is empty means that it does not. It is called with a lock held. Nil means
	// that no group does.
	whyQueued func(key types.NamespacedName, pod *corev1.Pod) (why, message string)
}

// ExclusiveRules are the rules for whole nodes. Both functions are called
// with a lock held, and have to answer from memory. Nil allows everything.
type ExclusiveRules struct {
	// WhyDenied returns why annotations in a namespace give no whole nodes, in words fit for a
	// user. It returns nothing if they give them. It does not apply to the scheduler's own policy.
	WhyDenied func(namespace string) string
	// HasForeignPods reports whether a pod of another namespace
	// is on a node. Pods that run on every node do not count.
	HasForeignPods func(node, namespace string) bool
}
