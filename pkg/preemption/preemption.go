// Package preemption decides about victims: which pods may be evicted for a group of higher priority, in
// which units, and in which order they are preferred. It writes nothing to the API server.
//
//	preemption.go  what are a victim and a plan?
//	owner.go       can the owners of a victim be suspended, and does it come back?
//	budget.go      which pods are protected by their budgets?
//	index.go       which pods hold room on nodes, and which of them belong together?
//	candidates.go  who may be evicted for a group?
//	units.go       how is a matcher asked to choose among victims?
package preemption

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
)

// A Kind is what a victim is.
type Kind string

const (
	// Group is all pods of a PodGroup of Fluence.
	Group Kind = "PodGroup"
	// NativeGroup is all pods of a native PodGroup of Kubernetes.
	NativeGroup Kind = "NativePodGroup"
	// Pod is a pod alone.
	Pod Kind = "Pod"
)

// A Victim is what is evicted as a whole, or not at all.
type Victim struct {
	Kind Kind
	// Namespace, Name and UID are those of the PodGroup or the pod.
	Namespace, Name string
	UID             types.UID
	// Priority is the highest priority of its pods, also of those that wait for nodes.
	Priority int32
	// Pods are the pods of the victim that hold room, ordered by name.
	Pods []VictimPod
	// Started is when the first of these pods was bound, as far as it is known.
	Started time.Time
	// Protected is the number of its pods whose PodDisruptionBudgets allow no more disruptions.
	Protected int
	// ComesBack reports whether the pods are made again after their eviction.
	ComesBack bool
	// Slow reports whether a pod of it may take longer than MaxGrace to end.
	Slow bool
	// Suspend is the outermost owner that can be suspended, so that no pod has to be deleted. It is
	// zero if there is none.
	Suspend group.Owner
}

// MaxGrace is the longest termination grace period with which a victim is evicted like others. One with a longer one goes
// after all others of its priority: the room of its other pods stays empty until the last of them has gone.
const MaxGrace = 5 * time.Minute

// A VictimPod is a pod of a victim.
type VictimPod struct {
	Name string
	UID  types.UID
	Node string
	// Slot is the pod's slot in the matcher's graph.
	Slot match.SlotRef
}

// A Preemptor is the group for which others are evicted.
type Preemptor struct {
	Kind            Kind
	Namespace, Name string
	UID             types.UID
	// Priority is the lowest priority of its pods: only pods below it are evicted.
	Priority int32
}

// A Plan says who is evicted for a group. Its victims are complete, and all of them are needed.
type Plan struct {
	For     Preemptor
	Victims []Victim
	// Slots is where the group fits when the victims have gone.
	Slots []match.Slot
}
