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

// CheckName says what keeps a value of group.Label from being the name of a PodGroup; nil if
// nothing does.
func CheckName(value string) error {
	if wrong := validation.IsDNS1123Subdomain(value); len(wrong) > 0 {
		return fmt.Errorf("label %s: %q: cannot be the name of a PodGroup: %s", group.Label, value, wrong[0])
	}
	return nil
}

// decideOnCreation decides for a group without a PodGroup.
func (c Config) decideOnCreation(o observation, m memory) (decision, memory) {
	live := o.livePods()
	if o.unseen || !c.needsPodGroup(o, live) {
		return decision{}, memory{}
	}
	if err := CheckName(o.key.Name); err != nil {
		return reportInvalid(m, live, reason.InvalidGroupName, err.Error())
	}
	w := c.wantedSize(o)
	if w.unknown {
		if text := o.whyUnreadable(); text != "" {
			d, m := reportInvalid(m, live, reason.OwnerUnreadable, text)
			d.after = o.after
			return d, m
		}
		// Its maker is to come, and knows how many pods it needs: to start the first
		// of them now would be to start it partly.
		return decision{}, memory{}
	}
	pg := &scheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: o.key.Namespace, Name: o.key.Name,
		Labels:          map[string]string{ManagedByLabel: ManagedByValue},
		Annotations:     map[string]string{SchedulerAnnotation: c.SchedulerName},
		OwnerReferences: o.references(),
	}}
	pg.Spec.MinMember = w.minMember
	made := "for labelled pods"
	if o.isNamedForOwner() {
		made = fmt.Sprintf("for %s %s", o.topOwners[0].owner.Kind, o.topOwners[0].owner.Name)
	}
	text := fmt.Sprintf("Made %s with minMember %d", made, w.minMember)
	return decision{create: pg, events: []pendingEvent{{eventType: corev1.EventTypeNormal, reason: reason.Created, text: text}}}, memory{}
}

// reportInvalid tells once, on a pod if there is one, why a PodGroup is not made.
func reportInvalid(m memory, live []*corev1.Pod, reason, text string) (decision, memory) {
	if len(live) == 0 || m.reportedInvalid == text {
		return decision{}, m
	}
	return decision{events: []pendingEvent{{about: live[0], eventType: corev1.EventTypeWarning, reason: reason, text: clip(text)}}}, memory{reportedInvalid: text}
}

// needsPodGroup says whether a group asks for a PodGroup. One that is named for an
// object does so as soon as that wants pods; another when it has some.
func (c Config) needsPodGroup(o observation, live []*corev1.Pod) bool {
	if o.idle() {
		return false
	}
	if o.isNamedForOwner() {
		w := o.topOwners[0]
		return w.canOwn() && !w.hasEnded() && !w.suspended && (len(live) > 0 || c.wantsScheduler(o))
	}
	// Not all of it may go with owners that are leaving.
	return len(live) > 0 && (len(o.topOwners) == 0 || o.hasOwner() || o.hasBarePod())
}

// wantsScheduler says that what makes the group's pods asks for the scheduler.
func (c Config) wantsScheduler(o observation) bool {
	for _, p := range current(o.podOwners) {
		if p.template.Spec.SchedulerName == c.SchedulerName {
			return true
		}
	}
	return false
}

// idle says that what makes the group's pods wants none now, as a StatefulSet that
// is scaled to nothing. Pods that are left of it are about to go.
func (o observation) idle() bool {
	makers := map[types.UID]bool{}
	for _, p := range o.podOwners {
		switch {
		case p.hasEnded():
		case p.idle():
			makers[p.GetUID()] = true
		default:
			return false
		}
	}
	for _, pod := range o.livePods() {
		if ref := metav1.GetControllerOfNoCopy(pod); ref == nil || !makers[ref.UID] {
			return false
		}
	}
	return len(makers) > 0
}

// isNamedForOwner says that the group is named for an object rather than by a label.
func (o observation) isNamedForOwner() bool {
	return len(o.topOwners) == 1 && o.topOwners[0].owner.PodGroupName() == o.key.Name
}

// livePods returns the pods that are there to stay.
func (o observation) livePods() []*corev1.Pod {
	var live []*corev1.Pod
	for _, pod := range o.pods {
		if pod.DeletionTimestamp == nil && !hasEnded(pod) {
			live = append(live, pod)
		}
	}
	return live
}

// hasBarePod says that a live pod is of nobody that a PodGroup could refer to.
func (o observation) hasBarePod() bool {
	for _, pod := range o.livePods() {
		if ref := metav1.GetControllerOfNoCopy(pod); ref == nil || ref.Kind == "Node" {
			return true
		}
	}
	return false
}

// whyUnreadable says which owner cannot be read, if one cannot.
func (o observation) whyUnreadable() string {
	for _, w := range o.topOwners {
		if w.lookup == unreadable {
			return fmt.Sprintf("%s, so the pods of %s %s have to say how many they are by the label %s", w.why, w.owner.Kind, w.owner.Name, group.SizeLabel)
		}
	}
	return ""
}

// decideOnRemoval decides whether a PodGroup goes: one that was made for bare
// pods, when it has been without pods for long enough. Others go with their
// owners.
func (c Config) decideOnRemoval(o observation, m memory) (decision, memory) {
	if len(o.pods) > 0 || !c.isManaged(o.podGroup) || len(o.podGroup.OwnerReferences) > 0 || o.hasOwner() {
		m.emptySince = time.Time{}
		return decision{}, m
	}
	return c.removeInTime(o, m)
}

// decideOnOrphan decides whether a PodGroup of which no owner is there to stay is
// removed. That is the garbage collector's to do, and it takes a moment; but it does
// not notice the end of an owner after which another came under the same name while
// it was not connected to the API server.
func (c Config) decideOnOrphan(o observation, m memory) (decision, memory) {
	exists := func(w topOwner) bool { return w.lookup != missing }
	if len(o.pods) > 0 || slices.ContainsFunc(o.topOwners, exists) {
		m.emptySince = time.Time{}
		return decision{}, m
	}
	return c.removeInTime(o, m)
}

// removeInTime removes a PodGroup that has been without pods for long enough.
func (c Config) removeInTime(o observation, m memory) (decision, memory) {
	if m.emptySince.IsZero() {
		m.emptySince = o.now
	}
	if wait := m.emptySince.Add(c.EmptyDelay).Sub(o.now); wait > 0 {
		return decision{after: wait}, m
	}
	return decision{remove: true}, m
}
