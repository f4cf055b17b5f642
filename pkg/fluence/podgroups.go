package fluence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// podGroups watches PodGroups and writes the scheduler's part of their
// status. The watch is separate from the scheduler's informers, so that the
// scheduler's start never waits for it. Without the CRD, or without the
// right to read PodGroups, gangs wait and all other pods are scheduled.
type podGroups struct {
	client       rest.Interface
	informer     cache.SharedIndexInformer
	registration registration
	// connected is called each time that a watch begins. It may be nil.
	connected func()
}

// podGroupWatcher handles changes of PodGroups.
type podGroupWatcher interface {
	observePodGroup(ctx context.Context, pg *scheduling.PodGroup)
	podGroupGone(ctx context.Context, k types.NamespacedName)
}

func newPodGroups(ctx context.Context, config *rest.Config, w podGroupWatcher) (*podGroups, error) {
	client, err := scheduling.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	lw := cache.NewListWatchFromClient(client, scheduling.PodGroups.Resource, metav1.NamespaceAll, fields.Everything())
	p := &podGroups{client: client}
	follow := lw.WatchFuncWithContext
	p.informer = cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: lw.ListWithContextFunc,
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			changes, err := follow(ctx, o)
			if err == nil && p.connected != nil {
				p.connected()
			}
			return changes, err
		},
	}, &scheduling.PodGroup{}, 0, cache.Indexers{})
	if err := p.informer.SetTransform(trimPodGroup); err != nil {
		return nil, fmt.Errorf("watch PodGroups: %w", err)
	}
	p.registration, err = p.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { w.observePodGroup(ctx, obj.(*scheduling.PodGroup)) },
		UpdateFunc: func(_, obj any) { w.observePodGroup(ctx, obj.(*scheduling.PodGroup)) },
		DeleteFunc: func(obj any) {
			if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
				w.podGroupGone(ctx, types.NamespacedName{Namespace: name.Namespace, Name: name.Name})
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch PodGroups: %w", err)
	}
	return p, nil
}

// trimPodGroup is an informer transform that drops the fields that are not read.
// So a user cannot fill the scheduler's memory with large PodGroups.
func trimPodGroup(obj any) (any, error) {
	pg, ok := obj.(*scheduling.PodGroup)
	if !ok {
		return obj, nil
	}
	pg.ManagedFields, pg.OwnerReferences, pg.Finalizers, pg.Labels = nil, nil, nil, nil
	pg.Annotations = group.ProjectAnnotations(pg.Annotations)
	pg.Spec.MinResources = nil
	size := 0
	for _, t := range pg.Spec.Templates {
		if t.Pod != nil {
			size += len(t.Pod.Raw)
		}
	}
	if size > maxTemplates {
		pg.Spec.Templates = nil
	}
	if len(pg.Spec.Templates) > group.MaxTemplates {
		// One more than allowed shows that there are too many.
		pg.Spec.Templates = pg.Spec.Templates[:group.MaxTemplates+1]
	}
	return pg, nil
}

// run watches until ctx ends. listed is called when all
// PodGroups were received once, or cannot be listed.
func (p *podGroups) run(ctx context.Context, listed func()) {
	whenListed(ctx, p.registration, scheduling.PodGroups.Resource, listed)
	err := p.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		switch {
		case apierrors.IsNotFound(err):
			klog.FromContext(ctx).Error(err, "The API server does not serve PodGroups, so groups wait; install the CRD", "crd", scheduling.CRDName)
			listed()
		case apierrors.IsForbidden(err):
			klog.FromContext(ctx).Error(err, "The scheduler may not read PodGroups, so groups wait; grant list and watch", "resource", scheduling.PodGroups.GroupResource())
			listed()
		case errors.Is(err, io.EOF):
		default:
			cache.DefaultWatchErrorHandler(ctx, r, err)
		}
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Failed to set the handler for errors of the watch of PodGroups")
	}
	p.informer.RunWithContext(ctx)
}

// toGangPodGroup converts a PodGroup to the form of package gang.
func toGangPodGroup(pg *scheduling.PodGroup) gang.PodGroup {
	g := gang.PodGroup{
		UID:       pg.UID,
		MinMember: pg.Spec.MinMember,
		Created:   scheduling.CreationTime(pg).Time,
		Ended:     pg.Status.Phase == scheduling.PodGroupFinished || pg.Status.Phase == scheduling.PodGroupFailed,
		Policy:    pg.Annotations[group.MatchPolicyAnnotation],
		Topology:  group.TopologyAnnotationsOf(pg.Annotations),

		PreemptionDelay: pg.Annotations[group.PreemptionDelayAnnotation],
		Duration:        pg.Annotations[group.DurationAnnotation],
	}
	g.Templates = templatesOf(pg)
	g.Fault = templatesFault(pg, g.Templates)
	g.Seats, g.StagesTogether, g.Expect = seatsOf(pg), pg.Annotations[group.StagesAnnotation], group.ExpectAnnotationsOf(pg.Annotations)
	if c := meta.FindStatusCondition(pg.Status.Conditions, scheduling.ConditionSeatsHeld); c != nil && c.Status == metav1.ConditionFalse {
		switch c.Reason {
		case reason.ExpectedMissing:
			g.ExpectedMissing = c.Message
		case reason.SeatsTaken:
			g.SeatsTaken = c.Message
		}
	}
	g.Exclusivity, g.ExclusivitySince = exclusivityOf(pg)
	g.Placed = report.PlacedPods(pg)
	if c := meta.FindStatusCondition(pg.Status.Conditions, scheduling.ConditionMembersExpected); c != nil && c.Status == metav1.ConditionFalse {
		g.Suspended, g.WhyNotExpected = c.Reason == reason.Suspended, c.Message
	}
	if g.Ended {
		g.EndedAs = endedAs(pg)
	}
	if s := pg.Spec.ScheduleTimeoutSeconds; s != nil && *s > 0 {
		g.Timeout = min(time.Duration(*s)*time.Second, permitTimeout)
	}
	return g
}

// conditionFinished is the type of the controller's condition that a group has ended.
const conditionFinished = "Finished"

// endedAs returns what to report of a group that has ended while the condition Scheduled says why it waits. It is
// zero if the condition does not. Where the pods of a group were is kept. Groups that ended under a controller
// without the condition Finished stay as they are.
func endedAs(pg *scheduling.PodGroup) gang.Fault {
	as := reason.Finished
	if pg.Status.Phase == scheduling.PodGroupFailed {
		as = reason.Failed
	}
	c := meta.FindStatusCondition(pg.Status.Conditions, report.ConditionScheduled)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason == reason.Failed || c.Reason == reason.Finished ||
		!meta.IsStatusConditionTrue(pg.Status.Conditions, conditionFinished) {
		return gang.Fault{}
	}
	return gang.Fault{Reason: as, Message: fmt.Sprintf("the group had no nodes when it ended; its reason was %s: %s", c.Reason, c.Message)}
}

// Get implements report.Store. It returns the PodGroup as last seen, or nil if there is none.
func (p *podGroups) Get(k types.NamespacedName) *scheduling.PodGroup {
	obj, ok, err := p.informer.GetStore().GetByKey(k.String())
	if err != nil || !ok {
		return nil
	}
	return obj.(*scheduling.PodGroup)
}

// Apply implements report.Store. It writes the scheduler's conditions
// with server-side apply, to the object of this UID only. Conditions
// that the scheduler wrote before and that are not in cs are removed.
func (p *podGroups) Apply(ctx context.Context, pg *scheduling.PodGroup, cs ...metav1.Condition) error {
	ctx, cancel := context.WithTimeout(ctx, report.WriteTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]any{
		"apiVersion": scheduling.GroupVersion.String(),
		"kind":       "PodGroup",
		// With the UID, the write fails if the PodGroup was recreated under the same name.
		"metadata": map[string]any{"name": pg.Name, "namespace": pg.Namespace, "uid": pg.UID},
		"status":   map[string]any{"conditions": cs},
	})
	if err != nil {
		return fmt.Errorf("encode the status of PodGroup %s/%s: %w", pg.Namespace, pg.Name, err)
	}
	err = p.client.Patch(types.ApplyPatchType).
		Namespace(pg.Namespace).Resource(scheduling.PodGroups.Resource).Name(pg.Name).SubResource("status").
		Param("fieldManager", report.FieldManager).Param("force", "true").
		Body(body).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("apply the status of PodGroup %s/%s: %w", pg.Namespace, pg.Name, err)
	}
	return nil
}
