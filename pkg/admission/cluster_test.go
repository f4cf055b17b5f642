package admission

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2/ktesting"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/flowcontrol"
	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/inventory"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/translate"
	controlplane "github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/eventually"
	"github.com/flux-k8s/fluence/test/objects"
)

// A live is a Driver between a real API server and an engine, which a real inventory loads.
type live struct {
	*testing.T
	ctx       context.Context
	d         *Driver
	inventory *inventory.Inventory
	engine    *engine.Engine
	client    kubernetes.Interface
	api       rest.Interface
	leads     atomic.Bool
}

// start starts a Driver and an inventory, until stop is called.
func (l *live) start(e *engine.Engine) (stop func()) {
	l.Helper()
	_, ctx := ktesting.NewTestContext(l.T)
	ctx, cancel := context.WithCancel(ctx)
	factory := informers.NewSharedInformerFactory(l.client, 0)
	core := factory.Core().V1()
	const byJob = "byJob"
	l.must(core.Pods().Informer().AddIndexers(cache.Indexers{byJob: func(obj any) ([]string, error) {
		if of := metav1.GetControllerOfNoCopy(obj.(*corev1.Pod)); of != nil {
			return []string{string(of.UID)}, nil
		}
		return nil, nil
	}}))
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: l.client.EventsV1()})
	l.must(broadcaster.StartRecordingToSinkWithContext(ctx))
	var err error
	l.d, err = New(Config{
		API:     l.api,
		Cluster: Cluster{Nodes: core.Nodes().Informer(), Namespaces: core.Namespaces().Informer(), Jobs: factory.Batch().V1().Jobs().Informer(), Pods: core.Pods().Informer(), PodsByJob: byJob},
		Groups: Groups{
			Rules:        func(string, map[string]string) (string, *jobspec.Topology, error) { return "", nil, nil },
			Claims:       func(gang.Rank) Claims { return Claims{} },
			Placed:       l.placed,
			Names:        func(match.Reason, types.NamespacedName) (string, string) { return "", "" },
			FirstPromise: func(map[string]struct{}) (match.JobID, time.Time) { return 0, time.Time{} },
			Changed:      func(...types.NamespacedName) {},
			RoomFreed:    func() {},
			Asked:        func() {},
			EndChanged:   func(types.NamespacedName) {},
		},
		Engine: e, Epoch: func() match.Epoch { return l.inventory.Epoch() },
		Recorder: broadcaster.NewRecorder(nil, "fluence"), Leading: l.leads.Load,
	})
	l.must(err)
	l.inventory, err = inventory.New(inventory.Config{
		Engine: e, Nodes: core.Nodes().Informer(), Pods: core.Pods().Informer(), Sources: []inventory.Source{l.d}, OnChange: l.d.Observe,
		EndOf: func(pod *corev1.Pod) time.Time {
			end, _ := l.d.End(keyOf(pod.Namespace, pod.Labels["of"]))
			return end
		},
		AuditEvery: 100 * time.Millisecond, DriftAfter: 2 * time.Second,
		OnDrift: func(d inventory.Drift) { l.Errorf("the audit found %+v", d) },
	})
	l.must(err)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	ended := make(chan struct{}, 2)
	go func() {
		defer func() { ended <- struct{}{} }()
		l.d.Run(ctx, func() {
			go func() {
				defer func() { ended <- struct{}{} }()
				if err := l.inventory.Run(ctx); err != nil {
					l.Errorf("Run: %v", err)
				}
			}()
		})
	}()
	return func() {
		cancel()
		<-ended
		<-ended
		factory.Shutdown()
		broadcaster.Shutdown()
	}
}

// placed returns the nodes of a job's pods, which have its name in a label.
func (l *live) placed(key types.NamespacedName) (nodes []string) {
	for _, obj := range l.d.cfg.Cluster.Pods.GetStore().List() {
		if pod := obj.(*corev1.Pod); pod.Namespace == key.Namespace && pod.Labels["of"] == key.Name && translate.Holds(pod) {
			nodes = append(nodes, pod.Spec.NodeName)
		}
	}
	return nodes
}

func (l *live) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// until waits until something is so.
func (l *live) until(what string, done func() (bool, string)) {
	l.Helper()
	eventually.True(l.ctx, l.T, what, func(context.Context) (bool, string) { return done() })
}

// submit creates a suspended Job and its FluxJob, as the controller does.
func (l *live) submit(name string, pods int32, cores int64, duration string) {
	l.Helper()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: batchv1.JobSpec{
			Parallelism: &pods, Completions: &pods, Suspend: new(true),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{SchedulerName: "fluence", RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "none"}}}},
		},
	}
	job, err := l.client.BatchV1().Jobs("default").Create(l.ctx, job, metav1.CreateOptions{})
	l.must(err)
	text, err := translate.Jobspec([]translate.ShapeRequest{{Label: "shape0", Amounts: translate.Amounts{translate.TypeCore: 1000 * cores, translate.TypePods: 1}, Min: int64(pods), Max: int64(pods)}}).EncodeYAML()
	l.must(err)
	fj := &v1alpha1.FluxJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1alpha1.FluxJobSpec{
			Queue: "batch", Workload: v1alpha1.WorkloadReference{APIVersion: "batch/v1", Kind: "Job", Name: name, UID: job.UID},
			Jobspec: string(text), Pods: pods, Requests: objects.Amounts("cpu", fmt.Sprint(cores)), Duration: duration,
		},
	}
	l.must(l.api.Post().Namespace("default").Resource("fluxjobs").Body(fj).Do(l.ctx).Into(fj))
	l.update(name, func(fj *v1alpha1.FluxJob) {
		if fj.Status.Phase == "" {
			fj.Status.Phase = v1alpha1.Requested
		}
		fj.Status.CreationTime = &metav1.MicroTime{Time: time.Now()}
		meta.SetStatusCondition(&fj.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionValid, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonValid})
	})
}

// get returns a FluxJob.
func (l *live) get(name string) *v1alpha1.FluxJob {
	l.Helper()
	fj := &v1alpha1.FluxJob{}
	l.must(l.api.Get().Namespace("default").Resource("fluxjobs").Name(name).Do(l.ctx).Into(fj))
	return fj
}

// update writes the status of a FluxJob as the controller does: the whole of it, onto the version that it has read.
func (l *live) update(name string, edit func(*v1alpha1.FluxJob)) {
	l.Helper()
	for {
		fj := l.get(name)
		edit(fj)
		err := l.api.Put().Namespace("default").Resource("fluxjobs").Name(name).SubResource("status").Param("fieldManager", "fluence-controller").Body(fj).Do(l.ctx).Error()
		if err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			l.Fatal(err)
		}
	}
}

// shows waits until a FluxJob has a phase and a reason of the condition Admitted.
func (l *live) shows(name, want string) *v1alpha1.FluxJob {
	l.Helper()
	var fj *v1alpha1.FluxJob
	l.until(name+" is "+want, func() (bool, string) {
		fj = l.get(name)
		text := string(fj.Status.Phase)
		if c := meta.FindStatusCondition(fj.Status.Conditions, v1alpha1.ConditionAdmitted); c != nil {
			text += " " + c.Reason + ": " + c.Message
		}
		return strings.HasPrefix(text, want), text
	})
	return fj
}

func TestQueuesOfARealAPIServer(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	c, err := controlplane.Start(t.Context(), controlplane.Config{APIOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("stop the cluster: %v", err)
		}
	}()
	config := flowcontrol.Unlimited(c.RESTConfig())
	api, err := v1alpha1.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	var epochs atomic.Uint64
	e, err := engine.New(engine.Options{Epoch: func() match.Epoch { return match.Epoch(epochs.Add(1)) }})
	if err != nil {
		t.Fatal(err)
	}
	l := &live{T: t, ctx: t.Context(), engine: e, client: c.Client(), api: api}
	l.leads.Store(true)
	for i := range 4 {
		node := objects.ReadyNode(fmt.Sprintf("node-%d", i), 4)
		created, err := l.client.CoreV1().Nodes().Create(l.ctx, node, metav1.CreateOptions{})
		l.must(err)
		created.Spec.Taints = nil // the controller that takes the taint of a new node away does not run
		created, err = l.client.CoreV1().Nodes().Update(l.ctx, created, metav1.UpdateOptions{})
		l.must(err)
		created.Status = node.Status
		_, err = l.client.CoreV1().Nodes().UpdateStatus(l.ctx, created, metav1.UpdateOptions{})
		l.must(err)
	}
	stop := l.start(e)
	defer func() { stop() }()

	// Without the definitions there are no queues. Nothing else waits for them.
	l.until("the graph is loaded", func() (bool, string) { return l.inventory.Epoch() != 0, "not yet" })
	if held, why := l.d.Status(keyOf("default", "a"), "batch"); !held || !strings.Contains(why, "the CRD is not installed") {
		t.Errorf("Status() of a pod with the label = %v, %q", held, why)
	}
	if held, why := l.d.Status(keyOf("default", "a"), ""); held {
		t.Errorf("Status() of any other pod = held: %s", why)
	}
	_, _, err = c.Kubectl(l.ctx, "apply", "--server-side", "-f", filepath.Join("..", "..", "manifests", "crds", "fluence.flux-framework.org_queues.yaml"), "-f", filepath.Join("..", "..", "manifests", "crds", "fluence.flux-framework.org_fluxjobs.yaml"))
	l.must(err)
	_, _, err = c.Kubectl(l.ctx, "wait", "--for=condition=Established", "crd/"+v1alpha1.QueueCRDName, "crd/"+v1alpha1.FluxJobCRDName)
	l.must(err)
	l.until("they are seen", func() (bool, string) {
		held, why := l.d.Status(keyOf("default", "a"), "batch")
		return held && strings.Contains(why, "for the controller to make its FluxJob"), why
	})

	queue := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "batch"}, Spec: v1alpha1.QueueSpec{NamespaceSelector: &metav1.LabelSelector{}, Grace: "0s"}}
	l.must(api.Post().Resource("queues").Body(queue).Do(l.ctx).Error())
	l.submit("a", 2, 4, "1h")
	a := l.shows("a", "Ready Admitted: room for 2 pods on 2 nodes")
	if a.Status.Allocation == nil || a.Status.Allocation.End == nil || a.Status.Allocation.Seats[0].Hosts != "node-[0-1]" {
		t.Errorf("the allocation is %+v", a.Status.Allocation)
	}
	l.submit("b", 4, 4, "10m")
	b := l.shows("b", "Waiting Promised: promised 4 nodes")
	l.submit("c", 1, 4, "2h")
	l.shows("c", "Waiting NoRoom: needs 1 pod")
	l.submit("d", 1, 4, "30m")
	l.shows("d", "Ready Admitted")

	// What others have written stays, and what this scheduler has written goes when it is over.
	l.update("a", func(fj *v1alpha1.FluxJob) {
		fj.Status.Phase, fj.Status.Started = v1alpha1.Running, &metav1.Time{Time: time.Now()}
		meta.SetStatusCondition(&fj.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReleased, Status: metav1.ConditionTrue, Reason: "Released"})
	})
	_, _, err = c.Kubectl(l.ctx, "patch", "fluxjob", "a", "--type=merge", "-p", `{"spec":{"duration":"20m"}}`)
	l.must(err)
	l.until("a ends earlier", func() (bool, string) {
		a = l.get("a")
		return a.Status.Allocation.End.Sub(a.Status.Allocation.At.Time) < 21*time.Minute, a.Status.Allocation.End.String()
	})
	if a.Status.Phase != v1alpha1.Running || a.Status.Started == nil || len(a.Status.Conditions) != 3 {
		t.Errorf("the status of a is %+v", a.Status)
	}
	l.until("b starts earlier", func() (bool, string) {
		p := l.get("b").Status.Promise
		return p != nil && p.At.Time.Before(b.Status.Promise.At.Time), fmt.Sprintf("%+v", p)
	})

	// Pods come, and take the room over; then the scheduler is restarted.
	pod := objects.Pod("a-0", objects.In("default"), objects.OnNode("node-0"), objects.CPU("4"), func(p *corev1.Pod) { p.Labels, p.UID = map[string]string{"of": "a"}, "" })
	l.pod(pod, "a", a.Spec.Workload.UID)
	l.until("the pod has taken its room over", func() (bool, string) {
		room, _ := l.d.Allocation(keyOf("default", "a"))
		return len(room.Slots) == 1 && room.Slots[0].Node == "node-1", fmt.Sprintf("%+v", room)
	})
	stop()
	before := l.get("b")
	stop = l.start(e)
	l.until("the promise is made again", func() (bool, string) {
		return l.d.Restored() && len(l.d.Promises(gang.Rank{Priority: 1})) == 1, "not yet"
	})
	if after := l.get("b"); !after.Status.Promise.At.Equal(&before.Status.Promise.At) || after.Status.Promise.Why != "" {
		t.Errorf("after a restart the promise is %+v, before %+v", after.Status.Promise, before.Status.Promise)
	}
	l.until("what is left is booked", func() (bool, string) {
		room, _ := l.d.Allocation(keyOf("default", "a"))
		return len(room.Slots) == 1, fmt.Sprintf("%+v", room)
	})

	// A user deletes a job, and others end.
	l.must(api.Delete().Namespace("default").Resource("fluxjobs").Name("d").Do(l.ctx).Error())
	l.must(l.client.CoreV1().Pods("default").Delete(l.ctx, "a-0", *metav1.NewDeleteOptions(0)))
	l.update("a", func(fj *v1alpha1.FluxJob) { fj.Status.Phase, fj.Status.Result = v1alpha1.Finished, v1alpha1.Succeeded })
	b = l.shows("b", "Ready Admitted: room for 4 pods on 4 nodes")
	if b.Status.Promise != nil {
		t.Errorf("the promise is still %+v", b.Status.Promise)
	}
	l.until("the queue shows it", func() (bool, string) {
		q := &v1alpha1.Queue{}
		l.must(api.Get().Resource("queues").Name("batch").Do(l.ctx).Into(q))
		s := q.Status
		return s.Pending == 1 && s.Running == 1 && meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionReady) && s.Head != nil && s.Head.Name == "c", fmt.Sprintf("%+v", s)
	})
	l.until("events tell of it", func() (bool, string) {
		all, err := l.client.EventsV1().Events("default").List(l.ctx, metav1.ListOptions{})
		l.must(err)
		var seen []string
		for i := range all.Items {
			seen = append(seen, all.Items[i].Reason+" "+all.Items[i].Regarding.Kind+" "+all.Items[i].Regarding.Name)
		}
		text := strings.Join(seen, ", ")
		return strings.Contains(text, "Admitted Job b") && strings.Contains(text, "Admitted FluxJob b"), text
	})

	// Preempted.
	l.must(l.d.Preempt(l.ctx, keyOf("default", "b"), "evicted for default/urgent"))
	if b = l.get("b"); b.Status.Phase != v1alpha1.Waiting && b.Status.Allocation != nil {
		t.Errorf("the status after a preemption is %+v", b.Status)
	}
	// Until its pods are gone it does not ask, and its room is another's.
	l.shows("c", "Ready Admitted")
	l.shows("b", "Waiting Promised")
	l.update("c", func(fj *v1alpha1.FluxJob) { fj.Status.Phase = v1alpha1.Finished })
	l.shows("b", "Ready Admitted")
	if b = l.get("b"); b.Status.Requeues != 1 || b.Status.Allocation.Attempt != 2 {
		t.Errorf("requeues %d, attempt %d, want 1 and 2", b.Status.Requeues, b.Status.Allocation.Attempt)
	}

	// A stand-by follows, and writes nothing.
	l.leads.Store(false)
	stop()
	stop = l.start(e)
	l.submit("e", 1, 1, "1m")
	l.until("the stand-by has booked what was admitted", func() (bool, string) {
		room, _ := l.d.Allocation(keyOf("default", "b"))
		return len(room.Slots) == 4 && l.inventory.Epoch() != 0, fmt.Sprintf("%+v", room)
	})
	if fj := l.get("e"); fj.Status.Phase != v1alpha1.Requested {
		t.Errorf("a stand-by has written %+v", fj.Status)
	}
	l.leads.Store(true)
	l.shows("e", "Waiting Promised")

	// The definition is gone, and with it all jobs.
	_, _, err = c.Kubectl(l.ctx, "delete", "crd", v1alpha1.FluxJobCRDName)
	l.must(err)
	l.until("nothing is held", func() (bool, string) {
		held, why := l.d.Status(keyOf("default", "b"), "batch")
		return strings.Contains(why, "the CRD is not installed") && held && len(l.d.Jobs()) == 0, why
	})
}

// pod creates a pod of a Job on its node.
func (l *live) pod(pod *corev1.Pod, job string, uid types.UID) {
	l.Helper()
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job, UID: uid, Controller: new(true)}}
	_, err := l.client.CoreV1().Pods("default").Create(l.ctx, pod, metav1.CreateOptions{})
	l.must(err)
}
