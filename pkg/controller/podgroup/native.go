package podgroup

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/nativegroup"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// reconcileNative writes the minimum of a native PodGroup into its annotation, if the PodGroup does
// not say it. It writes nothing else, and neither creates nor deletes a native PodGroup.
func (r *reconciler) reconcileNative(ctx context.Context, key types.NamespacedName, name string) (ctrl.Result, error) {
	if !r.native.isWatched() {
		// When they are, the events of native PodGroups bring this group here again.
		if r.native != nil {
			r.native.named.Store(true)
		}
		return ctrl.Result{}, nil
	}
	native, err := r.nativePodGroup(ctx, key.Namespace, name)
	if err != nil {
		return ctrl.Result{}, err
	}
	o, err := r.observe(ctx, key)
	if err != nil {
		return ctrl.Result{}, err
	}
	if native == nil { // one that is being deleted is the group of its pods until its finalizer is gone
		r.remember(key, memory{})
		return ctrl.Result{RequeueAfter: r.endOverdueOf(ctx, o, nil)}, nil
	}
	again := r.endOverdueOf(ctx, o, native.Annotations)
	was := r.recall(key)
	n, d, m := r.config.decideOnNative(o, native, was)
	d.events = append(d.events, m.warnOfLabels(o, was)...)
	if n != 0 {
		if err := r.annotateMinimum(ctx, native, n); err != nil {
			return ctrl.Result{RequeueAfter: again}, ignoreGone(err)
		}
		klog.FromContext(ctx).V(2).Info("Wrote the minimum of a native pod group", "podGroup", klog.KObj(native), "minimum", n)
	}
	r.remember(key, m)
	r.sendEvents(nil, d.events)
	return ctrl.Result{RequeueAfter: sooner(d.requeueAfter, again)}, nil
}

// nativePodGroup returns a native PodGroup from the cache. It returns nil if there is none.
func (r *reconciler) nativePodGroup(ctx context.Context, namespace, name string) (*schedulingv1beta1.PodGroup, error) {
	var native schedulingv1beta1.PodGroup
	switch err := r.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &native); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get native pod group: %w", err)
	}
	return &native, nil
}

// noMinimum asks for the removal of the annotation.
const noMinimum = -1

// decideOnNative returns the minimum to write into the annotation of a native PodGroup, noMinimum if
// the annotation is to be removed, and 0 if there is nothing to write. The policy basic says no minimum, because every Job gets it that says
// nothing. So the group has the minimum that a PodGroup of Fluence would have, by labels and owners.
// A Job that asks for the policy basic by name opts out: its pods start one by one. If the policy
// is gang, the minimum is written only when a Job has so few completions left that it makes fewer
// pods than minCount.
func (c Config) decideOnNative(o observation, native *schedulingv1beta1.PodGroup, m memory) (minimum int32, d decision, next memory) {
	d.requeueAfter = o.requeueAfter
	live := o.livePods()
	// An annotation that cannot be read is written again.
	have, _ := nativegroup.Minimum(native.Annotations)
	switch {
	case len(live) == 0 && have > 0 && (o.hasEnded() || len(o.activeOwners()) == 0):
		// The next pods of the group may be of another size, or be all of a gang again.
		return noMinimum, d, memory{}
	case len(live) == 0, !o.needsMinimum, o.ownerNotCached:
		return 0, d, m
	}
	var size group.Size
	if gang := native.Spec.SchedulingPolicy.Gang; gang != nil {
		owned, _, _ := o.ownerSize()
		size = group.Size{Size: max(gang.MinCount, owned.Size), Min: gang.MinCount}
	} else {
		w := c.wantedSize(o)
		if w.unknown {
			// The owner decides the minimum. Pods without an owner are left out.
			o.pods = slices.DeleteFunc(slices.Clone(o.pods), func(s podSet) bool { return metav1.GetControllerOfNoCopy(s.pod) == nil })
			w = c.wantedSize(o)
		}
		switch {
		case !w.valid:
			e, m := reportInvalid(m, live, reason.InvalidGroupSize, w.message)
			d.events = e.events
			return 0, d, m
		case w.unknown:
			e, m := reportInvalid(m, live, reason.OwnerUnreadable, cmp.Or(o.whyUnreadable(), fmt.Sprintf("nothing says how many pods start together; set the label %s on them", group.SizeLabel)))
			d.events = e.events
			return 0, d, m
		case o.isExplicitlyBasic():
			w.minMember = 1
		}
		size = group.Size{Size: w.size, Min: w.minMember}
	}
	n := o.stableRemaining(size, cmp.Or(have, size.Min))
	if n == have || native.Spec.SchedulingPolicy.Gang != nil && have == 0 && n == size.Min {
		return 0, d, memory{}
	}
	return n, d, memory{}
}

// warnOfLabels reports once that a pod of a native PodGroup has a label that names another
// group. was is the memory of the group before this reconcile.
func (m *memory) warnOfLabels(o observation, was memory) []pendingEvent {
	m.reportedWarnings = ""
	for _, set := range o.livePods() {
		name := set.pod.Labels[group.Label]
		if name == "" {
			continue
		}
		m.reportedWarnings = clip(fmt.Sprintf("label %s: %q: does not count, because spec.schedulingGroup of the pod names %s", group.Label, name, group.KeyText(o.key)))
		if m.reportedWarnings == was.reportedWarnings {
			return nil
		}
		return []pendingEvent{{about: set.pod, eventType: corev1.EventTypeWarning, reason: reason.TwoGroups, text: m.reportedWarnings}}
	}
	return nil
}

// isExplicitlyBasic reports whether a Job of the group asks for the policy basic by name.
func (o observation) isExplicitlyBasic() bool {
	return slices.ContainsFunc(o.podOwners, func(p podOwner) bool {
		return p.job != nil && p.job.Spec.Scheduling != nil && p.job.Spec.Scheduling.SchedulingPolicy != nil && p.job.Spec.Scheduling.SchedulingPolicy.Basic != nil
	})
}

// annotateMinimum writes group.MinMemberAnnotation, or removes it if n is noMinimum. With the UID the
// write fails if the PodGroup was created anew under its name.
func (r *reconciler) annotateMinimum(ctx context.Context, native *schedulingv1beta1.PodGroup, n int32) error {
	value := any(fmt.Sprint(n))
	if n == noMinimum {
		value = nil
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": native.UID, "annotations": map[string]any{group.MinMemberAnnotation: value},
	}})
	if err != nil {
		return fmt.Errorf("encode the annotation of native pod group: %w", err)
	}
	err = r.client.Patch(ctx, native.DeepCopy(), client.RawPatch(types.MergePatchType, data), client.FieldOwner(FieldManager))
	if err != nil {
		return fmt.Errorf("annotate native pod group: %w", err)
	}
	return nil
}

// slimNativePodGroup drops the fields of a native PodGroup that are not read.
func slimNativePodGroup(pg *schedulingv1beta1.PodGroup) {
	pg.ManagedFields, pg.Finalizers, pg.Labels, pg.OwnerReferences = nil, nil, nil, nil
	pg.Annotations = group.ProjectAnnotations(pg.Annotations)
	pg.Status = schedulingv1beta1.PodGroupStatus{}
}
