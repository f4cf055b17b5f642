package fluence

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/flux-k8s/fluence/pkg/gang"
)

// SortName is the name of the plugin FluenceSort in a KubeSchedulerConfiguration.
const SortName = "FluenceSort"

// Sort is the plugin FluenceSort: it orders the scheduling queue as Fluence does,
// in every profile of a scheduler.
//
// A scheduler has one queue for all its profiles, and demands of them the same
// QueueSort plugin with the same arguments. Fluence has arguments, and places in
// one profile only; so where there are others, FluenceSort stands under queueSort
// in all of them, with no arguments anywhere. It implements nothing else: it
// neither holds nor places a pod.
type Sort struct{ order *sharedOrder }

var _ fwk.QueueSortPlugin = &Sort{}

// Name returns the plugin's name.
func (s *Sort) Name() string { return SortName }

// Less orders the queue as Fluence's Less does, whichever profile it is called of.
func (s *Sort) Less(a, b fwk.QueuedEntityInfo) bool { return s.order.less(a, b) }

// An order is what all instances of FluenceSort in one scheduler share, whichever
// profile is made first.
type sharedOrder struct {
	// plugin is the plugin that knows the groups; nil until its profile is made.
	// The queue is made after all profiles.
	plugin  atomic.Pointer[Fluence]
	missing sync.Once
}

func (o *sharedOrder) less(a, b fwk.QueuedEntityInfo) bool {
	if pl := o.plugin.Load(); pl != nil {
		return pl.Less(a, b)
	}
	o.missing.Do(func() {
		klog.Background().Error(nil, "No profile enables the plugin Fluence: groups are not placed, every pod is scheduled alone", "plugin", SortName)
	})
	return rankOfOther(a).Less(rankOfOther(b))
}

// rankOfOther is the place in the queue of what Fluence does not place: as with
// kube-scheduler's own plugin it goes by priority and then by the time at which it
// came into the queue, so that one that was refused comes after its equals.
func rankOfOther(e fwk.QueuedEntityInfo) gang.Rank {
	r := gang.Rank{Priority: e.GetPriority(), Created: e.GetTimestamp()}
	if n, ok := e.(namespacedName); ok {
		r.Key.Namespace, r.Key.Name = n.GetNamespace(), n.GetName()
	}
	return r
}

// Factories returns the factories of the plugins Fluence and FluenceSort of one
// scheduler. One profile may enable Fluence: two would keep two inventories of one
// graph. Any number may enable FluenceSort.
//
// Leading says whether this scheduler is the one that decides, or stands by, and as
// what it calls itself; without one it has no name.
func Factories(dial Dialer, leading func() bool, identity ...Identity) (place, sort frameworkruntime.PluginFactory) {
	shared := &sharedOrder{}
	return factory(dial, leading, shared, cmp.Or(identity...)), func(_ context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		if obj != nil {
			return nil, fmt.Errorf("profile %q: plugin %s takes no arguments", h.ProfileName(), SortName)
		}
		return &Sort{order: shared}, nil
	}
}
