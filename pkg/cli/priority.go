package cli

import (
	"context"
	"encoding/json"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/nativegroup"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// priorities say which priority the pods of groups will have that have none yet.
type priorities struct {
	classes []*schedulingv1.PriorityClass
	// templates are the specs of the pods that owners make, by the UIDs of the owners.
	templates map[types.UID]*corev1.PodSpec
}

// readClasses reads the PriorityClasses if a group has no pods, or may have none because a Job is suspended. It leaves them out if the user may not read them.
func (r *reader) readClasses(ctx context.Context, ns *namespace) error {
	if !slices.ContainsFunc(ns.owners, suspended) && !slices.ContainsFunc(ns.groups, func(pg scheduling.PodGroup) bool { return len(ns.members[keyOf(&pg)]) == 0 }) {
		return nil
	}
	objects, err := listAll(ctx, "priorityclasses", lister(r.client.SchedulingV1().PriorityClasses().List))
	if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
		return err
	}
	ns.priorities.classes = ofType[*schedulingv1.PriorityClass](objects)
	return nil
}

// templatesOf returns the specs of the pods that owners make.
func templatesOf(owners []runtime.Object) map[types.UID]*corev1.PodSpec {
	templates := make(map[types.UID]*corev1.PodSpec, len(owners))
	for _, o := range owners {
		switch o := o.(type) {
		case *batchv1.Job:
			templates[o.UID] = &o.Spec.Template.Spec
		case *appsv1.StatefulSet:
			templates[o.UID] = &o.Spec.Template.Spec
		case *appsv1.ReplicaSet:
			templates[o.UID] = &o.Spec.Template.Spec
		}
	}
	return templates
}

// priorityToCome returns the priority that the pods of a group will have. A native PodGroup says it. For another group
// it is the highest priority of the pod templates of its owners. It is 0 if no template is known, or if the PriorityClass cannot be read.
func (ns *namespace) priorityToCome(pg *scheduling.PodGroup) int32 {
	if name, native := group.NativeName(keyOf(pg)); native {
		same := func(n schedulingv1beta1.PodGroup) bool { return n.Namespace == pg.Namespace && n.Name == name }
		if i := slices.IndexFunc(ns.native, same); i >= 0 {
			return nativegroup.Priority(&ns.native[i])
		}
	}
	var specs []*corev1.PodSpec
	for _, ref := range pg.OwnerReferences {
		if spec := ns.priorities.templates[ref.UID]; spec != nil {
			specs = append(specs, spec)
		}
	}
	for _, t := range pg.Spec.Templates {
		var pod corev1.Pod
		if t.Pod != nil && json.Unmarshal(t.Pod.Raw, &pod) == nil {
			specs = append(specs, &pod.Spec)
		}
	}
	if len(specs) == 0 {
		return 0
	}
	highest := ns.priorities.of(specs[0])
	for _, spec := range specs[1:] {
		highest = max(highest, ns.priorities.of(spec))
	}
	return highest
}

// of returns the priority that the API server gives to a pod: the value of the pod's class, or of the default class.
func (p *priorities) of(spec *corev1.PodSpec) int32 {
	for _, class := range p.classes {
		if class.Name == spec.PriorityClassName || spec.PriorityClassName == "" && class.GlobalDefault {
			return class.Value
		}
	}
	return priorityOf(&corev1.Pod{Spec: *spec})
}
