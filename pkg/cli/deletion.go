package cli

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// phaseTerminating is shown as the phase of a group that is being deleted, as kubectl shows pods.
const phaseTerminating = "Terminating"

// ownersThatWere also knows the owners that do not exist any more. The owners are read after the pods, so an owner of a
// pod that was not seen has been deleted. It counts as the top owner.
type ownersThatWere struct{ group.Owners }

// ControllerOf implements group.Owners.
func (o ownersThatWere) ControllerOf(namespace string, of group.Owner) (group.Owner, bool) {
	above, _ := o.Owners.ControllerOf(namespace, of)
	return above, true
}

// stays reports whether a pod has not ended and is not being deleted.
func stays(pod *corev1.Pod) bool { return whyEnded(pod) == "" }

// isBeingDeleted reports whether a group is being deleted: its PodGroup or an owner of its pods has gone or is being
// deleted, and so are its pods. pg is nil if the PodGroup has gone.
//
// The garbage collector marks one pod after another. So the pods of an owner that has gone count as marked if
// one of them is, or if the PodGroup has gone too.
func (ns *namespace) isBeingDeleted(pg *scheduling.PodGroup, pods []*corev1.Pod) bool {
	going := pg == nil || pg.DeletionTimestamp != nil
	if len(pods) == 0 {
		return pg != nil && going
	}
	marked := func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }
	left := func(pod *corev1.Pod) bool { return ns.isLeftBy(pg, pod) }
	return (going || slices.ContainsFunc(pods, ns.hasLostOwner)) &&
		(slices.ContainsFunc(pods, marked) || pg == nil && slices.ContainsFunc(pods, left)) &&
		!slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return stays(pod) && !left(pod) })
}

// hasLostOwner reports whether the owner of a pod has gone or is being deleted. It returns false if that is not known.
func (ns *namespace) hasLostOwner(pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	return ref != nil && ns.canSee(*ref) && !ns.staying[ref.UID]
}

// isLeftBy reports whether the owner of a pod has gone, and has left no PodGroup, or one that it owned. An owner that leaves
// its pods to live on (kubectl delete --cascade=orphan) is removed from them first.
func (ns *namespace) isLeftBy(pg *scheduling.PodGroup, pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || !ns.canSee(*ref) {
		return false
	}
	_, exists := ns.staying[ref.UID]
	return !exists && (pg == nil || slices.ContainsFunc(pg.OwnerReferences, func(of metav1.OwnerReference) bool { return of.UID == ref.UID }))
}

// canSee reports whether an owner would have been read if it existed.
func (ns *namespace) canSee(ref metav1.OwnerReference) bool {
	k := group.KindOf(group.OwnerOf(ref))
	return group.OwnerOf(ref).Watched() && !slices.Contains(ns.hidden, k.Resource)
}

// addDeletion makes the summary one of a group that is being deleted.
func (g *groupSummary) addDeletion() {
	g.Status, g.Phase, g.WaitingFor = statusTerminating, phaseTerminating, ""
	g.Message = "the group is being deleted"
	if g.Bound > 0 {
		g.Message += fmt.Sprintf("; %s not ended yet", podsHave(int(g.Bound)))
	}
}

// summaryOfPods describes a group whose PodGroup does not exist, by its pods alone.
func (ns *namespace) summaryOfPods(key types.NamespacedName, pods []*corev1.Pod) groupSummary {
	g := groupSummary{Namespace: key.Namespace, Name: shownName(key.Name), groupTimes: groupTimes{Created: pods[0].CreationTimestamp}, Nodes: map[string]int{}}
	if o := group.IdentityOf(pods[0], ns.ownersOf).Owner; o != (group.Owner{}) {
		g.Owner = o.Kind + "/" + o.Name
	}
	for _, pod := range pods {
		if pod.CreationTimestamp.Before(&g.Created) {
			g.Created = pod.CreationTimestamp
		}
	}
	g.addPods(pods, ns.now)
	if g.Status != statusFinished {
		g.Size = max(int32(len(pods))-g.Succeeded-g.Failed, g.Size) //nolint:gosec // a group has at most group.MaxSize pods
		if said, err := group.SizeOf(pods[0].Labels); err == nil {
			g.Size, g.Minimum = max(g.Size, said.Size), said.Min
		}
	}
	switch {
	case g.Status != statusFinished && ns.isBeingDeleted(nil, pods):
		if g.Minimum == 0 && group.IsArray(pods[0].Annotations) {
			g.Minimum = 1
		} else if g.Minimum == 0 {
			g.Minimum = g.Size // without labels the controller had filled in the size
		}
		g.addDeletion()
	case g.Status == statusWaiting:
		g.WaitingFor, g.Message = reason.NoPodGroup, fmt.Sprintf("%s does not exist", group.KeyText(key))
	}
	return g
}
