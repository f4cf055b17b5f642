package podgroup

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// CheckName returns why a value of group.Label cannot
// be the name of a PodGroup. It returns nil if it can.
func CheckName(value string) error {
	if wrong := validation.IsDNS1123Subdomain(value); len(wrong) > 0 {
		return fmt.Errorf("label %s: %q: cannot be the name of a PodGroup: %s", group.Label, value, wrong[0])
	}
	return nil
}

// decideOnCreation decides for a group without a PodGroup whether to create one.
func (c Config) decideOnCreation(o observation, m memory) (decision, memory) {
	live := o.livePods()
	if o.ownerNotCached || !c.needsPodGroup(o, live) {
		return decision{}, memory{}
	}
	if err := CheckName(o.key.Name); err != nil {
		return reportInvalid(m, live, reason.InvalidGroupName, err.Error())
	}
	w := c.wantedSize(o)
	if w.unknown {
		if text := o.whyUnreadable(); text != "" {
			d, m := reportInvalid(m, live, reason.OwnerUnreadable, text)
			d.requeueAfter = o.requeueAfter
			return d, m
		}
		// No owner or label gives a size yet. The PodGroup waits for the
		// owner, or the first pods would start before the others exist.
		return decision{}, memory{}
	}
	pg := &scheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: o.key.Namespace, Name: o.key.Name,
		Labels: map[string]string{ManagedByLabel: ManagedByValue},
		Annotations: map[string]string{
			SchedulerAnnotation:               c.SchedulerName,
			scheduling.CreationTimeAnnotation: creationTime(o).UTC().Format(metav1.RFC3339Micro),
		},
		OwnerReferences: o.references(),
	}}
	pg.Spec.MinMember, pg.Spec.Templates = w.minMember, o.wantedTemplates()
	made := "for labelled pods"
	if o.isNamedForOwner() {
		made = fmt.Sprintf("for %s", o.topOwners[0])
	}
	return decision{create: pg}, memory{created: fmt.Sprintf("Created the PodGroup %s: minMember %d", made, w.minMember)}
}

// reportInvalid reports once why a PodGroup is not created: by an
// event about a pod of the group. Without a pod it reports nothing.
func reportInvalid(m memory, live []podSet, reason, text string) (decision, memory) {
	if len(live) == 0 || m.reportedInvalid == text {
		return decision{}, m
	}
	return decision{events: []pendingEvent{{about: live[0].pod, eventType: corev1.EventTypeWarning, reason: reason, text: clip(text)}}}, memory{reportedInvalid: text}
}

// needsPodGroup reports whether a group needs a PodGroup. A group that is named for an object needs
// one as soon as the object wants pods. Any other group needs one once it has live pods.
func (c Config) needsPodGroup(o observation, live []podSet) bool {
	if o.idle() {
		return false
	}
	if o.isNamedForOwner() {
		if len(live) == 0 && o.inNative {
			return false
		}
		top := o.topOwners[0]
		return top.isLive() && !top.hasEnded() && !top.suspended && (len(live) > 0 || c.wantsScheduler(o))
	}
	// With only owners that are being deleted, the PodGroup
	// would be garbage-collected together with them.
	return len(live) > 0 && (len(o.topOwners) == 0 || o.hasLiveOwner() || o.hasBarePod())
}

// wantsScheduler reports whether a current pod template of the group asks for the scheduler.
func (c Config) wantsScheduler(o observation) bool {
	for _, p := range activePodOwners(o.podOwners) {
		if p.template.Spec.SchedulerName == c.SchedulerName {
			return true
		}
	}
	return false
}

// idle reports whether all podOwners of the group that have not ended want
// 0 pods, such as a StatefulSet scaled to 0. Their pods that still exist
// are about to be deleted. It is false if the group has other live pods.
func (o observation) idle() bool {
	idleOwners := map[types.UID]bool{}
	for _, p := range o.podOwners {
		switch {
		case p.hasEnded():
		case p.idle():
			idleOwners[p.GetUID()] = true
		default:
			return false
		}
	}
	for _, set := range o.livePods() {
		if ref := metav1.GetControllerOfNoCopy(set.pod); ref == nil || !idleOwners[ref.UID] {
			return false
		}
	}
	return len(idleOwners) > 0
}

// isNamedForOwner reports whether the group is named for an object, not by a label.
func (o observation) isNamedForOwner() bool {
	return len(o.topOwners) == 1 && o.topOwners[0].owner.PodGroupName() == o.key.Name
}

// livePods returns the pods that have not ended and are not being deleted.
func (o observation) livePods() []podSet {
	var live []podSet
	for _, set := range o.pods {
		if set.pod.DeletionTimestamp == nil && !hasEnded(set.pod) {
			live = append(live, set)
		}
	}
	return live
}

// hasBarePod reports whether a live pod has no controller that a PodGroup could have as owner.
func (o observation) hasBarePod() bool {
	for _, set := range o.livePods() {
		if ref := metav1.GetControllerOfNoCopy(set.pod); ref == nil || ref.Kind == "Node" {
			return true
		}
	}
	return false
}

// whyUnreadable says in words which owner cannot be read. It returns "" if all can be read.
func (o observation) whyUnreadable() string {
	for _, top := range o.topOwners {
		if top.state == unreadable {
			return fmt.Sprintf("%s: the size of %s %s is unknown; set the label %s on its pods", top.why, top.owner.Kind, top.owner.Name, group.SizeLabel)
		}
	}
	return ""
}

// decideOnRemoval decides whether to remove a PodGroup. A PodGroup that this controller made for
// bare pods is removed EmptyDelay after the last pod. One that has no pods is removed at once if its
// owner's pods are in a native PodGroup. All other PodGroups of this controller are deleted with
// their owners.
func (c Config) decideOnRemoval(o observation, m memory) (decision, memory) {
	if len(o.pods) == 0 && o.inNative && c.isManaged(o.podGroup) {
		return decision{remove: true}, m
	}
	if len(o.pods) > 0 || !c.isManaged(o.podGroup) || len(o.podGroup.OwnerReferences) > 0 || o.hasLiveOwner() {
		m.emptySince = time.Time{}
		return decision{}, m
	}
	return c.removeAfterEmptyDelay(o, m)
}

// decideOnOrphan decides whether to remove a PodGroup whose owners are all
// gone or being deleted. Normally the garbage collector deletes it a moment
// later. But the garbage collector misses an owner that was replaced by
// another of the same name while it was disconnected from the API server.
func (c Config) decideOnOrphan(o observation, m memory) (decision, memory) {
	exists := func(top topOwner) bool { return top.state != missing }
	if len(o.pods) > 0 || slices.ContainsFunc(o.topOwners, exists) {
		m.emptySince = time.Time{}
		return decision{}, m
	}
	return c.removeAfterEmptyDelay(o, m)
}

// removeAfterEmptyDelay removes a PodGroup once it has had no pods for EmptyDelay.
func (c Config) removeAfterEmptyDelay(o observation, m memory) (decision, memory) {
	if m.emptySince.IsZero() {
		m.emptySince = o.now
	}
	if wait := m.emptySince.Add(c.EmptyDelay).Sub(o.now); wait > 0 {
		return decision{requeueAfter: wait}, m
	}
	return decision{remove: true}, m
}
