package fluxjob

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
)

// A patch is a JSON merge patch (RFC 7386) of a Job or a pod. Whoever sends it adds the version that was read.
type patch map[string]any

// suspension suspends a Job until its turn. queue is the label to write, for a Job that names no queue itself.
func suspension(since time.Time, queue string) patch {
	metadata := map[string]any{"annotations": map[string]any{group.QueuedAnnotation: group.Queued{Since: since}.String()}}
	if queue != "" {
		metadata["labels"] = map[string]any{group.QueueLabel: queue}
	}
	return patch{"metadata": metadata, "spec": map[string]any{"suspend": true}}
}

// noting notes since when a workload waits, and what a user has set in its FluxJob.
func noting(q group.Queued) patch {
	return patch{"metadata": map[string]any{"annotations": map[string]any{group.QueuedAnnotation: q.String()}}}
}

// release lets a workload go with a deadline. It returns nil if the workload is as it is to be already.
func (w *workload) release(deadline *int64) patch {
	if !w.suspended && w.queued == "" && ptr.Equal(w.deadline, deadline) {
		return nil
	}
	spec := map[string]any{}
	annotations := map[string]any{group.QueuedAnnotation: nil}
	if w.isJob() {
		spec["suspend"] = false
		w.setDeadline(deadline, annotations, spec)
		annotations[group.SuspendedForAnnotation] = nil
	} else {
		if deadline != nil && !ptr.Equal(w.deadline, deadline) {
			spec["activeDeadlineSeconds"] = *deadline
		}
		w.ungate(spec)
	}
	return patch{"metadata": map[string]any{"annotations": annotations}, "spec": spec}
}

// limit gives a workload that runs a deadline. It returns nil if it has it already, and for a pod whose deadline would be
// raised, which the API server refuses.
func (w *workload) limit(deadline *int64) patch {
	annotations, spec := map[string]any{}, map[string]any{}
	switch {
	case ptr.Equal(w.deadline, deadline):
		return nil
	case w.isJob():
		w.setDeadline(deadline, annotations, spec)
	case deadline == nil || w.deadline != nil && *w.deadline < *deadline:
		return nil
	default:
		spec["activeDeadlineSeconds"] = *deadline
	}
	return patch{"metadata": map[string]any{"annotations": annotations}, "spec": spec}
}

// setDeadline writes the deadline of a Job, and the note of its own.
func (w *workload) setDeadline(deadline *int64, annotations, spec map[string]any) {
	own := w.ownDeadline()
	annotations[group.DeadlineAnnotation], spec["activeDeadlineSeconds"] = nil, nil
	if deadline == nil {
		return
	}
	spec["activeDeadlineSeconds"] = *deadline
	if !ptr.Equal(own, deadline) {
		annotations[group.DeadlineAnnotation] = group.DeadlineNote(own, *deadline)
	}
}

// leave lets a workload go that is to wait in no queue any more, as it was: a Job has its own deadline again. It returns nil if
// nothing of Fluence is on it. A Job stays suspended if its user has suspended it, or if another controller decides when it runs.
func (w *workload) leave() patch {
	annotations, spec := map[string]any{group.QueuedAnnotation: nil}, map[string]any{}
	p := patch{"metadata": map[string]any{"annotations": annotations}, "spec": spec}
	switch {
	case !w.isJob() && !w.suspended, w.isJob() && w.queued == "" && w.deadlineNote == "":
		return nil
	case !w.isJob():
		w.ungate(spec)
		return p
	}
	group.RestoreDeadline(w.deadline, w.deadlineNote, annotations, spec)
	if w.suspended && w.queued != "" && !w.isOthers() {
		spec["suspend"] = false
		if _, has := w.asked.template.Labels[group.QueueLabel]; has {
			// Its pods would be held by their label.
			spec["template"] = map[string]any{"metadata": map[string]any{"labels": map[string]any{group.QueueLabel: nil}}}
		}
	}
	return p
}

// ungate writes the gates of a pod without that of queues.
func (w *workload) ungate(spec map[string]any) {
	if !w.suspended {
		return
	}
	rest := []corev1.PodSchedulingGate{}
	for _, g := range w.asked.template.Spec.SchedulingGates {
		if g.Name != v1alpha1.QueueGate {
			rest = append(rest, g)
		}
	}
	spec["schedulingGates"] = rest
}
