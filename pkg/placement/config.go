// Package placement finds nodes for all pods of one group inside a scheduling cycle. It
// runs the profile's filters, requests nodes from the matcher, and books a match that the
// filters accept. The caller acts on the result, and watches the health of the matcher.
//
// Its files, in reading order:
//
//	config.go              what does a Placer need?
//	result.go              what does it return?
//	budget.go              how much of the scheduling loop may an attempt take?
//	node_filters.go        which verdicts of filters are cached?
//	exclusions.go          which nodes did filters reject after a match?
//	placer.go              what is kept from one group to the next?
//	prefilter.go           how long does PreFilter take for pods of other namespaces?
//	filter.go              which nodes do the filters rule out?
//	extenders.go           which nodes do the extenders rule out?
//	attempt.go             what does a group request of the matcher?
//	per_node.go            how many pods of the group may be on one node?
//	room.go                which room does a group take over?
//	ask.go                 what does a match take for granted?
//	alternative.go         which requests are there for pods with constraints among each other?
//	why.go                 what does a refusal say beside the matcher's numbers?
//	refusal.go             what does the matcher's answer mean for the group?
//	verify.go              do the filters accept a match, pod by pod?
//	commit.go              how is a verified match booked?
//	search.go              in which order are alternatives tried?
//	place.go               how do these steps make a placement?
//	reservation_search.go  which nodes do filters rule out even without the pods that will end?
//	candidates.go          which nodes could be reserved?
//	reservable.go          how few of them are enough?
//	after_end.go           does a group fit when the pods that are ending have gone?
//	later.go               at which time does a group fit?
//	by_preemption.go       does a group fit when pods of lower priority are evicted?
//	preemption_filters.go  do the filters accept the nodes when these pods have gone?
package placement

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// PluginName is the name of the Fluence plugin in a KubeSchedulerConfiguration.
const PluginName = "Fluence"

// Config is what a Placer needs. Its functions are called inside scheduling cycles
// and return at once.
type Config struct {
	// Handle runs the Filter plugins of the profile and lists its extenders.
	Handle fwk.Handle
	// PreFilters runs the PreFilter plugins of the profile, which a Handle cannot run.
	PreFilters PreFilters
	// Matcher finds and books nodes.
	Matcher match.Engine
	// MatchTimeout bounds each match.
	MatchTimeout time.Duration
	// ReservationSearchBudget bounds the time in the scheduling loop of one search for nodes to reserve.
	ReservationSearchBudget time.Duration
	// Levels are the levels of the matcher's graph.
	Levels []translate.Level
	// ClusterState returns what other pods and groups claim now, and the matcher's
	// epoch. It is called once for each attempt, after the filters.
	ClusterState func(plan gang.Plan) ClusterState
	// BlockerOf describes the blocker of the reason why, for a message to the group reader. It
	// returns an empty string if there is none, if it is not known, or if it is the group itself.
	BlockerOf func(why match.Reason, reader types.NamespacedName) string
	// PromisedTo says to whom room is promised that a group lacks, and from when, for a message to the group reader. It
	// returns an empty string if that is not known.
	PromisedTo func(r match.Promised, reader types.NamespacedName) string
	// MayName reports whether a message to the users of the namespace reader may name
	// an object of namespace.
	MayName func(namespace, reader string) bool
	// JobsOf returns the matcher's job of each pod, in the order of the pods.
	JobsOf func(pods []*corev1.Pod) []match.JobID
	// Now returns the time.
	Now func() time.Time
}

// PreFilters runs the PreFilter plugins of a profile on a pod that is not being scheduled.
type PreFilters interface {
	RunPreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string])
}

// ClusterState is a snapshot of what other pods and groups claim, and of the matcher's epoch.
type ClusterState struct {
	// At is the time of the snapshot.
	At time.Time
	// Duration is for how long the pods of the plan need their nodes. 0 means that no end is known.
	Duration time.Duration
	// Ignored are the reservations in time that the group overlooks.
	Ignored []match.JobID
	// Spared are those of Ignored that a first match respects. If that is refused, a second match ignores them.
	Spared []match.JobID
	// Overlooked returns Ignored and Spared as they are by now. It may be nil.
	Overlooked func() (ignored, spared []match.JobID)
	// Epoch is the epoch of the matcher's graph.
	Epoch match.Epoch
	// Expected is the room on nodes that other pods are about to take.
	Expected []match.Slot
	// Kept is the room that pods have left and that is kept for others, as long as nodes are not reserved.
	Kept []match.Slot
	// Ended is the room of pods that have ended, of which the matcher knows, but the
	// scheduler's snapshot still counts them on their nodes, or others ask for it first.
	Ended []match.Slot
	// Reserved is the room that is reserved for other groups.
	Reserved Reservations
}

// Reservations are the nodes that are reserved for groups which go before the group of the attempt.
type Reservations struct {
	// Nodes are their names.
	Nodes []string
	// Messages has a sentence for each reservation: how many nodes are reserved for whom.
	Messages []string
	// Turns are the turns of these reservations.
	Turns []gang.Turn
}
