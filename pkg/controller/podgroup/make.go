package podgroup

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flux-k8s/fluence/pkg/group"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// decideToMake decides for a group without a PodGroup.
func (c Config) decideToMake(o observed, m memory) (decision, memory) {
	var live []*corev1.Pod
	for _, pod := range o.pods {
		if pod.DeletionTimestamp == nil && !ended(pod) {
			live = append(live, pod)
		}
	}
	var made string
	switch job := o.job; {
	case job != nil:
		if job.DeletionTimestamp != nil || jobIs(job, batchv1.JobComplete) || jobIs(job, batchv1.JobFailed) ||
			job.Spec.Suspend != nil && *job.Spec.Suspend {
			return decision{}, memory{}
		}
		if job.Spec.Template.Spec.SchedulerName != c.SchedulerName && len(live) == 0 {
			return decision{}, memory{}
		}
		made = "for Job " + job.Name
	case len(live) == 0 || ofJob(live[0], o.key.Name):
		// The Job is gone, or not seen yet.
		return decision{}, memory{}
	default:
		if wrong := validation.IsDNS1123Subdomain(o.key.Name); len(wrong) > 0 {
			if m.invalid == o.key.Name {
				return decision{}, m
			}
			text := fmt.Sprintf("label %s: %q: cannot be the name of a PodGroup: %s", group.Label, o.key.Name, wrong[0])
			return decision{events: []note{{about: live[0], kind: corev1.EventTypeWarning, reason: "InvalidGroupName", text: text}}},
				memory{invalid: o.key.Name}
		}
		if size, err := o.labelled(); err == nil && size == (group.Size{}) {
			// Its maker is to come, and knows how many pods it needs: to start the first
			// of them now would be to start it partly.
			return decision{}, memory{}
		}
		made = "for labelled pods"
	}
	w := c.wantedSize(o)
	pg := &scheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: o.key.Namespace, Name: o.key.Name,
		Labels:      map[string]string{ManagedByLabel: ManagedByValue},
		Annotations: map[string]string{SchedulerAnnotation: c.SchedulerName},
	}}
	if o.job != nil {
		pg.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Name: o.job.Name, UID: o.job.UID,
			Controller: new(false), BlockOwnerDeletion: new(false),
		}}
	}
	pg.Spec.MinMember = w.minMember
	text := fmt.Sprintf("Made %s with minMember %d", made, w.minMember)
	return decision{create: pg, events: []note{{kind: corev1.EventTypeNormal, reason: "Created", text: text}}}, memory{}
}

// ofJob says that a pod is of the group that is named for the Job it belongs to,
// whether or not it is labelled so.
func ofJob(pod *corev1.Pod, name string) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "Job" && group.JobName(owner.Name, owner.UID) == name
}

// decideOnRemoval decides whether a PodGroup goes: one that was made for
// labelled pods, when it has been without pods for long enough. Those of Jobs go
// with their owner.
func (c Config) decideOnRemoval(o observed, m memory) (decision, memory) {
	if len(o.pods) > 0 || !c.madeHere(o.podGroup) || len(o.podGroup.OwnerReferences) > 0 {
		m.empty = time.Time{}
		return decision{}, m
	}
	if m.empty.IsZero() {
		m.empty = o.now
	}
	if wait := m.empty.Add(c.EmptyDelay).Sub(o.now); wait > 0 {
		return decision{after: wait}, m
	}
	return decision{remove: true}, m
}
