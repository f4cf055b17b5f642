package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/reason"
)

const (
	// maxRounds bounds how often all Jobs, pods and FluxJobs are read. A round without anything to do ends the command. Others
	// are needed where the controller works beside it, and for pods that a Job makes with the label of its queue.
	maxRounds = 5
	// maxTries bounds how often one object is read again that somebody else has changed.
	maxTries = 5
	// maxLeft is how many of the objects that are left are named.
	maxLeft = 20
	// releaseQPS is the number of requests per second. The API server's own limits hold besides.
	releaseQPS = 500
)

// A wayOut takes workloads out of their queues. It goes through the objects page by page, and keeps none of them.
type wayOut struct {
	*reader
	o *options
	// served is false if the API server serves no FluxJobs. Then nobody suspends a Job.
	served bool
	// running has the workloads whose FluxJobs run or have ended.
	running map[types.UID]bool
	// out has the workloads that are in no queue any more, and that may have a FluxJob yet.
	out map[types.UID]bool
	// changed is the number of writes of a round.
	changed int
	// left says of objects why they are still held, by their names.
	left map[string]string
	// jobs, pods and fluxJobs are the numbers of objects that were let go, and removed.
	jobs, pods, fluxJobs int
	// byUser is the number of Jobs in queues that stay suspended.
	byUser int
}

// releaseAll takes all work out of all queues.
func (o *options) releaseAll(ctx context.Context) error {
	r, err := o.readerAt(releaseQPS)
	if err != nil {
		return err
	}
	if *o.flags.Namespace == "" {
		r.namespace = ""
	}
	w := &wayOut{reader: r, o: o}
	for range maxRounds {
		if err = w.round(ctx); err != nil || w.changed == 0 {
			break
		}
	}
	if err == nil && w.changed > 0 {
		err = errors.New("more work enters queues all the time: delete the Queues first, and repeat the command")
	}
	where := "any namespace"
	if r.namespace != "" {
		where = "namespace " + r.namespace
	}
	switch {
	case w.jobs+w.pods+w.fluxJobs > 0:
		fmt.Fprintf(o.Out, "%s, %s let go, %s removed\n", reason.Plural(w.jobs, "Job"), reason.Plural(w.pods, "pod"), reason.Plural(w.fluxJobs, "FluxJob"))
	case err == nil && len(w.left) == 0:
		fmt.Fprintf(o.Out, "No queue keeps anything from starting in %s.\n", where)
	}
	if w.byUser > 0 {
		fmt.Fprintf(o.ErrOut, "note: %s of queues: suspended by their users, and left so\n", reason.Plural(w.byUser, "Job"))
	}
	if w.jobs+w.pods > 0 {
		if text, unknown := o.noSchedulerToStart(ctx, r); unknown == nil && text != "" {
			fmt.Fprintln(o.ErrOut, o.paint(yellow, "warning:"), text)
		}
	}
	return errors.Join(err, w.whatIsLeft())
}

// noSchedulerToStart says that nobody gives nodes to what was let go. It returns "" if a scheduler of Fluence leads, or if that is not
// known.
func (o *options) noSchedulerToStart(ctx context.Context, r *reader) (string, error) {
	l, err := o.readLease(ctx, r, schedulerLease)
	if err != nil || l == nil || l.Exists && l.Holder != "" && !l.Expired {
		return "", err
	}
	return fmt.Sprintf("no scheduler of Fluence holds Lease %s/%s: the pods of what was let go wait until one does, or until the work is made anew with another schedulerName", o.schedulerNamespace, schedulerLease), nil
}

// whatIsLeft is the error about what is still held. It is nil if nothing is.
func (w *wayOut) whatIsLeft() error {
	if len(w.left) == 0 {
		return nil
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(w.left)) {
		if len(lines) == maxLeft {
			lines = append(lines, fmt.Sprintf("and %d more", len(w.left)-maxLeft))
			break
		}
		lines = append(lines, name+": "+w.left[name])
	}
	return fmt.Errorf("%s left; repeat the command when the reason is gone:\n  %s", reason.Plural(len(w.left), "object"), strings.Join(lines, "\n  "))
}

// round goes once through all Jobs, pods and FluxJobs.
func (w *wayOut) round(ctx context.Context) error {
	w.changed, w.byUser, w.left, w.served = 0, 0, map[string]string{}, true
	w.running, w.out = map[types.UID]bool{}, map[types.UID]bool{}
	err := w.each(ctx, v1alpha1.FluxJobs.GroupResource().String(), "", w.listFluxJobs(w.namespace), func(o runtime.Object) {
		if fj := o.(*v1alpha1.FluxJob); hasStarted(fj) {
			w.running[fj.Spec.Workload.UID] = true
		}
	})
	if err != nil {
		return err
	}
	if err := w.each(ctx, "jobs", "", lister(w.client.BatchV1().Jobs(w.namespace).List), func(o runtime.Object) { w.leaveJob(ctx, o.(*batchv1.Job)) }); err != nil {
		return err
	}
	if err := w.each(ctx, "pods", "spec.nodeName=", lister(w.client.CoreV1().Pods(w.namespace).List), func(o runtime.Object) { w.leavePod(ctx, o.(*corev1.Pod)) }); err != nil {
		return err
	}
	// The scheduler holds pods also by a FluxJob that nobody removes.
	return w.each(ctx, v1alpha1.FluxJobs.GroupResource().String(), "", w.listFluxJobs(w.namespace), func(o runtime.Object) { w.removeFluxJob(ctx, o.(*v1alpha1.FluxJob)) })
}

// each calls do for each object of a kind, page by page. Of the kinds here only FluxJobs may be not served: there are none then.
func (w *wayOut) each(ctx context.Context, what, fields string, l list, do func(runtime.Object)) error {
	err := pager.New(pager.ListPageFunc(l)).EachListItem(ctx, metav1.ListOptions{FieldSelector: fields}, func(o runtime.Object) error {
		do(o)
		return ctx.Err()
	})
	switch {
	case apierrors.IsForbidden(err) && w.namespace == "":
		return fmt.Errorf("you may not list %s of all namespaces: ask an administrator, or name one with --namespace: %w", what, err)
	case apierrors.IsNotFound(err):
		w.served = false
		return nil
	case err != nil:
		return fmt.Errorf("list %s: %w", what, err)
	}
	return nil
}

// hasStarted reports whether a job has started, so that nothing keeps its pods from starting.
func hasStarted(fj *v1alpha1.FluxJob) bool {
	return fj.Status.Phase == v1alpha1.Running || fj.Status.Phase == v1alpha1.Finished
}

// leaveJob takes a Job out of its queue.
func (w *wayOut) leaveJob(ctx context.Context, job *batchv1.Job) {
	name := "job.batch/" + job.Name + " of " + job.Namespace
	for range maxTries {
		_, ended := endsOf([]runtime.Object{job})[job.UID]
		if ended || job.DeletionTimestamp != nil || metav1.GetControllerOfNoCopy(job) != nil || w.running[job.UID] {
			return
		}
		patch := jobLeaves(job, w.served)
		switch queue, _ := queueOfJob(job); {
		case patch != nil:
		case suspended(job) && queue != "":
			if !isForeign(&job.Spec.Template.Spec) {
				w.byUser++
			}
			return
		default:
			if queue == "" && !suspended(job) {
				w.out[job.UID] = true
			}
			return
		}
		_, err := w.client.BatchV1().Jobs(job.Namespace).Patch(ctx, job.Name, types.MergePatchType, encoded(patch), metav1.PatchOptions{FieldManager: fieldManager})
		if apierrors.IsInvalid(err) {
			// Older API servers keep the template of a Job that has run. Its pods leave the queue one by one then.
			delete(patch["spec"].(map[string]any), "template")
			_, err = w.client.BatchV1().Jobs(job.Namespace).Patch(ctx, job.Name, types.MergePatchType, encoded(patch), metav1.PatchOptions{FieldManager: fieldManager})
		}
		switch {
		case err == nil:
			w.changed++
			w.jobs++
			w.out[job.UID] = true
			fmt.Fprintf(w.o.Out, "%s let go\n", printableName(name))
			return
		case apierrors.IsConflict(err):
			job, err = w.client.BatchV1().Jobs(job.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
		}
		if apierrors.IsNotFound(err) {
			return
		}
		if err != nil {
			w.left[name] = err.Error()
			return
		}
	}
	w.left[name] = "it changes all the time"
}

// leavePod takes a pod without a node out of its queue.
func (w *wayOut) leavePod(ctx context.Context, pod *corev1.Pod) {
	name := "pod/" + pod.Name + " of " + pod.Namespace
	for range maxTries {
		owner := metav1.GetControllerOfNoCopy(pod)
		if !waits(pod) || owner != nil && w.running[owner.UID] || w.running[pod.UID] {
			return
		}
		patch := podLeaves(pod)
		switch {
		case patch == nil:
			w.out[pod.UID] = owner == nil
			return
		case owner != nil && owner.Kind != "Job":
			w.left[name] = fmt.Sprintf("%s %s makes it with the label %s: remove the label from its pod template", owner.Kind, owner.Name, v1alpha1.QueueLabel)
			return
		}
		_, err := w.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, encoded(patch), metav1.PatchOptions{FieldManager: fieldManager})
		switch {
		case err == nil:
			w.changed++
			w.pods++
			w.out[pod.UID] = owner == nil
			fmt.Fprintf(w.o.Out, "%s let go\n", printableName(name))
			return
		case apierrors.IsConflict(err):
			pod, err = w.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		}
		if apierrors.IsNotFound(err) {
			return
		}
		if err != nil {
			w.left[name] = err.Error()
			return
		}
	}
	w.left[name] = "it changes all the time"
}

// removeFluxJob removes the FluxJob of a workload that is in no queue any more, as the controller does.
func (w *wayOut) removeFluxJob(ctx context.Context, fj *v1alpha1.FluxJob) {
	if hasStarted(fj) || !w.out[fj.Spec.Workload.UID] || fj.DeletionTimestamp != nil {
		return
	}
	err := w.queued.Delete().Namespace(fj.Namespace).Resource(v1alpha1.FluxJobs.Resource).Name(fj.Name).
		Body(&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &fj.UID}}).Do(ctx).Error()
	switch {
	case err == nil:
		w.changed++
		w.fluxJobs++
	case !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
		w.left["fluxjob/"+fj.Name+" of "+fj.Namespace] = err.Error()
	}
}
