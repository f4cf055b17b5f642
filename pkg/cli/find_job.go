package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
)

// fluxJobKind is FluxJob as a target has it.
const fluxJobKind = "fluxjob"

// namesJob reports whether the target names a job in a queue: its Job, its pod, or its FluxJob.
func (n target) namesJob(fj *v1alpha1.FluxJob) bool {
	return n.names(fj.Spec.Workload.Kind, fj.Spec.Workload.Name) || n.names(fluxJobKind, fj.Name)
}

// workloadText is the Job or the pod of a job, as kubectl takes it.
func workloadText(fj *v1alpha1.FluxJob) string {
	w := fj.Spec.Workload
	if w.Kind == "Job" {
		return "job.batch/" + printableName(w.Name)
	}
	return strings.ToLower(w.Kind) + "/" + printableName(w.Name)
}

// jobNamed returns the job in a queue that a target names, out of those of one namespace. Of jobs of the same name, one
// after the other, it is the last. It returns nil if there is none.
func jobNamed(jobs []*v1alpha1.FluxJob, n target) (*v1alpha1.FluxJob, error) {
	var found *v1alpha1.FluxJob
	for _, fj := range jobs {
		switch {
		case !n.namesJob(fj):
		case found == nil, found.Spec.Workload.Kind == fj.Spec.Workload.Kind && found.CreationTimestamp.Before(&fj.CreationTimestamp):
			found = fj
		case found.Spec.Workload.Kind != fj.Spec.Workload.Kind:
			return nil, fmt.Errorf("%q is ambiguous: use %s or %s", n, workloadText(found), workloadText(fj))
		}
	}
	return found, nil
}

// A waitsForUser is the error about a Job of a queue that its user has suspended. It is in the queue once it is resumed.
type waitsForUser struct {
	target
	job   *batchv1.Job
	queue string
}

// Error implements error.
func (e *waitsForUser) Error() string {
	return fmt.Sprintf("%q: the Job is suspended by its user (spec.suspend), and enters queue %s when it is resumed: kubectl fluence release job/%s", e.target, e.queue, e.job.Name)
}

// suspendedByUser reports whether a Job is suspended, and neither Fluence nor another controller has done it.
func suspendedByUser(job *batchv1.Job) bool {
	_, byFluence := job.Annotations[v1alpha1.QueuedAnnotation]
	return suspended(job) && !byFluence && group.SuspendedFor(job) == "" && group.WhyOthers(job) == "" && !isForeign(&job.Spec.Template.Spec)
}

// whyNoJob is the error about a target that names no job in a queue. It says what to do instead: without is the command for a
// Job that waits in none, with %s for its name.
func (r *reader) whyNoJob(ctx context.Context, n target, without string) error {
	if n.kind == "" || n.kind == "job" {
		job, err := r.client.BatchV1().Jobs(r.namespace).Get(ctx, n.name, metav1.GetOptions{})
		switch {
		case err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
			return fmt.Errorf("get Job %s/%s: %w", r.namespace, n.name, err)
		case err == nil:
			queue, _ := queueOfJob(job)
			switch {
			case queue != "" && suspendedByUser(job):
				return &waitsForUser{n, job, queue}
			case queue != "":
				return fmt.Errorf("%q: the Job is to wait in queue %s, and has no FluxJob yet: kubectl describe job %s says why, and kubectl fluence status whether the controller runs", n, queue, n.name)
			}
			return fmt.Errorf("%q: the Job waits in no queue; instead: kubectl -n %s %s", n, r.namespace, fmt.Sprintf(without, n.name))
		}
	}
	return fmt.Errorf("%q: namespace %s has no job of this name in a queue; kubectl fluence jobs --all lists them", n, r.namespace)
}

// readJob returns the job in a queue that a user names.
func (r *reader) readJob(ctx context.Context, jobs []*v1alpha1.FluxJob, name, without string) (*v1alpha1.FluxJob, error) {
	n, err := parseTarget(name)
	if err != nil {
		return nil, err
	}
	fj, err := jobNamed(jobs, n)
	if err == nil && fj == nil {
		err = r.whyNoJob(ctx, n, without)
	}
	return fj, err
}

// workloadOf returns the Job or the pod of the FluxJob that a target names. It returns the target itself if it names none.
func workloadOf(jobs []*v1alpha1.FluxJob, n target) target {
	i := slices.IndexFunc(jobs, func(fj *v1alpha1.FluxJob) bool { return n.names(fluxJobKind, fj.Name) })
	if i < 0 || n.kind == "" && jobs[i].Spec.Workload.Name == n.name {
		return n
	}
	return target{strings.ToLower(jobs[i].Spec.Workload.Kind), jobs[i].Spec.Workload.Name}
}
