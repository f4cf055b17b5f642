package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// waitingNoPods is the reason of an object without pods that is not suspended.
const waitingNoPods = "NoPods"

// withoutPodGroup returns the candidates that a target names and that have no PodGroup: objects
// that create pods of a group, and groups that only the labels of pods name.
func (ns *namespace) withoutPodGroup(n target) []candidate {
	answers := map[target]*whyAnswer{}
	answerFor := func(kind string, in, name string) *whyAnswer {
		as := target{strings.ToLower(kind), name}
		if answers[as] == nil {
			answers[as] = &whyAnswer{Kind: kind, groupSummary: groupSummary{Namespace: in, Name: name}}
		}
		return answers[as]
	}
	for _, o := range ns.owners {
		k, _ := group.WatchedKindOf(o)
		kind, m := k.Kind, o.(metav1.Object)
		if n.names(kind, m.GetName()) && !ns.hasPodsOrGroup(m) {
			s := answerFor(kind, m.GetNamespace(), m.GetName())
			s.Created = m.GetCreationTimestamp()
			s.WaitingFor, s.Message = withoutPods(kind, o)
			s.Waits = s.WaitingFor != ""
			if job, ok := o.(*batchv1.Job); ok && s.WaitingFor == reason.Suspended {
				s.toCome = append(s.toCome, podToCome(job))
			}
		}
	}
	for _, pod := range ns.pods {
		id := group.IdentityOf(pod, ns.ownersOf)
		if !id.InPodGroup || ns.group(id) != nil {
			continue
		}
		kind, name := "PodGroup", id.Key.Name
		named := n.namesPodGroup(id.Key.Name)
		if bare, native := group.NativeName(id.Key); native {
			kind, name = nativeKind, bare
		}
		if owner, ok := ns.ownerNamed(pod, n); ok {
			kind, name, named = owner.Kind, owner.Name, true
		}
		if named {
			s := answerFor(kind, pod.Namespace, name)
			s.members = append(s.members, pod)
			s.Waits = s.Waits || waits(pod)
			s.wantedGroup = wantedGroup(id)
		}
	}
	for _, s := range answers {
		if len(s.members) > 0 && ns.isBeingDeleted(nil, s.members) {
			s.Kind, s.Waits = "PodGroup", false
			s.groupSummary = ns.summaryOfPods(group.IdentityOf(s.members[0], ns.ownersOf).Key, s.members)
		}
	}
	var found []candidate
	for _, as := range slices.SortedFunc(maps.Keys(answers), func(a, b target) int { return cmp.Compare(a.String(), b.String()) }) {
		found = append(found, candidate{as.String(), answers[as]})
	}
	return found
}

// wantedGroup returns the PodGroup for which pods of
// an identity wait. It returns "" if they need none.
func wantedGroup(id group.Identity) string {
	if id.InPodGroup && id.NeedsPodGroup {
		return id.Key.Name
	}
	return ""
}

// ownerNamed returns the pod's controller or its top owner, if the target names it.
func (ns *namespace) ownerNamed(pod *corev1.Pod, n target) (group.Owner, bool) {
	var owners []group.Owner
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		owners = append(owners, group.OwnerOf(*ref))
	}
	for _, m := range append(owners, group.IdentityOf(pod, ns.ownersOf).Owner) {
		if m != (group.Owner{}) && n.names(m.Kind, m.Name) {
			return m, true
		}
	}
	return group.Owner{}, false
}

// hasPodsOrGroup reports whether an object owns pods or a PodGroup.
func (ns *namespace) hasPodsOrGroup(o metav1.Object) bool {
	of := func(ref metav1.OwnerReference) bool { return ref.UID == o.GetUID() }
	return slices.ContainsFunc(ns.pods, func(p *corev1.Pod) bool { return slices.ContainsFunc(p.OwnerReferences, of) }) ||
		slices.ContainsFunc(ns.groups, func(pg scheduling.PodGroup) bool { return slices.ContainsFunc(pg.OwnerReferences, of) })
}

// withoutPods says why an object has no pods. It returns "" if the object should have none.
func withoutPods(kind string, o runtime.Object) (why, message string) {
	none := o.(metav1.Object).GetDeletionTimestamp() != nil
	switch o := o.(type) {
	case *batchv1.Job:
		none = none || slices.ContainsFunc(o.Status.Conditions, func(c batchv1.JobCondition) bool {
			return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
		}) || o.Spec.Parallelism != nil && *o.Spec.Parallelism == 0
	case *appsv1.ReplicaSet:
		none = none || o.Spec.Replicas != nil && *o.Spec.Replicas == 0
	case *appsv1.StatefulSet:
		none = none || o.Spec.Replicas != nil && *o.Spec.Replicas == 0
	}
	switch {
	case none:
		return "", ""
	case suspended(o):
		return reason.Suspended, untilResumed
	}
	return waitingNoPods, fmt.Sprintf("the object has no pods: kubectl describe %s %s says why", strings.ToLower(kind), o.(metav1.Object).GetName())
}
