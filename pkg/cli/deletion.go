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
func (ns *namespace) isBeingDeleted(pg *scheduling.PodGroup, pods []*corev1.Pod) bool {
	going := pg == nil || pg.DeletionTimestamp != nil
	if len(pods) == 0 {
		return pg != nil && going
	}
	return (going || slices.ContainsFunc(pods, ns.hasLostOwner)) && !slices.ContainsFunc(pods, stays) &&
		slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
}

// hasLostOwner reports whether the owner of a pod has gone or is being deleted. It returns false if that is not known.
func (ns *namespace) hasLostOwner(pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	return ref != nil && group.OwnerOf(*ref).Watched() && len(ns.hidden) == 0 && !ns.staying[ref.UID]
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
	switch {
	case g.Status != statusFinished && ns.isBeingDeleted(nil, pods):
		g.Size = max(int32(len(pods))-g.Succeeded-g.Failed, g.Size) //nolint:gosec // a group has at most group.MaxSize pods
		if said, err := group.SizeOf(pods[0].Labels); err == nil {
			g.Size, g.Minimum = max(g.Size, said.Size), said.Min
		}
		g.addDeletion()
	case g.Status == statusWaiting:
		g.WaitingFor, g.Message = reason.NoPodGroup, fmt.Sprintf("%s does not exist", group.KeyText(key))
	}
	return g
}
