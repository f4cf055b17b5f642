// Package simulate lets the scheduler decide on a group without carrying out the decision.
//
// It builds the scheduler that Fluence runs, with the plugin, the profile's own filters and the
// embedded matcher, over objects that were read from a cluster once. It runs the scheduling cycles
// of one group after the other in memory. It decides like a scheduler that has just been started
// on these objects. It does not know of assignments of a running scheduler that are not bound yet. Plans
// to evict others are made as by the scheduler, and not carried out: only a scheduler that leads does that.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/fluence"
	"github.com/flux-k8s/fluence/pkg/match"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// A Cluster is what was read of a cluster.
type Cluster struct {
	// Objects are of the kinds that the scheduler reads: nodes,
	// pods and their owners, volumes, claims. Each pod has a UID.
	Objects []runtime.Object
	// Owners are the owners of pods of group.SuspendableKinds that are not part of Kubernetes, such as
	// JobSets. Each has the kind of its object.
	Owners []metav1.PartialObjectMetadata
	// PodGroups are the PodGroups of all namespaces.
	PodGroups []scheduling.PodGroup
	// NativePodGroups are the PodGroups of the API group scheduling.k8s.io. Nil means that the cluster
	// does not serve this kind.
	NativePodGroups []schedulingv1beta1.PodGroup
}

// With returns c with the objects of more. A PodGroup of more replaces the one of its name.
func (c Cluster) With(more Cluster) Cluster {
	c.Objects, c.Owners = slices.Concat(c.Objects, more.Objects), slices.Concat(c.Owners, more.Owners)
	groups := slices.Clone(more.PodGroups)
	for _, pg := range c.PodGroups {
		if !slices.ContainsFunc(more.PodGroups, func(o scheduling.PodGroup) bool { return o.Namespace == pg.Namespace && o.Name == pg.Name }) {
			groups = append(groups, pg)
		}
	}
	c.PodGroups = groups
	if more.NativePodGroups != nil {
		native := slices.Clone(more.NativePodGroups)
		for _, pg := range c.NativePodGroups {
			if !slices.ContainsFunc(more.NativePodGroups, func(o schedulingv1beta1.PodGroup) bool { return o.Namespace == pg.Namespace && o.Name == pg.Name }) {
				native = append(native, pg)
			}
		}
		c.NativePodGroups = native
	}
	return c
}

// A Scheduler decides on groups and binds nothing. It is not safe for concurrent use.
type Scheduler struct {
	sched    *scheduler.Scheduler
	profile  schedulerframework.Framework
	snapshot *internalcache.Snapshot
	pl       *fluence.Fluence
	// members are the pods of the profile that wait for a node, by group.
	members map[types.NamespacedName][]*corev1.Pod
	// order are the groups in the order of the queue.
	order []types.NamespacedName
	// groups are the groups of the members, by the members' UID.
	groups map[types.UID]types.NamespacedName
	// decided has the decisions so far.
	decided map[types.NamespacedName]Decision
	// cycles are the scheduling cycles that gave their pod a node.
	cycles map[*corev1.Pod]cycle
}

// New builds the scheduler of a configuration over a cluster, and waits until it has
// read all of it. The scheduler ends with ctx. The deadline of ctx bounds the wait.
func New(ctx context.Context, c Cluster, configuration Configuration) (*Scheduler, error) {
	api, err := newFakeAPI(c)
	if err != nil {
		return nil, err
	}
	client := fake.NewClientset()
	for _, o := range c.Objects {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("add the objects: %w", err)
		}
		if err := client.Tracker().Add(o); err != nil {
			return nil, fmt.Errorf("add the objects: %w", err)
		}
	}
	r, err := build(ctx, client, api, configuration, func() bool { return false })
	if err != nil {
		return nil, err
	}
	r.enqueue(ctx, c, configuration.Scheduler())
	return r, nil
}

// enqueue takes the pods of a cluster that wait for a node in the order of the queue.
func (r *Scheduler) enqueue(ctx context.Context, c Cluster, scheduler string) {
	var waiting []*corev1.Pod
	for _, o := range c.Objects {
		if pod, ok := o.(*corev1.Pod); ok && pod.Spec.SchedulerName == scheduler && mayBePlaced(pod) {
			waiting = append(waiting, pod)
		}
	}
	slices.SortStableFunc(waiting, r.inQueue)
	for _, pod := range waiting {
		// Nothing else may take the pod out of the queue,
		// or look at it there while it is in a cycle.
		r.sched.SchedulingQueue.Delete(klog.FromContext(ctx), pod)
		if s, ok := r.pl.StateOf(pod); ok {
			if r.members[s.Group] == nil {
				r.order = append(r.order, s.Group)
			}
			r.members[s.Group] = append(r.members[s.Group], pod)
			r.groups[pod.UID] = s.Group
		}
	}
}

// mayBePlaced reports whether a pod still needs a node and has no scheduling gate.
func mayBePlaced(pod *corev1.Pod) bool {
	ended := pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return pod.Spec.NodeName == "" && !ended && len(pod.Spec.SchedulingGates) == 0
}

// build builds the scheduler over a clientset with the objects of Kubernetes, and a transport
// that answers the plugin's own clients. A scheduler that does not lead writes nothing.
func build(ctx context.Context, client kubernetes.Interface, api http.RoundTripper, configuration Configuration, leading func() bool) (*Scheduler, error) {
	r := &Scheduler{
		snapshot: internalcache.NewEmptySnapshot(),
		members:  map[types.NamespacedName][]*corev1.Pod{},
		groups:   map[types.UID]types.NamespacedName{},
		decided:  map[types.NamespacedName]Decision{},
		cycles:   map[*corev1.Pod]cycle{},
	}
	place, sort := fluence.Factories(func(ctx context.Context, args *fluence.Args) (fluence.Matcher, error) {
		args.Now = configuration.now
		return embedded(ctx, args)
	}, leading)
	registry := frameworkruntime.Registry{}
	err := errors.Join(registry.Register(fluence.Name, place), registry.Register(fluence.SortName, sort))
	if err != nil {
		return nil, fmt.Errorf("register the plugin: %w", err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	r.sched, err = scheduler.New(ctx, client, factory, nil,
		func(string) events.EventRecorderLogger { return silent{} },
		scheduler.WithKubeConfig(&rest.Config{Host: "http://rehearsal", Transport: api, QPS: -1}),
		scheduler.WithProfiles(configuration.profile),
		scheduler.WithFrameworkOutOfTreeRegistry(registry),
		scheduler.WithNodeInfoSnapshot(r.snapshot))
	if err != nil {
		return nil, fmt.Errorf("build the scheduler: %w", err)
	}
	r.profile = r.sched.Profiles[configuration.Scheduler()]
	r.pl = fluence.PluginOf(r.profile)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := r.sched.WaitForHandlersSync(ctx); err != nil {
		return nil, fmt.Errorf("read the objects: %w", err)
	}
	return r, r.ready(ctx)
}

// ready waits until the plugin can place groups.
func (r *Scheduler) ready(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		why := r.pl.WhyNotReady()
		if why == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("build the graph: %s: %w", why, ctx.Err())
		case <-tick.C:
		}
	}
}

// inQueue orders pods as the scheduling queue does.
func (r *Scheduler) inQueue(a, b *corev1.Pod) int {
	x, y := queued(a), queued(b)
	less := r.profile.QueueSortFunc()
	switch {
	case less(x, y):
		return -1
	case less(y, x):
		return 1
	}
	return 0
}

// matcher is an engine in this process. It always answers.
type matcher struct{ match.Engine }

// Ping implements fluence.Matcher.
func (matcher) Ping(context.Context) error { return nil }

// embedded implements fluence.Dialer. Names are not hidden and the search is not
// throttled, because the caller has read all pods, and nobody else waits for the answer.
func embedded(_ context.Context, args *fluence.Args) (fluence.Matcher, error) {
	args.TellNames = fluence.TellNamesAll
	args.MaxAsk.Duration = fluence.MaxAskLimit
	args.Unthrottled, args.Unqueued = true, true
	e, err := engine.New(engine.Options{Policy: args.MatchPolicy, Epoch: func() match.Epoch { return match.Epoch(rand.Uint64() | 1) }})
	if err != nil {
		return nil, err
	}
	return matcher{e}, nil
}

// silent records no event.
type silent struct{ events.EventRecorder }

// Eventf implements events.EventRecorder.
func (silent) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}

// WithLogger implements events.EventRecorderLogger.
func (s silent) WithLogger(klog.Logger) events.EventRecorderLogger { return s }
