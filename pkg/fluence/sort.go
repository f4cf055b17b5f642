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

// Sort is the plugin FluenceSort. It orders the scheduling queue as Fluence
// does, in every profile of a scheduler. It neither holds nor places a pod.
//
// A scheduler has one queue for all its profiles, and they must all enable the same QueueSort
// plugin with the same arguments. Fluence has arguments and is enabled in one profile only. So
// with several profiles, all of them enable FluenceSort under queueSort, which has no arguments.
type Sort struct{ order *sharedOrder }

var _ fwk.QueueSortPlugin = &Sort{}

// Name returns the plugin's name.
func (s *Sort) Name() string { return SortName }

// Less orders two entities as Fluence's Less does, whichever profile's instance is called.
func (s *Sort) Less(a, b fwk.QueuedEntityInfo) bool { return s.order.less(a, b) }

// sharedOrder is shared by all instances of FluenceSort in one scheduler.
type sharedOrder struct {
	// plugin is the plugin Fluence; nil until its profile is built. Profiles
	// are built in any order, but the queue is built after all of them.
	plugin atomic.Pointer[Fluence]
	// missing logs once that no profile enables Fluence.
	missing sync.Once
}

// less reports whether a comes before b in the queue.
func (o *sharedOrder) less(a, b fwk.QueuedEntityInfo) bool {
	if pl := o.plugin.Load(); pl != nil {
		return pl.Less(a, b)
	}
	o.missing.Do(func() {
		klog.Background().Error(nil, "No profile enables the plugin Fluence: groups are not placed, every pod is scheduled alone", "plugin", SortName)
	})
	return rankOfOther(a).Less(rankOfOther(b))
}

// rankOfOther returns the rank of an entity that Fluence does not place. As in
// kube-scheduler's PrioritySort, it goes by priority and then by the time when
// the entity entered the queue, so that a refused entity comes after its equals.
func rankOfOther(e fwk.QueuedEntityInfo) gang.Rank {
	r := gang.Rank{Priority: e.GetPriority(), Since: e.GetTimestamp()}
	if n, ok := e.(namespacedEntity); ok {
		r.Key.Namespace, r.Key.Name = n.GetNamespace(), n.GetName()
	}
	return r
}

// Factories returns the factories of the plugins Fluence and FluenceSort,
// for one scheduler. One profile may enable Fluence: two would keep two
// inventories of one graph. Any number of profiles may enable FluenceSort.
//
// leading reports whether this scheduler leads. identity names the scheduler;
// only the first one is used, and without one the scheduler has no name.
func Factories(dial Dialer, leading func() bool, identity ...ProcessIdentity) (place, sort frameworkruntime.PluginFactory) {
	shared := &sharedOrder{}
	return factory(dial, leading, shared, cmp.Or(identity...)), func(_ context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		if obj != nil {
			return nil, fmt.Errorf("profile %q: plugin %s takes no arguments", h.ProfileName(), SortName)
		}
		return &Sort{order: shared}, nil
	}
}
