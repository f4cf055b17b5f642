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

// Plugin is the name of the plugin that has groups placed, in a KubeSchedulerConfiguration.
const Plugin = "Fluence"

// Config is what a Placer needs. Its functions are called from scheduling cycles and return without
// waiting for anything but the matcher, the filters and the extenders.
type Config struct {
	// Handle runs the filters of the profile and its extenders, and Filters those that a handle
	// alone does not run.
	Handle  fwk.Handle
	Filters PreFilters
	// Matcher is asked for nodes, and MatchTimeout is how long each answer may take.
	Matcher      match.Engine
	MatchTimeout time.Duration
	// MaxAsk is how long a look for nodes to reserve may take of the scheduling loop.
	MaxAsk time.Duration
	// Levels are those of the matcher's graph.
	Levels []translate.Level
	// Outside returns what there is beside a group and the filters at a time.
	Outside func(plan gang.Plan, now time.Time) Outside
	// EndOf says in words whose end would help the group that asks; empty is that none would.
	EndOf func(why match.Reason, asks types.NamespacedName) string
	// Tells says whether a message for one namespace names what is of another.
	Tells func(namespace, asks string) bool
	// JobsOf returns the jobs that pods are to the matcher, in their order.
	JobsOf func(pods []*corev1.Pod) []match.JobID
	// Now is the clock.
	Now func() time.Time
}

// PreFilters runs the PreFilter plugins of a profile on a pod that is not being scheduled.
type PreFilters interface {
	RunPreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string])
}

// Outside is what there is beside a group and the filters.
type Outside struct {
	// Epoch is that of the matcher's graph.
	Epoch match.Epoch
	// Expected is the room on nodes that others are about to take.
	Expected []match.Slot
	// Reserved is the room that others come first to.
	Reserved Reserved
}

// Reserved is room that others come first to.
type Reserved struct {
	Nodes []string
	// Words say for whom how many nodes are reserved, and Turns are theirs.
	Words []string
	Turns []gang.Turn
}
