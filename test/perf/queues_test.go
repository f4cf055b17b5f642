package perf

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/eventually"
	"github.com/flux-k8s/fluence/test/stack"
)

var (
	queuedJobs = flag.Int("queued-jobs", 10_000, "how many Jobs BenchmarkQueuedSubmit creates in a turn")
	startPairs = flag.Int("start-pairs", 25, "how many Jobs of each kind BenchmarkQueuedStart starts")
)

const (
	// controllerWriters is how many FluxJobs the controller writes at a time (fluxjob.DefaultConfig).
	controllerWriters = 8
	// queuesPatience bounds one turn of BenchmarkQueuedSubmit, and one start of BenchmarkQueuedStart.
	queuesPatience = 20 * time.Minute
)

// startQueues starts a control plane and Fluence, with a Queue "batch".
func startQueues(b *testing.B, nodes int, spec string) *stack.Stack {
	b.Helper()
	c, err := cluster.Start(b.Context(), cluster.Config{Nodes: cluster.Nodes{Count: nodes}, Log: os.Stderr})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			b.Error(err)
		}
	})
	s, err := stack.Start(b.Context(), c, stack.Config{})
	if err != nil {
		b.Fatal(err)
	}
	manifest := "apiVersion: fluence.flux-framework.org/v1alpha1\nkind: Queue\nmetadata: {name: batch}\nspec: {namespaceSelector: {}, " + spec + "}\n"
	if _, _, err := c.KubectlInput(b.Context(), strings.NewReader(manifest), "apply", "-f", "-"); err != nil {
		b.Fatal(err)
	}
	return s
}

// suspended returns a Job of some pods of one CPU that is created suspended. It is in the queue if that is not empty.
func suspended(name, queue string) *batchv1.Job {
	j := job(name, gang)
	j.Spec.Suspend = new(true)
	j.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(0))
	if queue != "" {
		// The user does not suspend it: it would wait until he resumes it.
		j.Spec.Suspend, j.Labels = nil, map[string]string{v1alpha1.QueueLabel: queue}
	}
	return j
}

// BenchmarkQueuedStart starts Jobs of 8 pods on free nodes, in turn one of a queue and one without a queue, which was created suspended
// and is resumed by its user. It measures the milliseconds from when a watch sees the Job resumed until it sees the
// last pod bound, and gives the medians (queued-ms, direct-ms). The goal is a ratio of at most 1.3.
func BenchmarkQueuedStart(b *testing.B) {
	s := startQueues(b, 16, "defaults: {duration: 1h}")
	took := map[string][]time.Duration{}
	for b.Loop() {
		for i := range *startPairs + 1 {
			queues := []string{"batch", ""}
			if i%2 == 1 {
				slices.Reverse(queues)
			}
			for _, queue := range queues {
				d := startOne(b, s, fmt.Sprintf("start-%d-%d", len(queue), i), queue)
				if i > 0 { // the processes have just started
					took[queue] = append(took[queue], d)
				}
			}
		}
	}
	queued, direct := median(took["batch"]), median(took[""])
	b.Logf("queued %v", took["batch"])
	b.Logf("direct %v", took[""])
	b.ReportMetric(queued.Seconds()*1000, "queued-ms")
	b.ReportMetric(direct.Seconds()*1000, "direct-ms")
	b.ReportMetric(queued.Seconds()/direct.Seconds(), "ratio")
	b.ReportMetric(0, "ns/op")
}

// startOne returns the time from when a Job is resumed until its pods are bound. Afterwards it removes the Job and its pods.
func startOne(b *testing.B, s *stack.Stack, name, queue string) time.Duration {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), queuesPatience)
	defer cancel()
	jobs, pods := s.Client().BatchV1().Jobs(corev1.NamespaceDefault), s.Client().CoreV1().Pods(corev1.NamespaceDefault)
	var resumed, bound time.Time
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return cluster.Until(gctx, jobs, "metadata.name="+name, func(_ watch.EventType, j *batchv1.Job) bool {
			if *j.Spec.Suspend {
				return false
			}
			resumed = time.Now()
			return true
		})
	})
	g.Go(func() error {
		on := map[string]bool{}
		return cluster.Until(gctx, pods, "", func(_ watch.EventType, p *corev1.Pod) bool {
			if p.Spec.NodeName != "" {
				on[p.Name] = true
			}
			bound = time.Now()
			return len(on) == gang
		})
	})
	g.Go(func() error {
		if _, err := jobs.Create(gctx, suspended(name, queue), metav1.CreateOptions{}); err != nil || queue != "" {
			return err
		}
		// The Job's controller has seen it, as it has seen one of a queue.
		err := cluster.Until(gctx, jobs, "metadata.name="+name, func(_ watch.EventType, j *batchv1.Job) bool {
			return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == batchv1.JobSuspended })
		})
		if err != nil {
			return err
		}
		_, err = jobs.Patch(gctx, name, types.MergePatchType, []byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{})
		return err
	})
	if err := g.Wait(); err != nil {
		b.Fatalf("Job %s: %v", name, err)
	}
	if err := jobs.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}); err != nil {
		b.Fatal(err)
	}
	eventually.True(ctx, b, "the pods are gone", func(ctx context.Context) (bool, string) {
		list, err := pods.List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 0, fmt.Sprint(err)
	})
	return bound.Sub(resumed)
}

// fluxJobs are the FluxJobs of a namespace.
type fluxJobs struct {
	rest.Interface
	namespace string
}

// newFluxJobs returns a client with a connection of its own.
func newFluxJobs(b *testing.B, s *stack.Stack, namespace string) fluxJobs {
	b.Helper()
	config := s.RESTConfig()
	config.Dial = (&net.Dialer{}).DialContext
	client, err := v1alpha1.RESTClientFor(config)
	if err != nil {
		b.Fatal(err)
	}
	return fluxJobs{client, namespace}
}

// List implements cluster.Resource.
func (f fluxJobs) List(ctx context.Context, o metav1.ListOptions) (*v1alpha1.FluxJobList, error) {
	list := &v1alpha1.FluxJobList{}
	return list, f.Get().Namespace(f.namespace).Resource(v1alpha1.FluxJobs.Resource).VersionedParams(&o, metav1.ParameterCodec).Do(ctx).Into(list)
}

// Watch implements cluster.Resource.
func (f fluxJobs) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	return f.Get().Namespace(f.namespace).Resource(v1alpha1.FluxJobs.Resource).VersionedParams(&o, metav1.ParameterCodec).Watch(ctx)
}

// write creates a FluxJob and writes its status, as the controller does: two writes.
func (f fluxJobs) write(ctx context.Context, fj *v1alpha1.FluxJob) error {
	status, made := fj.Status, &v1alpha1.FluxJob{}
	if err := f.Post().Namespace(f.namespace).Resource(v1alpha1.FluxJobs.Resource).Body(fj).Do(ctx).Into(made); err != nil {
		return fmt.Errorf("create FluxJob %s: %w", fj.Name, err)
	}
	made.Status = status
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": made.ResourceVersion}, "status": made.Status})
	if err != nil {
		return err
	}
	return f.Patch(types.MergePatchType).Namespace(f.namespace).Resource(v1alpha1.FluxJobs.Resource).Name(fj.Name).SubResource("status").Body(body).Do(ctx).Error()
}

// isVisible reports whether the controller has made a FluxJob and checked it.
func isVisible(fj *v1alpha1.FluxJob) bool {
	return meta.IsStatusConditionTrue(fj.Status.Conditions, v1alpha1.ConditionValid)
}

// BenchmarkQueuedSubmit creates Jobs of a queue from 32 goroutines and measures until their FluxJobs are visible: made, and with the
// condition Valid. None of them starts. The yardstick is what the API server's writes allow. Each such Job costs at
// least three writes: the Job by its user, the FluxJob, and the FluxJob's status. Before and after, while Fluence does not run, as many
// Jobs are created in the same way, and for each a FluxJob like those of the controller is created and its status written, by as
// many goroutines as the controller has workers, over one connection. kube-controller-manager runs in all turns, and marks the
// Jobs as suspended. The yardstick has neither the webhook, nor any reads, nor the scheduler's statuses of the FluxJobs.
//
// queued/s and plain/s are Jobs a second, plain/s the mean of the two turns. The goal is a ratio of at least 0.8. writes/job are all
// writes by Fluence's programs in the turn of the queue for each Job, events included.
func BenchmarkQueuedSubmit(b *testing.B) {
	s := startQueues(b, 1, "started: false, limits: {pending: 1000000}")
	like := firstFluxJob(b, s)
	for b.Loop() {
		stopFluence(b, s)
		before := submit(b, s, "plain-before", like)
		remove(b, s, "plain-before")
		for _, name := range processes {
			if err := s.StartNamed(b.Context(), name); err != nil {
				b.Fatal(err)
			}
		}
		if err := s.WaitWebhook(b.Context()); err != nil {
			b.Fatal(err)
		}
		awaitFluxJob(b, s, "warm-up")
		from, used := time.Now(), cpuOf(s)
		queued := submit(b, s, "queued", nil)
		after := cpuOf(s)
		n := float64(*queuedJobs)
		writes := writesSince(b, s, from)
		for _, name := range processes {
			b.ReportMetric(1000*(after[name]-used[name]).Seconds()/n, name+"-cpu-ms/job")
		}
		b.Logf("writes: %v", byKind(writes))
		stopFluence(b, s)
		plain := (before + submit(b, s, "plain-after", like)) / 2
		b.ReportMetric(n/queued.Seconds(), "queued/s")
		b.ReportMetric(n/plain.Seconds(), "plain/s")
		b.ReportMetric(plain.Seconds()/queued.Seconds(), "ratio")
		b.ReportMetric(float64(len(writes))/n, "writes/job")
	}
	b.ReportMetric(0, "ns/op")
}

// byKind counts writes by verb and resource.
func byKind(writes []string) map[string]int {
	n := map[string]int{}
	for _, w := range writes {
		n[w[:strings.LastIndex(w, " ")]]++
	}
	return n
}

// stopFluence ends Fluence's programs.
func stopFluence(b *testing.B, s *stack.Stack) {
	b.Helper()
	for _, name := range processes {
		if err := s.Process(name).Kill(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// firstFluxJob returns a FluxJob that the controller has made.
func firstFluxJob(b *testing.B, s *stack.Stack) *v1alpha1.FluxJob {
	b.Helper()
	return awaitFluxJob(b, s, "first")
}

// awaitFluxJob creates a Job in the queue, and returns its FluxJob when it is visible.
func awaitFluxJob(b *testing.B, s *stack.Stack, name string) (found *v1alpha1.FluxJob) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), queuesPatience)
	defer cancel()
	if _, err := s.Client().BatchV1().Jobs(corev1.NamespaceDefault).Create(ctx, suspended(name, "batch"), metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	err := cluster.Until(ctx, newFluxJobs(b, s, corev1.NamespaceDefault), "", func(_ watch.EventType, fj *v1alpha1.FluxJob) bool {
		found = fj
		return fj.Spec.Workload.Name == name && isVisible(fj)
	})
	if err != nil {
		b.Fatalf("the FluxJob of Job %s: %v", name, err)
	}
	return found
}

// submit creates Jobs in a new namespace, and returns after which time their FluxJobs are visible. With like it creates the FluxJobs
// itself, and the Jobs are in no queue.
func submit(b *testing.B, s *stack.Stack, namespace string, like *v1alpha1.FluxJob) time.Duration {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), queuesPatience)
	defer cancel()
	if _, err := s.Client().CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	watched, written := newFluxJobs(b, s, namespace), newFluxJobs(b, s, namespace)
	var last time.Time
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		seen := map[string]struct{}{}
		return cluster.Until(gctx, watched, "", func(_ watch.EventType, fj *v1alpha1.FluxJob) bool {
			if isVisible(fj) {
				seen[fj.Name] = struct{}{}
				last = time.Now()
			}
			return len(seen) == *queuedJobs
		})
	})
	begin := time.Now()
	made := make(chan *batchv1.Job, *queuedJobs)
	creators, cctx := errgroup.WithContext(gctx)
	creators.SetLimit(writers)
	g.Go(func() error {
		defer close(made)
		for i := range *queuedJobs {
			creators.Go(func() error {
				j := suspended(fmt.Sprintf("job-%05d", i), "batch")
				if like != nil {
					j = suspended(j.Name, "")
					j.Spec.Template.Spec.SchedulerName = "nobody"
				}
				j, err := s.Client().BatchV1().Jobs(namespace).Create(cctx, j, metav1.CreateOptions{})
				made <- j
				return err
			})
		}
		return creators.Wait()
	})
	if like != nil {
		for range controllerWriters {
			g.Go(func() error {
				for j := range made {
					if err := written.write(gctx, copyFor(like, j)); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	if err := g.Wait(); err != nil {
		b.Fatalf("the Jobs of namespace %s: %v", namespace, err)
	}
	return last.Sub(begin)
}

// remove deletes the Jobs and FluxJobs of a namespace: the controller would delete FluxJobs that it has not made.
func remove(b *testing.B, s *stack.Stack, namespace string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), queuesPatience)
	defer cancel()
	f := newFluxJobs(b, s, namespace)
	eventually.TrueEvery(ctx, b, time.Second, "the FluxJobs are gone", func(ctx context.Context) (bool, string) {
		err := errors.Join(
			s.Client().BatchV1().Jobs(namespace).DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}, metav1.ListOptions{}),
			f.Delete().Namespace(namespace).Resource(v1alpha1.FluxJobs.Resource).Do(ctx).Error(),
		)
		list, listErr := f.List(ctx, metav1.ListOptions{Limit: 1})
		return err == nil && listErr == nil && len(list.Items) == 0, fmt.Sprint(errors.Join(err, listErr))
	})
}

// copyFor returns a FluxJob for a Job, like another one.
func copyFor(like *v1alpha1.FluxJob, j *batchv1.Job) *v1alpha1.FluxJob {
	fj := like.DeepCopy()
	fj.ObjectMeta = metav1.ObjectMeta{
		Namespace: j.Namespace, Name: "job-" + j.Name + "-a1b2c3d4e5", Labels: like.Labels, Annotations: like.Annotations,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))},
	}
	fj.Spec.Workload.Name, fj.Spec.Workload.UID = j.Name, j.UID
	return fj
}
