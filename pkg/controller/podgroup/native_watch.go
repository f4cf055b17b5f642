package podgroup

import (
	"context"
	"sync/atomic"
	"time"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/nativegroup"
	"github.com/flux-k8s/fluence/pkg/served"
)

// The time between two checks whether the API server serves native PodGroups: nativePoll,
// or nativePollSoon if a pod names one.
const (
	nativePoll     = time.Minute
	nativePollSoon = 5 * time.Second
)

// A nativeWatch says whether native PodGroups are watched. They are watched as soon as the API
// server serves them, which an administrator has to ask for. A nil nativeWatch says that they are not.
type nativeWatch struct {
	watched atomic.Bool
	// whyDenied returns an error if this controller may not list and watch them. A watch without
	// the rights would keep the controller from all groups. Nil allows everything.
	whyDenied func(ctx context.Context) error
	// lastDenied is what whyDenied said last. It is logged once.
	lastDenied string
	// named is true if a pod has named a native PodGroup since the last check.
	named atomic.Bool
}

// isWatched reports whether native PodGroups are watched.
func (n *nativeWatch) isWatched() bool { return n != nil && n.watched.Load() }

// nativeEvents are the events of native PodGroups.
func nativeEvents(mgr manager.Manager) source.Source {
	return source.Kind(mgr.GetCache(), &schedulingv1beta1.PodGroup{}, handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, pg *schedulingv1beta1.PodGroup) []ctrl.Request {
		return []ctrl.Request{{NamespacedName: group.NativeKey(pg.Namespace, pg.Name)}}
	}))
}

// canWatch reports whether the API server serves native PodGroups, and this controller may watch them.
func (n *nativeWatch) canWatch(ctx context.Context, config Config, api discovery.ServerResourcesInterfaceWithContext) bool {
	served, err := config.serves(ctx, api, nativegroup.PodGroups)
	switch {
	case err != nil:
		klog.FromContext(ctx).Error(err, "Cannot find out whether the API server serves native PodGroups; will try again", "after", nativePoll)
	case served && n.whyDenied != nil:
		if err := n.whyDenied(ctx); err != nil {
			if err.Error() == n.lastDenied {
				return false
			}
			n.lastDenied = err.Error()
			klog.FromContext(ctx).Error(err, "The API server serves native PodGroups, but the controller cannot watch them: groups of theirs wait; grant list and watch", "resource", nativegroup.PodGroups.GroupResource())
			return false
		}
	}
	if served {
		klog.FromContext(ctx).Info("The API server serves native PodGroups; a Job gets a PodGroup of Fluence only if its pods name none of these", "resource", nativegroup.PodGroups)
	}
	return served
}

// whyNativeDenied returns the function whyDenied of a controller with this client.
func whyNativeDenied(c client.Client) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, findTimeout)
		defer cancel()
		return served.WhyDenied(ctx, c, nativegroup.PodGroups)
	}
}

// run watches native PodGroups when the API server begins to serve them.
// It returns when they are watched, or when ctx ends.
func (n *nativeWatch) run(ctx context.Context, mgr manager.Manager, c controller.Controller, config Config, api discovery.ServerResourcesInterfaceWithContext) {
	last := time.Now()
	_ = wait.PollUntilContextCancel(ctx, nativePollSoon, false, func(ctx context.Context) (bool, error) {
		if time.Since(last) < nativePoll && !n.named.Load() {
			return false, nil
		}
		last = time.Now()
		n.named.Store(false)
		if !n.canWatch(ctx, config, api) {
			return false, nil
		}
		if err := c.Watch(nativeEvents(mgr)); err != nil {
			klog.FromContext(ctx).Error(err, "Failed to watch native PodGroups; will try again", "after", nativePoll)
			return false, nil
		}
		n.watched.Store(true)
		return true, nil
	})
}

// waitsForNative reports whether a group without a PodGroup has to wait for its first pod: it is a
// Job's, and the Job controller may put the Job's pods into a native PodGroup. The Job does not say so.
func (r *reconciler) waitsForNative(o observation) bool {
	if !r.native.isWatched() || o.podGroup != nil || !o.isNamedForOwner() {
		return false
	}
	top := o.topOwners[0].owner
	return schema.GroupKind{Group: top.Group, Kind: top.Kind} == jobKind && len(o.livePods()) == 0
}

// jobKind is the kind Job.
var jobKind = schema.GroupKind{Group: "batch", Kind: "Job"}

// hasNativeMinimum reports whether a native PodGroup of
// this name is in the cache and says how many pods start together.
func (r *reconciler) hasNativeMinimum(ctx context.Context, namespace, name string) bool {
	var native schedulingv1beta1.PodGroup
	if !r.native.isWatched() || r.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &native, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency) != nil {
		return false
	}
	return nativegroup.Convert(&native).Spec.MinMember > 0
}
