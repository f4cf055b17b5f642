// Package placement finds nodes for all pods of one group inside a scheduling cycle. It runs the
// filters of the profile, asks the matcher, and books what both agree on. What becomes of that, and
// whether the matcher is well, is the caller's to see to.
//
// Its files, each of which uses those before it:
//
//	config.go        what does it need to know of the world?
//	result.go        what does it answer?
//	budget.go     how much of the scheduling loop may it take, and when is a group too hard?
//	node_filters.go  what did filters say of a Node before?
//	exclusions.go      which nodes did the filters refuse after a match?
//	placer.go        what is kept from one group to the next?
//	prefilter.go     whom does the time of the filters count for?
//	filter.go        which nodes do the filters rule out?
//	extenders.go     which nodes do the extenders rule out?
//	attempt.go       what is the matcher asked?
//	alternative.go       in which ways, where pods ask something of each other?
//	refusal.go        what does its answer mean to the group?
//	verify.go        do the filters pass what it gave, pod by pod?
//	commit.go        how is that booked?
//	search.go        in which order are ways tried?
//	place.go         how does all of that go together?
//	reservation_search.go       what do filters rule out when all has ended that ends?
//	candidates.go        which nodes could be reserved?
//	reservable.go        how few of them are enough?
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

// PluginName is the name of the plugin that has groups placed, in a KubeSchedulerConfiguration.
const PluginName = "Fluence"

// Config is what a Placer needs. Its functions are called from scheduling cycles, and return at once.
type Config struct {
	// Handle runs the filters of the profile and its extenders, and Filters those that a handle
	// alone does not run.
	Handle     fwk.Handle
	PreFilters PreFilters
	// Matcher is asked for nodes, and MatchTimeout is how long each answer may take.
	Matcher      match.Engine
	MatchTimeout time.Duration
	// ReserveBudget is how long a look for nodes to reserve may take of the scheduling loop.
	ReserveBudget time.Duration
	// Levels are those of the matcher's graph.
	Levels []translate.Level
	// ClusterState returns what is others' as it is now, and the matcher's epoch. It is called once for each
	// enquiry, when the filters have been run.
	ClusterState func(plan gang.Plan) ClusterState
	// BlockerOf says in words whose end would help the group that asks; empty is that none would.
	BlockerOf func(why match.Reason, asks types.NamespacedName) string
	// MayName says whether a message for one namespace names what is of another.
	MayName func(namespace, asks string) bool
	// JobsOf returns the jobs that pods are to the matcher, in their order.
	JobsOf func(pods []*corev1.Pod) []match.JobID
	// Now is the clock.
	Now func() time.Time
}

// PreFilters runs the PreFilter plugins of a profile on a pod that is not being scheduled.
type PreFilters interface {
	RunPreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string])
}

// ClusterState is what is others', and the matcher's epoch, at a time.
type ClusterState struct {
	At time.Time
	// Epoch is that of the matcher's graph.
	Epoch match.Epoch
	// Expected is the room on nodes that others are about to take.
	Expected []match.Slot
	// Reserved is the room that others come first to.
	Reserved Reservations
}

// Reservations is room that others come first to.
type Reservations struct {
	Nodes []string
	// Words say for whom how many nodes are reserved, and Turns are theirs.
	Words []string
	Turns []gang.Turn
}
