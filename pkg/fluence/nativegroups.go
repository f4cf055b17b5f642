package fluence

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	schedulingclient "k8s.io/client-go/kubernetes/typed/scheduling/v1beta1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/nativegroup"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/pkg/signal"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// nativePodGroups watches native PodGroups and writes the scheduler's part of their status. The
// scheduler's start does not wait for it, as with podGroups. The informer of the scheduler's own
// factory is not used, because the whole scheduler would wait for an API that is not served.
//
// An API server serves native PodGroups only if its administrator asks for them. While it does not,
// or while the scheduler may not read them, the informer does not run. The API server is asked again
// once a minute, and when another watch begins anew: the API server was then restarted, and may serve
// another set of kinds. Meanwhile pods that name a native PodGroup wait, with the reason. Other pods do not.
type nativePodGroups struct {
	client       rest.Interface
	informer     cache.SharedIndexInformer
	registration registration
	watcher      nativePodGroupWatcher
	// again wakes run to ask the API server again.
	again chan struct{}

	mu sync.Mutex
	// refusals is why requests to read native PodGroups are refused, by their verbs. Rights may
	// allow a list and not a watch, so an answer to one verb says nothing of the other.
	refusals map[string]string
	// started has the PodGroups on which PodGroupInitiallyScheduled was written as True. The
	// informer may not show that yet, and it must not become False again.
	started map[types.UID]bool
}

// nativePodGroupWatcher handles changes of native PodGroups.
type nativePodGroupWatcher interface {
	observeNativePodGroup(ctx context.Context, native *schedulingv1beta1.PodGroup)
	podGroupGone(ctx context.Context, k types.NamespacedName)
	nativePodGroupsUnread(why string)
}

const (
	// nativePoll is the time between two questions whether native PodGroups can be read.
	nativePoll = time.Minute
	// nativeRetry is this time if the last question had no answer.
	nativeRetry = 2 * time.Second
)

// The verbs of the requests by which native PodGroups are read.
const (
	verbList  = "list"
	verbWatch = "watch"
)

// Why native PodGroups cannot be read, in words fit for a user.
const (
	whyNotServed  = "the API server does not serve podgroups.scheduling.k8s.io"
	whyMayNotRead = "the scheduler may not read podgroups.scheduling.k8s.io"
)

func newNativePodGroups(ctx context.Context, config *rest.Config, w nativePodGroupWatcher) (*nativePodGroups, error) {
	client, err := schedulingclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("build the client of native PodGroups: %w", err)
	}
	n := &nativePodGroups{client: client.RESTClient(), watcher: w, started: map[types.UID]bool{}, refusals: map[string]string{}, again: make(chan struct{}, 1)}
	n.informer = cache.NewSharedIndexInformer(n.listWatch(), &schedulingv1beta1.PodGroup{}, 0, cache.Indexers{})
	if err := n.informer.SetTransform(trimNativePodGroup); err != nil {
		return nil, fmt.Errorf("watch native PodGroups: %w", err)
	}
	n.registration, err = n.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { w.observeNativePodGroup(ctx, obj.(*schedulingv1beta1.PodGroup)) },
		UpdateFunc: func(_, obj any) { w.observeNativePodGroup(ctx, obj.(*schedulingv1beta1.PodGroup)) },
		DeleteFunc: func(obj any) {
			n.forget(obj)
			if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
				w.podGroupGone(ctx, group.NativeKey(name.Namespace, name.Name))
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch native PodGroups: %w", err)
	}
	return n, nil
}

// forget drops what is remembered of a deleted PodGroup.
func (n *nativePodGroups) forget(obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	if native, ok := obj.(*schedulingv1beta1.PodGroup); ok {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.started, native.UID)
	}
}

// listWatch returns how native PodGroups are read. Each answer says whether they can be.
func (n *nativePodGroups) listWatch() *cache.ListWatch {
	lw := cache.NewListWatchFromClient(n.client, nativegroup.PodGroups.Resource, metav1.NamespaceAll, fields.Everything())
	list, follow := lw.ListWithContextFunc, lw.WatchFuncWithContext
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			all, err := list(ctx, o)
			n.observeAnswer(ctx, verbList, err)
			return all, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			changes, err := follow(ctx, o)
			n.observeAnswer(ctx, verbWatch, err)
			return changes, err
		},
	}
}

// observeAnswer records from the API server's answer to a verb whether native
// PodGroups can be read. It logs a change, and tells the watcher of it.
func (n *nativePodGroups) observeAnswer(ctx context.Context, verb string, err error) {
	why := ""
	switch {
	case apierrors.IsNotFound(err):
		why = whyNotServed
	case apierrors.IsForbidden(err):
		why = whyMayNotRead
	case err != nil:
		return // it is not known
	}
	n.mu.Lock()
	before := n.whyUnread()
	n.refusals[verb] = why
	if why == whyNotServed {
		n.refusals[verbList], n.refusals[verbWatch] = why, why // until each has another answer
	}
	why = n.whyUnread()
	n.mu.Unlock()
	changed := before != why
	if !changed {
		return
	}
	n.watcher.nativePodGroupsUnread(why)
	switch log := klog.FromContext(ctx); why {
	case whyNotServed:
		log.V(2).Info("The API server does not serve native PodGroups; pods that name one wait", "resource", nativegroup.PodGroups)
	case whyMayNotRead:
		log.Error(err, "The scheduler may not read native PodGroups, so pods that name one wait; grant list and watch", "resource", nativegroup.PodGroups.GroupResource())
	default:
		log.Info("Native PodGroups can be read now", "resource", nativegroup.PodGroups)
	}
}

// whyUnread returns why native PodGroups cannot be read. It
// is empty if they can. The caller holds mu.
func (n *nativePodGroups) whyUnread() string {
	return cmp.Or(n.refusals[verbList], n.refusals[verbWatch])
}

// trimNativePodGroup is an informer transform that drops the fields that are not read.
func trimNativePodGroup(obj any) (any, error) {
	pg, ok := obj.(*schedulingv1beta1.PodGroup)
	if !ok {
		return obj, nil
	}
	pg.ManagedFields, pg.OwnerReferences, pg.Finalizers, pg.Labels = nil, nil, nil, nil
	pg.Annotations = group.ProjectAnnotations(pg.Annotations)
	pg.Status.ResourceClaimStatuses = nil
	return pg, nil
}

// run watches until ctx ends, as soon as native PodGroups can be read. listed is
// called when all of them were received once, or cannot be read.
func (n *nativePodGroups) run(ctx context.Context, listed func()) {
	// The first question may stay without an answer.
	defer time.AfterFunc(syncTimeout, listed).Stop()
	err := n.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		// observeAnswer reports these, once.
		if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) && !errors.Is(err, io.EOF) {
			cache.DefaultWatchErrorHandler(ctx, r, err)
		}
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Failed to set the handler for errors of the watch of native PodGroups")
	}
	for {
		err := n.ask(ctx)
		pause := nativeRetry
		switch {
		case err == nil:
			whenListed(ctx, n.registration, nativegroup.PodGroups.GroupResource().String(), listed)
			n.informer.RunWithContext(ctx)
			return
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
			listed()
			pause = nativePoll
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-n.again:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// ask asks the API server whether native PodGroups can be read. It returns nil if they can.
func (n *nativePodGroups) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, report.WriteTimeout)
	defer cancel()
	err := n.client.Get().Resource(nativegroup.PodGroups.Resource).Param("limit", "1").Do(ctx).Error()
	n.observeAnswer(ctx, verbList, err)
	return err
}

// askAgain makes run ask the API server again, unless native PodGroups are watched already.
func (n *nativePodGroups) askAgain() { signal.Send(n.again) }

// toGangNativePodGroup converts a native PodGroup to the form of package gang.
func toGangNativePodGroup(native *schedulingv1beta1.PodGroup, levels []group.Level) gang.PodGroup {
	g := toGangPodGroup(nativegroup.Convert(native))
	g.Basic, g.Priority = nativegroup.IsBasic(native), nativegroup.Priority(native)
	required, domain, wrong := nativegroup.Topology(native, levels)
	if g.Domain = domain; required != "" {
		g.Topology.Required = required
	}
	if unsupported := nativegroup.Unsupported(native); unsupported != "" {
		g.Fault = gang.Fault{Reason: reason.NotSupported, Message: unsupported}
	} else if wrong != "" {
		g.Fault = gang.Fault{Reason: reason.InvalidTopology, Message: wrong}
	}
	return g
}

// get returns a native PodGroup as last seen, or nil if there is none.
func (n *nativePodGroups) get(namespace, name string) *schedulingv1beta1.PodGroup {
	obj, ok, err := n.informer.GetStore().GetByKey(types.NamespacedName{Namespace: namespace, Name: name}.String())
	if err != nil || !ok {
		return nil
	}
	return obj.(*schedulingv1beta1.PodGroup)
}

// apply writes the scheduler's conditions as podGroups.Apply does,
// and with them the condition that Kubernetes defines.
func (n *nativePodGroups) apply(ctx context.Context, native *schedulingv1beta1.PodGroup, cs []metav1.Condition) error {
	ctx, cancel := context.WithTimeout(ctx, report.WriteTimeout)
	defer cancel()
	n.mu.Lock()
	started := n.started[native.UID]
	n.mu.Unlock()
	all := nativegroup.Conditions(native, cs, report.ConditionScheduled, started, metav1.Now())
	body, err := json.Marshal(map[string]any{
		"apiVersion": nativegroup.GroupVersion.String(),
		"kind":       "PodGroup",
		"metadata":   map[string]any{"name": native.Name, "namespace": native.Namespace, "uid": native.UID},
		"status":     map[string]any{"conditions": all},
	})
	if err != nil {
		return fmt.Errorf("encode the status of native PodGroup %s/%s: %w", native.Namespace, native.Name, err)
	}
	err = n.client.Patch(types.ApplyPatchType).
		Namespace(native.Namespace).Resource(nativegroup.PodGroups.Resource).Name(native.Name).SubResource("status").
		Param("fieldManager", report.FieldManager).Param("force", "true").
		Body(body).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("apply the status of native PodGroup %s/%s: %w", native.Namespace, native.Name, err)
	}
	if nativegroup.HasStarted(all) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.started[native.UID] = true
	}
	return nil
}

// bothPodGroups are the PodGroups of both kinds. It implements report.Store.
type bothPodGroups struct {
	*podGroups
	native *nativePodGroups
}

// newBothPodGroups builds the watches of both kinds.
func newBothPodGroups(ctx context.Context, config *rest.Config, w *watcher) (bothPodGroups, error) {
	own, err := newPodGroups(ctx, config, w)
	if err != nil {
		return bothPodGroups{}, err
	}
	native, err := newNativePodGroups(ctx, config, w)
	if err != nil {
		return bothPodGroups{}, err
	}
	own.connected = native.askAgain
	return bothPodGroups{own, native}, nil
}

// run watches until ctx ends. l is done only after both kinds were listed.
func (b bothPodGroups) run(ctx context.Context, l *initialSync) {
	own, native := l.addSource(), l.addSource()
	go b.podGroups.run(ctx, own)
	go b.native.run(ctx, native)
}

// Get returns the PodGroup of a key as last seen, or nil if there is none.
func (b bothPodGroups) Get(k types.NamespacedName) *scheduling.PodGroup {
	name, isNative := group.NativeName(k)
	if !isNative {
		return b.podGroups.Get(k)
	}
	if native := b.native.get(k.Namespace, name); native != nil {
		return nativegroup.Convert(native)
	}
	return nil
}

// Apply writes the scheduler's conditions onto the object from which a PodGroup was read.
func (b bothPodGroups) Apply(ctx context.Context, pg *scheduling.PodGroup, cs ...metav1.Condition) error {
	name, isNative := group.NativeName(types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name})
	if !isNative {
		return b.podGroups.Apply(ctx, pg, cs...)
	}
	native := b.native.get(pg.Namespace, name)
	if native == nil || native.UID != pg.UID {
		return apierrors.NewNotFound(nativegroup.PodGroups.GroupResource(), name)
	}
	return b.native.apply(ctx, native, cs)
}

// preemptionPolicyOf returns the preemption policy of a group: that of its native PodGroup or, as in kube-scheduler,
// Never if one of its required pods says so.
func (b bothPodGroups) preemptionPolicyOf(plan gang.Plan) corev1.PreemptionPolicy {
	if name, native := group.NativeName(plan.Key); native {
		if pg := b.native.get(plan.Key.Namespace, name); pg != nil && pg.Spec.PreemptionPolicy != nil {
			return corev1.PreemptionPolicy(*pg.Spec.PreemptionPolicy)
		}
	}
	for _, pod := range plan.Required {
		if p := pod.Spec.PreemptionPolicy; p != nil && *p == corev1.PreemptNever {
			return *p
		}
	}
	return corev1.PreemptLowerPriority
}

// annotationsOf returns the annotations of a group's PodGroup. It returns nil if the group has none.
func (b bothPodGroups) annotationsOf(key types.NamespacedName) map[string]string {
	if pg := b.Get(key); pg != nil {
		return pg.Annotations
	}
	return nil
}
