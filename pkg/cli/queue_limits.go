package cli

import (
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/flux-k8s/fluence/pkg/admission"
	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/simulate"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// withRoom returns the jobs of a queue that have room.
func withRoom(jobs []*v1alpha1.FluxJob, queue string) (have []*v1alpha1.FluxJob) {
	for _, fj := range jobs {
		if p := fj.Status.Phase; fj.Spec.Queue == queue && (p == v1alpha1.Ready || p == v1alpha1.Running) {
			have = append(have, fj)
		}
	}
	return have
}

// addLimit says which limit of its queue may keep a job for longer. Of the other jobs only those count that have room now and run
// longer than until the job would start. Jobs without room do not count: when they end is not known.
func (a *whenAnswer) addLimit(fj *v1alpha1.FluxJob, jobs []*v1alpha1.FluxJob, queue *v1alpha1.Queue) {
	if queue == nil {
		return
	}
	have := slices.DeleteFunc(withRoom(jobs, queue.Name), func(other *v1alpha1.FluxJob) bool {
		room := other.Status.Allocation
		return room != nil && room.End != nil && !room.End.After(a.From.Time)
	})
	why, message := admission.OverLimit(queue, have, fj)
	switch why {
	case "":
	case v1alpha1.ReasonLimitReached:
		a.Limit = why + ": " + message + ", unless jobs that run now end before their time limits"
	default:
		a.Limit = why + ": " + message
	}
}

// addLimits says of the groups of files that name a queue which limit of it keeps them now. It notes if that cannot be read.
func (r *reader) addLimits(ctx context.Context, a addition, starts []simulate.Start, answers []whenAnswer) {
	if queueIn(a.workload.Objects) == "" {
		return
	}
	all, err := r.readQueues(ctx)
	var jobs []*v1alpha1.FluxJob
	if err == nil {
		jobs, _, err = r.readQueuedJobs(ctx)
	}
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return // noteQueues says it
	case err != nil:
		r.notes = append(r.notes, fmt.Sprintf("whether a limit of the queue keeps them is not known: %v", err))
		return
	}
	queues := byQueueName(all)
	for i := range starts {
		fj := a.jobOf(&starts[i])
		if fj == nil || queues[fj.Spec.Queue] == nil {
			continue
		}
		if why, message := admission.OverLimit(queues[fj.Spec.Queue], withRoom(jobs, fj.Spec.Queue), fj); why != "" {
			answers[i].Limit = why + ": " + message
		}
	}
}

// jobOf returns what counts in limits of the job in a queue that a group of the files is. It returns nil for a group in no queue.
func (a addition) jobOf(s *simulate.Start) *v1alpha1.FluxJob {
	var fj *v1alpha1.FluxJob
	for _, pod := range a.workload.Pods() {
		if pod.Namespace != s.Group.Namespace || !slices.Contains(s.Waiting, pod.Name) && !slices.ContainsFunc(s.Placements, func(p simulate.Placement) bool { return p.Pod == pod.Name }) {
			continue
		}
		if fj == nil {
			if fj = a.jobOfPod(pod); fj.Spec.Queue == "" {
				return nil
			}
			fj.Namespace, fj.Name = s.Group.Namespace, s.Group.Name
		}
		fj.Spec.Pods++
	}
	return fj
}

// jobOfPod returns the queue, the requests and the time limit of the job of a pod of the files.
func (a addition) jobOfPod(pod *corev1.Pod) *v1alpha1.FluxJob {
	queue, deadline := pod.Labels[v1alpha1.QueueLabel], pod.Spec.ActiveDeadlineSeconds
	of := group.ControllerOf(pod)
	for _, job := range ofType[*batchv1.Job](a.workload.Objects) {
		if job.UID != of.UID {
			continue
		}
		if own, named := job.Labels[v1alpha1.QueueLabel]; named {
			queue = own
		}
		if job.Spec.ActiveDeadlineSeconds != nil {
			deadline = job.Spec.ActiveDeadlineSeconds
		}
	}
	fj := &v1alpha1.FluxJob{}
	fj.Spec.Queue, fj.Spec.Requests, fj.Spec.Duration = queue, quantities(translate.Requests(pod)), pod.Annotations[group.DurationAnnotation]
	delete(fj.Spec.Requests, corev1.ResourcePods) // of which no pod asks for any
	if fj.Spec.Duration == "" && deadline != nil {
		fj.Spec.Duration = fmt.Sprintf("%ds", *deadline)
	}
	return fj
}
