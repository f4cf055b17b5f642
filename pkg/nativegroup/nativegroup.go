// Package nativegroup reads PodGroups of scheduling.k8s.io, the API of Kubernetes itself, as
// Fluence's own PodGroups, so that other packages know one form. Such a PodGroup is called native.
//
// The name of a converted PodGroup is the name in the key of its group (see group.NativeKey),
// which no other PodGroup can have.
package nativegroup

import (
	"fmt"
	"strconv"
	"strings"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// GroupVersion is the API group and version in which native PodGroups are read and written.
var GroupVersion = schedulingv1beta1.SchemeGroupVersion

// PodGroups is the resource of native PodGroups.
var PodGroups = GroupVersion.WithResource("podgroups")

// conditionPrefix begins the types of Fluence's conditions on a native PodGroup, because other
// programs write conditions there as well. On Fluence's own PodGroups the types have no prefix.
const conditionPrefix = "fluence.flux-framework.org/"

// Convert returns a native PodGroup in the form of Fluence's own. It has the parts of the
// metadata that identify the object, Fluence's annotations and its conditions. minMember is
// the minimum of the group, and 0 while the policy is basic and nothing says a minimum. What
// has no place in that form is left out: see Topology, Priority and Unsupported.
func Convert(native *schedulingv1beta1.PodGroup) *scheduling.PodGroup {
	key := group.NativeKey(native.Namespace, native.Name)
	pg := &scheduling.PodGroup{
		TypeMeta: metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: "PodGroup"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, UID: native.UID, ResourceVersion: native.ResourceVersion,
			Generation: native.Generation, CreationTimestamp: native.CreationTimestamp, DeletionTimestamp: native.DeletionTimestamp,
			Annotations: group.ProjectAnnotations(native.Annotations), OwnerReferences: native.OwnerReferences,
		},
	}
	pg.Spec.MinMember = minMember(native)
	for _, c := range native.Status.Conditions {
		if kind, ours := strings.CutPrefix(c.Type, conditionPrefix); ours {
			c.Type = kind
			pg.Status.Conditions = append(pg.Status.Conditions, c)
		}
	}
	return pg
}

// minMember returns how many pods of a native PodGroup start together. The annotation counts if the
// policy is basic. If the policy is gang, the annotation can only lower minCount: a Job that is
// nearly done makes fewer pods than that.
func minMember(native *schedulingv1beta1.PodGroup) int32 {
	said, _ := Minimum(native.Annotations)
	gang := native.Spec.SchedulingPolicy.Gang
	switch {
	case gang == nil:
		return said
	case said > 0:
		return min(said, gang.MinCount)
	default:
		return gang.MinCount
	}
}

// Minimum reads group.MinMemberAnnotation. It returns 0 if there is none. The
// error names the annotation and the value in words fit for a user.
func Minimum(annotations map[string]string) (int32, error) {
	value, ok := annotations[group.MinMemberAnnotation]
	if !ok {
		return 0, nil
	}
	n, err := strconv.ParseUint(value, 10, 32)
	if err != nil || n < 1 || n > group.MaxSize {
		return 0, fmt.Errorf("annotation %s: %q: must be a whole number from 1 to %d", group.MinMemberAnnotation, value, group.MaxSize)
	}
	return int32(n), nil
}

// IsBasic reports whether the policy of a native PodGroup is not gang.
func IsBasic(native *schedulingv1beta1.PodGroup) bool {
	return native.Spec.SchedulingPolicy.Gang == nil
}

// Priority returns the priority that all pods of a native PodGroup must have.
func Priority(native *schedulingv1beta1.PodGroup) int32 {
	if p := native.Spec.Priority; p != nil {
		return *p
	}
	return 0
}

// topologyKey returns the node label below one value of which all pods have to be.
func topologyKey(native *schedulingv1beta1.PodGroup) string {
	if c := native.Spec.SchedulingConstraints; c != nil && len(c.Topology) > 0 {
		return c.Topology[0].Key
	}
	return ""
}

// Unsupported names a field of a native PodGroup that Fluence does not support, and its value,
// in words fit for a user. No pod of such a group may start. It returns nothing if there is none.
func Unsupported(native *schedulingv1beta1.PodGroup) string {
	switch spec := native.Spec; {
	case spec.ParentCompositePodGroupName != nil:
		return fmt.Sprintf("spec.parentCompositePodGroupName: %q: Fluence does not place trees of PodGroups", *spec.ParentCompositePodGroupName)
	case len(spec.ResourceClaims) > 0:
		return fmt.Sprintf("spec.resourceClaims: %q: Fluence does not allocate claims that the pods of a group share", spec.ResourceClaims[0].Name)
	case spec.SchedulingConstraints != nil && len(spec.SchedulingConstraints.Topology) > 1:
		return fmt.Sprintf("spec.schedulingConstraints.topology[1].key: %q: Fluence knows one topology constraint only", spec.SchedulingConstraints.Topology[1].Key)
	}
	return ""
}

// Topology reads the topology constraint of a native PodGroup: a node label below one value of which
// all pods have to be. If the label is a level, it is returned as required, and else as domain. wrong
// is set if an annotation contradicts the constraint, and says so in words fit for a user. Annotations
// may name the given levels. All results are empty if there is no constraint.
func Topology(native *schedulingv1beta1.PodGroup, levels []group.Level) (required, domain, wrong string) {
	key, said := topologyKey(native), native.Annotations[group.TopologyRequiredAnnotation]
	if key == "" {
		return "", "", ""
	}
	wanted, err := levelOf(key, levels)
	if err != nil {
		domain = key
	} else {
		required = key
	}
	if other, otherErr := levelOf(said, levels); said != "" && (err != nil || otherErr != nil || other != wanted) {
		wrong = fmt.Sprintf("spec.schedulingConstraints.topology[0].key: %q and annotation %s: %q: set only one of them", key, group.TopologyRequiredAnnotation, said)
	}
	return required, domain, wrong
}

// levelOf returns the type of the level that a name means. It returns nothing for an empty name.
func levelOf(name string, levels []group.Level) (string, error) {
	topology, err := group.TopologyAnnotations{Required: name}.Parse(levels)
	if err != nil || topology == nil {
		return "", err
	}
	return topology.Required, nil
}

// NameOf returns the API version and the name of the object that
// a PodGroup, converted or not, was read from.
func NameOf(pg *scheduling.PodGroup) (apiVersion, name string) {
	if name, native := group.NativeName(types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name}); native {
		return GroupVersion.String(), name
	}
	return scheduling.GroupVersion.String(), pg.Name
}

// Conditions returns the scheduler's conditions of a PodGroup as they are written onto the
// native one, and before them PodGroupInitiallyScheduled, which Kubernetes defines and which
// follows from the condition of the type scheduled. It is True once the group has started, and
// stays True. started says that it was written as True before. now is the time of a change.
func Conditions(native *schedulingv1beta1.PodGroup, cs []metav1.Condition, scheduled string, started bool, now metav1.Time) []metav1.Condition {
	var all []metav1.Condition
	before := meta.FindStatusCondition(native.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled)
	for _, c := range cs {
		if c.Type == scheduled {
			all = append(all, initiallyScheduled(before, c, started, now))
		}
	}
	for _, c := range cs {
		c.Type = conditionPrefix + c.Type
		all = append(all, c)
	}
	return all
}

// reasonScheduled is the reason with which kube-scheduler writes PodGroupInitiallyScheduled as True.
const reasonScheduled = "Scheduled"

// initiallyScheduled returns the condition PodGroupInitiallyScheduled that follows from c.
func initiallyScheduled(before *metav1.Condition, c metav1.Condition, started bool, now metav1.Time) metav1.Condition {
	if before != nil && before.Status == metav1.ConditionTrue {
		return *before
	}
	because := c.Reason
	c.Type = schedulingv1beta1.PodGroupInitiallyScheduled
	switch {
	case c.Status == metav1.ConditionTrue:
		c.Reason = reasonScheduled
	case started:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, reasonScheduled, "the group has started before"
	case because == reason.MatchError || because == reason.MatcherUnavailable:
		c.Reason, c.Message = schedulingv1beta1.PodGroupReasonSchedulerError, because+": "+c.Message
	default:
		c.Reason, c.Message = schedulingv1beta1.PodGroupReasonUnschedulable, because+": "+c.Message
	}
	c.LastTransitionTime = now
	if before != nil && before.Status == c.Status {
		c.LastTransitionTime = before.LastTransitionTime
	}
	return c
}

// HasStarted reports whether the condition PodGroupInitiallyScheduled is True in a list.
func HasStarted(cs []metav1.Condition) bool {
	return meta.IsStatusConditionTrue(cs, schedulingv1beta1.PodGroupInitiallyScheduled)
}
