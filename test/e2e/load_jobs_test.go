package e2e

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/test/stack"
)

// submit creates the Jobs from one number up to another, exclusive.
func (l *load) submit(from, to int) {
	l.Helper()
	makers, ctx := errgroup.WithContext(l.Context())
	makers.SetLimit(loadWriters)
	for i := from; i < to; i++ {
		makers.Go(func() error {
			_, err := l.Client().BatchV1().Jobs(l.ns).Create(ctx, loadJob(i), metav1.CreateOptions{})
			return err
		})
	}
	if err := makers.Wait(); err != nil {
		l.Fatalf("submit the Jobs: %v", err)
	}
}

// loadJob returns the i-th Job. Its pods run for ever, and failed ones are replaced.
func loadJob(i int) *batchv1.Job {
	n := new(int32(loadSize))
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("gang%04d", i)},
		Spec: batchv1.JobSpec{Parallelism: n, Completions: n, BackoffLimit: new(int32(1000)), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			SchedulerName: "fluence", RestartPolicy: corev1.RestartPolicyNever, Containers: oneCPU(),
		}}},
	}
}

// oneCPU returns a container that requests one CPU.
func oneCPU() []corev1.Container {
	return []corev1.Container{{
		Name: "main", Image: "busybox",
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("1")}},
	}}
}

// backlog ends schedulers and submits all Jobs, so that all their pods wait.
func (l *load) backlog(schedulers ...string) {
	l.Helper()
	for _, name := range schedulers {
		l.kill(name)
	}
	l.submit(0, l.jobs)
	l.seen(l.size(), 0)
}

// begin starts schedulers. From then on they, the sidecar and the controller must not end.
func (l *load) begin(schedulers ...string) {
	l.Helper()
	for _, name := range schedulers {
		l.startNamed(name)
	}
	l.guard(append(schedulers, stack.Sidecar, stack.Controller)...)
}

// remove deletes the Jobs and all pods, repeatedly until they are gone.
// In one request the API server deletes only as many as it has time for.
func (l *load) remove() {
	l.Helper()
	background := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	l.within(l.patience(), "no Jobs and pods left", time.Second, func(ctx context.Context) (bool, string) {
		err := l.Client().BatchV1().Jobs(l.ns).DeleteCollection(ctx, background, metav1.ListOptions{})
		if err == nil {
			err = l.Client().CoreV1().Pods(l.ns).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, metav1.ListOptions{})
		}
		n := len(l.pods(""))
		return err == nil && n == 0, fmt.Sprintf("%d pods are, error %v", n, err)
	})
}
