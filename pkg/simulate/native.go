package simulate

import (
	"errors"
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/nativegroup"
)

// addNativePodGroup adds a native PodGroup, with the priority of its class. If the
// PodGroup exists, the file replaces its annotations and spec.
func (w *Additions) addNativePodGroup(u *unstructured.Unstructured) error {
	if got := u.GroupVersionKind().Version; got != nativegroup.GroupVersion.Version {
		return fmt.Errorf("apiVersion: %q: Fluence reads %s", u.GetAPIVersion(), nativegroup.GroupVersion)
	}
	pg := schedulingv1beta1.PodGroup{}
	if err := w.read(u, &pg); err != nil && !errors.Is(err, errExists) {
		return err
	}
	switch policy := pg.Spec.SchedulingPolicy; {
	case (policy.Gang == nil) == (policy.Basic == nil):
		return errors.New("spec.schedulingPolicy: set one of gang and basic")
	case policy.Gang != nil && policy.Gang.MinCount < 1:
		return fmt.Errorf("spec.schedulingPolicy.gang.minCount: %d: must be 1 or more", policy.Gang.MinCount)
	}
	class, err := w.priorityClass(pg.Spec.PriorityClassName, "spec")
	if err != nil {
		return err
	}
	if class != nil {
		pg.Spec.Priority = &class.Value
	}
	for _, o := range w.existing.NativePodGroups {
		if o.Namespace == pg.Namespace && o.Name == pg.Name {
			pg.UID, pg.CreationTimestamp, pg.OwnerReferences, pg.Status = o.UID, o.CreationTimestamp, o.OwnerReferences, o.Status
		}
	}
	w.NativePodGroups = append(w.NativePodGroups, pg)
	return nil
}

// addNativeMinimums writes onto native PodGroups of the file how many pods start together, where the
// policy is basic, as the controller would.
func (w *Additions) addNativeMinimums() error {
	members := map[types.NamespacedName][]*corev1.Pod{}
	for _, pod := range w.pods {
		if id := group.IdentityOf(pod, w.owners); id.NeedsMinimum {
			members[id.Key] = append(members[id.Key], pod)
		}
	}
	for i := range w.NativePodGroups {
		pg := &w.NativePodGroups[i]
		pods := members[group.NativeKey(pg.Namespace, pg.Name)]
		if !nativegroup.IsBasic(pg) || len(pods) == 0 || pg.Annotations[group.MinMemberAnnotation] != "" {
			continue
		}
		size, err := w.sizeOf(pods)
		if err != nil {
			return fmt.Errorf("podgroup.scheduling.k8s.io %s/%s: %w", pg.Namespace, pg.Name, err)
		}
		if size != (group.Size{}) {
			pg.Annotations = maps.Collect(maps.All(pg.Annotations))
			pg.Annotations[group.MinMemberAnnotation] = strconv.Itoa(int(size.Min))
		}
	}
	return nil
}
