package cli

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// untilResumed says why a suspended Job has no pods.
const untilResumed = "the Job is suspended, and has no pods until it is resumed (spec.suspend)"

// suspended reports whether an object is a Job that is suspended.
func suspended(o runtime.Object) bool {
	job, ok := o.(*batchv1.Job)
	return ok && job.Spec.Suspend != nil && *job.Spec.Suspend
}

// isSuspended reports whether an owner of a group is a Job that is suspended, as the Job says.
func (ns *namespace) isSuspended(pg *scheduling.PodGroup) bool {
	return slices.ContainsFunc(ns.owners, func(o runtime.Object) bool {
		return suspended(o) && slices.ContainsFunc(pg.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == o.(metav1.Object).GetUID() })
	})
}

// addSuspension makes the suspension the reason of a group, in the words of the controller, or else in those given. What
// the scheduler said of the group before is no longer so.
func (g *groupSummary) addSuspension(pg *scheduling.PodGroup, message string) {
	g.WaitingFor, g.Message, g.Since, g.Decided = reason.Suspended, message, metav1.Time{}, metav1.Time{}
	if c := meta.FindStatusCondition(pg.Status.Conditions, scheduling.ConditionMembersExpected); c != nil && isSuspended(pg) {
		g.Message, g.Since = c.Message, g.notBeforeCreation(c.LastTransitionTime)
	}
}

// addHowToResume adds how to resume the owner of a suspended group, if its kind is known.
func (s *whyAnswer) addHowToResume() {
	of := group.Owner{Group: "batch", Kind: s.Kind, Name: s.Name}
	if s.podGroup != nil && len(s.podGroup.OwnerReferences) > 0 {
		of = group.OwnerOf(s.podGroup.OwnerReferences[0])
	}
	k := group.KindOf(of)
	if k.Lifecycle == nil || k.Lifecycle.SuspendPath == nil {
		return
	}
	patch := "false"
	for _, field := range slices.Backward(append([]string{"spec"}, k.Lifecycle.SuspendPath...)) {
		patch = fmt.Sprintf("{%q:%s}", field, patch)
	}
	resource := k.Resource
	if of.Group != "batch" {
		resource += "." + of.Group
	}
	s.Hints = append(s.Hints, fmt.Sprintf("spec.%s of the %s is true; unless a queue such as Kueue resumes it: kubectl -n %s patch %s %s --type merge -p '%s'",
		strings.Join(k.Lifecycle.SuspendPath, "."), of.Kind, s.Namespace, resource, printableName(of.Name), patch))
}
