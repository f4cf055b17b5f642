package fluxjob_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/controller/fluxjob"
	"github.com/flux-k8s/fluence/pkg/controller/podgroup"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/eventually"
)

// serviceAccount is the user that manifests/rbac gives its rights to.
const serviceAccount = "system:serviceaccount:fluence-system:fluence-controller"

// patience bounds every wait for the cluster.
const patience = 2 * time.Minute

const manifests = "../../../manifests"

// shared is the control plane of all tests of the package. The first test that needs it starts it. The CRDs
// are installed after the first controller has started.
var shared struct {
	once, crds sync.Once
	*cluster.Cluster
	err error
}

func TestMain(m *testing.M) {
	log.SetLogger(klog.New(nil))
	code := m.Run()
	if shared.Cluster != nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		if err := shared.Stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "stop the cluster:", err)
			code = max(code, 1)
		}
		cancel()
	}
	os.Exit(code)
}

// env is a namespace with a queue of the same name, and a controller for the scheduler of the same name, so that tests do
// not see each other.
type env struct {
	*testing.T
	ctx    context.Context
	scheme *runtime.Scheme
	client client.WithWatch
	// ns is the name of the namespace, of the queue and of the scheduler.
	ns string
	// cache is the cache of the controller.
	cache client.Reader
	stop  func()
}

// newEnv starts a controller. It runs with the rights of manifests/rbac until the test ends.
func newEnv(t *testing.T, edit func(*v1alpha1.QueueSpec)) *env {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	shared.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
		defer cancel()
		if shared.Cluster, shared.err = cluster.Start(ctx, cluster.Config{Nodes: cluster.Nodes{Count: 2}, Log: os.Stderr}); shared.err != nil {
			return
		}
		_, _, shared.err = shared.Kubectl(ctx, "apply", "-f", manifests+"/rbac", "-f", manifests+"/crds/scheduling.x-k8s.io_podgroups.yaml")
	})
	if shared.err != nil {
		t.Fatalf("start the cluster: %v", shared.err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, scheduling.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	t.Cleanup(cancel)
	c, err := client.NewWithWatch(shared.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	e := &env{T: t, ctx: ctx, scheme: scheme, client: c}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "q-"}}
	e.create(ns)
	e.ns = ns.Name
	e.run()
	shared.crds.Do(func() {
		if _, _, shared.err = shared.Kubectl(ctx, "apply", "-f", manifests+"/crds"); shared.err == nil {
			shared.err = shared.WaitCRDs(ctx, v1alpha1.QueueCRDName, v1alpha1.FluxJobCRDName)
		}
	})
	if shared.err != nil {
		t.Fatalf("install the CRDs: %v", shared.err)
	}
	queue := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: e.ns}, Spec: v1alpha1.QueueSpec{NamespaceSelector: &metav1.LabelSelector{}}}
	if edit != nil {
		edit(&queue.Spec)
	}
	e.create(queue)
	return e
}

// run runs the controller until stop is called or the test ends.
func (e *env) run() {
	e.Helper()
	rc, err := shared.RESTConfigFor(serviceAccount, "system:serviceaccounts", "system:serviceaccounts:fluence-system")
	if err != nil {
		e.Fatal(err)
	}
	if err := podgroup.LimitClient(rc); err != nil {
		e.Fatal(err)
	}
	groups, jobs := podgroup.DefaultConfig(), fluxjob.DefaultConfig()
	groups.SchedulerName, jobs.SchedulerName, jobs.Poll = e.ns, e.ns, time.Second
	logger := ktesting.NewLogger(e.T, ktesting.NewConfig(ktesting.Verbosity(2)))
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	mgr, err := ctrl.NewManager(rc, ctrl.Options{
		Scheme:     e.scheme,
		Logger:     logger,
		Cache:      fluxjob.CacheOptions(podgroup.CacheOptions(groups), jobs),
		Client:     client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: new(true)}},
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		e.Fatal(err)
	}
	queues, err := fluxjob.AddToManager(mgr, jobs)
	if err != nil {
		e.Fatal(err)
	}
	groups.Queued = queues.Holds
	if err := podgroup.AddToManager(ctx, mgr, groups); err != nil {
		e.Fatal(err)
	}
	e.cache = mgr.GetCache()
	done := make(chan error)
	go func() { done <- mgr.Start(ctx) }()
	e.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			e.Errorf("the controller ended with %v", err)
		}
	})
	e.Cleanup(e.stop)
}

func (e *env) create(obj client.Object) {
	e.Helper()
	if err := e.client.Create(e.ctx, obj); err != nil {
		e.Fatalf("create %T: %v", obj, err)
	}
}

func (e *env) patch(obj client.Object, format string, args ...any) {
	e.Helper()
	if err := e.client.Patch(e.ctx, obj, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, format, args...))); err != nil {
		e.Fatalf("patch %T: %v", obj, err)
	}
}

// job creates a Job in the queue of the test, past the webhook.
func (e *env) job(name string, parallelism int32, edits ...func(*batchv1.Job)) *batchv1.Job {
	e.Helper()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.ns, Name: name, Labels: map[string]string{v1alpha1.QueueLabel: e.ns}},
		Spec: batchv1.JobSpec{
			Parallelism: &parallelism, Completions: &parallelism,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				SchedulerName: e.ns, RestartPolicy: corev1.RestartPolicyNever,
				Containers: []corev1.Container{{Name: "c", Image: "none"}},
			}},
		},
	}
	for _, edit := range edits {
		edit(job)
	}
	e.create(job)
	return job
}

// until watches an object of a list's kind, which need not exist, until ok returns true. ok gets nil when the object is removed.
func until[T client.Object](e *env, list client.ObjectList, name, what string, ok func(T) bool) T {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.ctx, patience)
	defer cancel()
	w, err := e.client.Watch(ctx, list, client.InNamespace(e.ns), client.MatchingFields{"metadata.name": name})
	if err != nil {
		e.Fatalf("watch %s: %v", name, err)
	}
	defer w.Stop()
	var last, none T
	for ev := range w.ResultChan() {
		obj, is := ev.Object.(T)
		if !is {
			e.Fatalf("watch %s: %v", name, ev.Object)
		}
		if last = obj; ev.Type == watch.Deleted {
			last = none
		}
		if ok(last) {
			return last
		}
	}
	e.Fatalf("%s: waited in vain until %s; last seen: %+v", name, what, last)
	return none
}

// untilJob waits until a Job is suspended, or not.
func (e *env) untilJob(name string, suspended bool) *batchv1.Job {
	e.Helper()
	return until(e, &batchv1.JobList{}, name, fmt.Sprintf("suspended is %t", suspended), func(j *batchv1.Job) bool { return j != nil && *j.Spec.Suspend == suspended })
}

// untilFluxJob waits until a FluxJob is as it should be.
func (e *env) untilFluxJob(name, what string, ok func(*v1alpha1.FluxJob) bool) *v1alpha1.FluxJob {
	e.Helper()
	return until(e, &v1alpha1.FluxJobList{}, name, what, func(fj *v1alpha1.FluxJob) bool { return fj != nil && ok(fj) })
}

// untilGone waits until there is no FluxJob of a name.
func (e *env) untilGone(name string) {
	e.Helper()
	eventually.True(e.ctx, e.T, "FluxJob "+name+" is gone", func(ctx context.Context) (bool, string) {
		err := e.client.Get(ctx, client.ObjectKey{Namespace: e.ns, Name: name}, &v1alpha1.FluxJob{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
}

// untilPhase waits until a FluxJob has a phase.
func (e *env) untilPhase(name string, phase v1alpha1.JobPhase) *v1alpha1.FluxJob {
	e.Helper()
	return e.untilFluxJob(name, "it is "+string(phase), func(fj *v1alpha1.FluxJob) bool { return fj.Status.Phase == phase })
}

// untilValid waits until the controller has looked at a FluxJob as it is.
func (e *env) untilValid(name string) *v1alpha1.FluxJob {
	e.Helper()
	return e.untilFluxJob(name, "it is valid", func(fj *v1alpha1.FluxJob) bool {
		c := meta.FindStatusCondition(fj.Status.Conditions, v1alpha1.ConditionValid)
		return c != nil && c.ObservedGeneration == fj.Generation
	})
}

// admit does what the scheduler does when it is a job's turn. The room ends after a duration, if there is one.
func (e *env) admit(name string, duration time.Duration) {
	e.Helper()
	fj := e.untilValid(name).DeepCopy()
	now := time.Now()
	fj.Status.Phase = v1alpha1.Ready
	fj.Status.Allocation = &v1alpha1.JobAllocation{Attempt: 1, At: metav1.NewMicroTime(now), Seats: []v1alpha1.Seats{{Hosts: "node-0000", Each: fj.Spec.Pods}}}
	if duration > 0 {
		fj.Status.Allocation.End = new(metav1.NewTime(now.Add(duration + 30*time.Second)))
	}
	meta.SetStatusCondition(&fj.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAdmitted, ObservedGeneration: fj.Generation})
	if err := e.client.Status().Update(e.ctx, fj); err != nil {
		e.Fatalf("admit %s: %v", name, err)
	}
}

// podsOf waits until a Job has this many pods.
func (e *env) podsOf(job string, n int) (pods []*corev1.Pod) {
	e.Helper()
	eventually.True(e.ctx, e.T, fmt.Sprintf("Job %s has %d pods", job, n), func(ctx context.Context) (bool, string) {
		var all corev1.PodList
		if err := e.client.List(ctx, &all, client.InNamespace(e.ns), client.MatchingLabels{batchv1.JobNameLabel: job}); err != nil {
			return false, err.Error()
		}
		pods = nil
		for i := range all.Items {
			if pod := &all.Items[i]; pod.DeletionTimestamp == nil {
				pods = append(pods, pod)
			}
		}
		return len(pods) == n, fmt.Sprintf("it has %d", len(pods))
	})
	return pods
}

// bind binds pods to a node as a scheduler does.
func (e *env) bind(pods ...*corev1.Pod) {
	e.Helper()
	for _, pod := range pods {
		err := shared.Client().CoreV1().Pods(pod.Namespace).Bind(e.ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			Target:     corev1.ObjectReference{Kind: "Node", Name: "node-0000"},
		}, metav1.CreateOptions{})
		if err != nil {
			e.Fatalf("bind pod %s: %v", pod.Name, err)
		}
	}
}

// event waits until an event with this reason was sent about an object.
func (e *env) event(kind, name, reason string) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.ctx, patience)
	defer cancel()
	w, err := e.client.Watch(ctx, &corev1.EventList{}, client.InNamespace(e.ns), client.MatchingFields{
		"involvedObject.kind": kind, "involvedObject.name": name, "reason": reason,
	})
	if err != nil {
		e.Fatalf("watch events: %v", err)
	}
	defer w.Stop()
	for ev := range w.ResultChan() {
		if _, is := ev.Object.(*corev1.Event); is {
			return
		}
	}
	e.Fatalf("no event %s about %s %s", reason, kind, name)
}

// writes counts the controller's writes to FluxJobs of the test's namespace that were carried out.
func (e *env) writes() (n int, story string) {
	e.Helper()
	for ev, err := range shared.AuditEvents() {
		if err != nil {
			e.Fatal(err)
		}
		if r := ev.ObjectRef; r == nil || r.Resource != v1alpha1.FluxJobs.Resource || r.Namespace != e.ns || ev.User.Username != serviceAccount || ev.ResponseStatus.Code >= 300 {
			continue
		}
		switch ev.Verb {
		case "create", "update", "patch", "delete":
			n++
			story += fmt.Sprintln(ev.Verb, ev.RequestURI, ev.ResponseStatus.Code)
		}
	}
	return n, story
}
