package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
)

// fieldManager is the field manager of all writes.
const fieldManager = "kubectl-fluence"

// errNameJob is the error of a command on jobs without a name.
var errNameJob = errors.New("name a Job, a pod or a FluxJob, as NAME or KIND/NAME; kubectl fluence jobs lists those in queues")

// A jobChange is what a command does to a job in a queue. It returns what was done, in words.
type jobChange func(context.Context, *reader, *v1alpha1.FluxJob) (string, error)

func (o *options) holdCommand() *cobra.Command {
	return o.jobCommand(&cobra.Command{
		Use:   "hold JOB...",
		Short: "Keep jobs that wait in a queue from starting",
		Long: `Keep jobs that wait in a queue from starting, until they are released.

A job keeps its age while it is held. Others start before it. The command sets spec.held of
the FluxJob, with your own rights. A job that runs cannot be held.`,
		Example: "  kubectl fluence hold training",
	}, `patch job %s --type merge -p '{"spec":{"suspend":true}}'`, holdJob)
}

func (o *options) releaseCommand() *cobra.Command {
	var all bool
	const without = `patch job %s --type merge -p '{"spec":{"suspend":false}}'`
	cmd := o.jobCommand(&cobra.Command{
		Use:   "release JOB... | --all",
		Short: "Let jobs start that were held; with --all: take all work out of all queues",
		Long: `Let jobs start that were held, in their turn. The command sets spec.held of the FluxJob, with
your own rights. A Job of a queue that was created with suspend: true is resumed: it enters
the queue.

With --all it is the way out, for administrators: each Job and each pod that Fluence keeps
from starting leaves its queue, held ones too, and starts as if there were no queues. Jobs
lose their place, their promise, the limits of the queue, and each time limit but their own
activeDeadlineSeconds. These are those of all namespaces or, with --namespace, of one. Jobs
that run go on, and Jobs that their users have suspended stay suspended. It also works if the controller or the CRDs of queues are gone, and may be repeated.
It ends with an error if something is left, and says what.`,
		Example: "  kubectl fluence release training\n  kubectl fluence release --all",
	}, without, releaseJob)
	cmd.Flags().BoolVar(&all, "all", false, "take all work out of all queues, held or not")
	named := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		switch {
		case !all:
			return named(cmd, names)
		case len(names) > 0:
			return errors.New("--all: takes no names: name jobs, or use --all")
		}
		return o.withTimeout(cmd.Context(), o.releaseAll)
	}
	return cmd
}

func (o *options) cancelCommand() *cobra.Command {
	return o.jobCommand(&cobra.Command{
		Use:   "cancel JOB...",
		Short: "Delete the Jobs or pods of jobs in queues, whether they wait or run",
		Long: `Delete the Jobs or pods of jobs in queues, whether they wait or run. Their pods end, and their
nodes are free then. The command deletes with your own rights, and only the very object that
the job was made for. A job that has ended is left alone.`,
		Example: "  kubectl fluence cancel training",
	}, "delete job %s", cancelJob)
}

// jobCommand completes a command that changes jobs in queues. without is the command of kubectl for a Job that waits in none.
func (o *options) jobCommand(cmd *cobra.Command, without string, change jobChange) *cobra.Command {
	cmd.ValidArgsFunction = o.completeJobs
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if len(names) == 0 {
			return errNameJob
		}
		return o.withTimeout(cmd.Context(), func(ctx context.Context) error {
			return o.changeJobs(ctx, names, without, change, cmd.Name() == "release")
		})
	}
	return cmd
}

// changeJobs changes the jobs that a user names, one after the other, and prints what was done. What fails does not keep it
// from the others. With resumes it resumes Jobs of queues that their users have suspended.
func (o *options) changeJobs(ctx context.Context, names []string, without string, change jobChange, resumes bool) error {
	r, err := o.reader()
	if err != nil {
		return err
	}
	jobs, err := r.readFluxJobs(ctx, r.namespace)
	if err != nil {
		return err
	}
	var failed []error
	for _, name := range names {
		fj, err := r.readJob(ctx, jobs, name, without)
		if w := (*waitsForUser)(nil); resumes && errors.As(err, &w) {
			if err = r.resume(ctx, w); err == nil {
				fmt.Fprintf(o.Out, "job.batch/%s resumed: it enters queue %s\n", printableName(w.job.Name), printable(w.queue))
			}
		} else if err == nil {
			var done string
			if done, err = change(ctx, r, fj); err == nil {
				fmt.Fprintf(o.Out, "%s %s\n", workloadText(fj), done)
			}
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

func holdJob(ctx context.Context, r *reader, fj *v1alpha1.FluxJob) (string, error) {
	switch fj.Status.Phase {
	case v1alpha1.Ready, v1alpha1.Running:
		return "", fmt.Errorf("%s has started: only a job that waits can be held; kubectl fluence cancel %s ends it", workloadText(fj), workloadText(fj))
	case v1alpha1.Finished:
		return "", fmt.Errorf("%s has ended: only a job that waits can be held", workloadText(fj))
	default: // it waits
	}
	if fj.Spec.Held {
		return "is held already", nil
	}
	after, err := r.patchHeld(ctx, fj, true)
	if err == nil && (after.Status.Phase == v1alpha1.Ready || after.Status.Phase == v1alpha1.Running) {
		return "", fmt.Errorf("%s has started meanwhile, and goes on; it is held if it has to wait again: kubectl fluence cancel %s ends it, and release %s lets it be", workloadText(fj), workloadText(fj), workloadText(fj))
	}
	return "held", err
}

// resume lets a Job enter its queue that its user has suspended. The resource version keeps the patch from a Job that is suspended
// for another reason by then.
func (r *reader) resume(ctx context.Context, w *waitsForUser) error {
	patch := encoded(map[string]any{
		"metadata": map[string]any{"uid": w.job.UID, "resourceVersion": w.job.ResourceVersion}, "spec": map[string]any{"suspend": false},
	})
	_, err := r.client.BatchV1().Jobs(w.job.Namespace).Patch(ctx, w.job.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return fmt.Errorf("resume job.batch/%s of namespace %s: %w", printableName(w.job.Name), w.job.Namespace, err)
	}
	return nil
}

func releaseJob(ctx context.Context, r *reader, fj *v1alpha1.FluxJob) (string, error) {
	switch {
	case fj.Status.Phase == v1alpha1.Finished:
		return "has ended already", nil
	case !fj.Spec.Held:
		return "is not held", nil
	}
	_, err := r.patchHeld(ctx, fj, false)
	return "released", err
}

// patchHeld holds or releases a job, and returns what it is by then. The UID keeps the patch from another object of the same name.
func (r *reader) patchHeld(ctx context.Context, fj *v1alpha1.FluxJob, held bool) (*v1alpha1.FluxJob, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": fj.UID}, "spec": map[string]any{"held": held}})
	if err != nil {
		return nil, fmt.Errorf("encode the patch: %w", err)
	}
	after := &v1alpha1.FluxJob{}
	err = r.queued.Patch(types.MergePatchType).Namespace(fj.Namespace).Resource(v1alpha1.FluxJobs.Resource).Name(fj.Name).
		Param("fieldManager", fieldManager).Body(patch).Do(ctx).Into(after)
	return after, whyNotWritten(err, "patch", fj, v1alpha1.FluxJobs.GroupResource().String())
}

func cancelJob(ctx context.Context, r *reader, fj *v1alpha1.FluxJob) (string, error) {
	if fj.Status.Phase == v1alpha1.Finished {
		return "has ended already", nil
	}
	w := fj.Spec.Workload
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &w.UID}, PropagationPolicy: new(metav1.DeletePropagationBackground)}
	var err error
	resource := "jobs.batch"
	if w.Kind == "Job" {
		err = r.client.BatchV1().Jobs(fj.Namespace).Delete(ctx, w.Name, options)
	} else {
		resource = "pods"
		err = r.client.CoreV1().Pods(fj.Namespace).Delete(ctx, w.Name, options)
	}
	if apierrors.IsNotFound(err) {
		return "is gone already", nil
	}
	return "cancelled", whyNotWritten(err, "delete", fj, resource)
}

// whyNotWritten returns the error of a write to a job, with what to do. It returns nil for nil.
func whyNotWritten(err error, verb string, fj *v1alpha1.FluxJob, resource string) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		return fmt.Errorf("you may not %s %s in namespace %s: ask for a role that grants it, such as ClusterRole edit, and check with kubectl auth can-i %s %s -n %s: %w", verb, resource, fj.Namespace, verb, resource, fj.Namespace, err)
	case apierrors.IsConflict(err):
		return fmt.Errorf("%s of namespace %s is another object by now: look again with kubectl fluence jobs: %w", workloadText(fj), fj.Namespace, err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s of namespace %s has left its queue: look again with kubectl fluence jobs --all: %w", workloadText(fj), fj.Namespace, err)
	}
	return fmt.Errorf("%s %s of namespace %s: %w", verb, workloadText(fj), fj.Namespace, err)
}
