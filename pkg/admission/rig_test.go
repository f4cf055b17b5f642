package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/inventory"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/pkg/translate"
	"github.com/flux-k8s/fluence/test/objects"
)

// ns is the namespace of the tests' jobs.
const ns = "team"

// begin is when the tests begin.
var begin = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// A rig is a Driver with the embedded engine, and with a stand-in for the API server. The test does what the controller, the plugin
// and the inventory do.
type rig struct {
	testing.TB
	d      *Driver
	engine match.Engine
	epoch  match.Epoch
	api    *memory
	now    time.Time
	placed map[types.NamespacedName][]string
	// told are the groups of which the plugin was told, and freed is how often it was told that room is free.
	told    []types.NamespacedName
	telling sync.Mutex
	ends    []types.NamespacedName
	claims  Claims
	// policy and topology are those that all jobs ask for.
	policy    string
	topology  *jobspec.Topology
	maxBypass time.Duration
	events    []string
	about     []string
	made      int
	freed     int
	asked     int
	// failed are FluxJobs whose writes have failed.
	failed []types.NamespacedName
}

// newRig returns a rig with nodes of 4 cores: n1 and so on.
func newRig(t testing.TB, nodes int, queues ...*v1alpha1.Queue) *rig {
	t.Helper()
	var epochs atomic.Uint64
	e, err := engine.New(engine.Options{Epoch: func() match.Epoch { return match.Epoch(epochs.Add(1)) }})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{TB: t, engine: e, api: &memory{objects: map[types.NamespacedName]*v1alpha1.FluxJob{}, statuses: map[string]*v1alpha1.QueueStatus{}}, now: begin, placed: map[types.NamespacedName][]string{}}
	r.build()
	r.load(nodes)
	for _, q := range queues {
		r.putQueue(q)
	}
	return r
}

// build makes a new Driver, as a scheduler that was restarted does. It leads.
func (r *rig) build() {
	r.Helper()
	informer := func(of runtime.Object, i cache.Indexers) cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(&cache.ListWatch{}, of, 0, i)
	}
	m, err := newMetrics()
	r.must(err)
	cfg := Config{
		Cluster: Cluster{
			Nodes: informer(&corev1.Node{}, nil), Namespaces: informer(&corev1.Namespace{}, nil), Jobs: informer(&batchv1.Job{}, nil),
			Pods: informer(&corev1.Pod{}, cache.Indexers{"byJob": func(obj any) ([]string, error) {
				if of := metav1.GetControllerOfNoCopy(obj.(*corev1.Pod)); of != nil {
					return []string{string(of.UID)}, nil
				}
				return nil, nil
			}}), PodsByJob: "byJob",
		},
		Groups: Groups{
			Rules: func(_ string, placement map[string]string) (string, *jobspec.Topology, error) {
				if wrong := placement["wrong"]; wrong != "" {
					return "", nil, errors.New(wrong)
				}
				return r.policy, r.topology, nil
			},
			Claims:       func(gang.Rank) Claims { return r.claims },
			Placed:       func(key types.NamespacedName) []string { return r.placed[key] },
			Names:        func(no match.Reason, reader types.NamespacedName) (string, string) { return "", r.name(no) },
			FirstPromise: func(map[string]struct{}) (match.JobID, time.Time) { return 0, time.Time{} },
			Changed: func(keys ...types.NamespacedName) {
				r.telling.Lock()
				defer r.telling.Unlock()
				r.told = append(r.told, keys...)
			},
			RoomFreed:  func() { r.freed++ },
			Asked:      func() { r.asked++ },
			EndChanged: func(key types.NamespacedName) { r.ends = append(r.ends, key) },
		},
		Engine: r.engine, Epoch: func() match.Epoch { return r.epoch }, Recorder: r, Leading: func() bool { return true },
		Timeout: time.Minute, MaxBypass: r.maxBypass, Now: func() time.Time { return r.now },
	}
	if r.d != nil {
		cfg.Cluster = r.d.cfg.Cluster
	}
	r.d = newDriver(cfg, r.api, m)
	r.d.state.leads.Store(true)
	r.must(cfg.Cluster.Namespaces.GetStore().Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}))
	for _, fj := range r.api.objects {
		r.must(r.d.jobs.Update(fj.DeepCopy()))
	}
}

func (r *rig) name(no match.Reason) string {
	if no.Promised == nil {
		return ""
	}
	o, _ := r.d.Owner(no.Promised.Job)
	return o.Job.Name
}

// Eventf implements events.EventRecorder.
func (r *rig) Eventf(regarding, related runtime.Object, _, reason, _, _ string, _ ...any) {
	ref := regarding.(*corev1.ObjectReference)
	// The recorder takes events for equal whose objects are.
	r.about = append(r.about, fmt.Sprint(reason, *ref, *related.(*corev1.ObjectReference)))
	r.events = append(r.events, reason+" "+ref.Kind+" "+ref.Name)
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// load loads the graph, as the inventory does, with nodes of 4 cores.
func (r *rig) load(nodes int) {
	r.Helper()
	for i := range nodes {
		r.must(r.d.cfg.Cluster.Nodes.GetStore().Add(objects.ReadyNode("n"+strconv.Itoa(i+1), 4)))
	}
	r.reload()
}

// reload loads the graph in another epoch.
func (r *rig) reload() {
	r.Helper()
	epoch, err := r.engine.Reset(r.Context())
	r.must(err)
	for _, obj := range r.d.cfg.Cluster.Nodes.GetStore().List() {
		r.must(r.engine.PutNode(r.Context(), epoch, translate.Node(obj.(*corev1.Node), nil)))
	}
	r.must(r.engine.Update(r.Context(), epoch, r.d.Jobs()...))
	r.must(r.engine.Ready(r.Context(), epoch))
	r.epoch = epoch
	r.d.Observe(inventory.Change{Kind: inventory.Loaded})
}

// changeNode changes a node, in the matcher too.
func (r *rig) changeNode(name string, edit func(*corev1.Node)) {
	r.Helper()
	obj, _, err := r.d.cfg.Cluster.Nodes.GetStore().GetByKey(name)
	r.must(err)
	old := obj.(*corev1.Node)
	node := old.DeepCopy()
	edit(node)
	r.must(r.d.cfg.Cluster.Nodes.GetStore().Update(node))
	r.must(r.engine.PutNode(r.Context(), r.epoch, translate.Node(node, nil)))
	r.d.nodeChanged(old, node)
	r.d.Observe(inventory.Change{Kind: inventory.NodeChanged, Node: name})
}

// easy returns a queue, and fcfs one that lets nobody pass.
func easy(name string, edit ...func(*v1alpha1.Queue)) *v1alpha1.Queue {
	q := &v1alpha1.Queue{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 1, CreationTimestamp: metav1.NewTime(begin)},
		Spec:       v1alpha1.QueueSpec{Policy: v1alpha1.EASY, NamespaceSelector: &metav1.LabelSelector{}, Grace: "0s"},
	}
	for _, f := range edit {
		f(q)
	}
	return q
}

func fcfs(name string, edit ...func(*v1alpha1.Queue)) *v1alpha1.Queue {
	return easy(name, append([]func(*v1alpha1.Queue){func(q *v1alpha1.Queue) { q.Spec.Policy = v1alpha1.FCFS }}, edit...)...)
}

func (r *rig) putQueue(q *v1alpha1.Queue) { r.must(r.d.loop.queues.Update(q)) }

// editQueue changes a queue.
func (r *rig) editQueue(name string, edit func(*v1alpha1.Queue)) {
	q := r.d.loop.queues.list()[name].DeepCopy()
	edit(q)
	q.Generation++
	r.putQueue(q)
}

// submit makes a FluxJob of this number of pods that ask for a number of cores each, and a Job of the same name.
func (r *rig) submit(name, queue string, pods int32, cores int64, duration string, edit ...func(*v1alpha1.FluxJob)) types.NamespacedName {
	r.Helper()
	r.made++
	amounts := translate.Amounts{translate.TypeCore: 1000 * cores, translate.TypePods: 1}
	text, err := translate.Jobspec([]translate.ShapeRequest{{Label: "shape0", Amounts: amounts, Min: int64(pods), Max: int64(pods)}}).EncodeYAML()
	r.must(err)
	fj := &v1alpha1.FluxJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID("fj-" + name), Generation: 1, CreationTimestamp: metav1.NewTime(r.now)},
		Spec: v1alpha1.FluxJobSpec{
			Queue: queue, Workload: v1alpha1.WorkloadReference{APIVersion: "batch/v1", Kind: "Job", Name: name, UID: types.UID("job-" + name)},
			Jobspec: string(text), Pods: pods, Requests: objects.Amounts("cpu", strconv.FormatInt(cores, 10)), Duration: duration,
		},
		Status: v1alpha1.FluxJobStatus{Phase: v1alpha1.Requested, CreationTime: &metav1.MicroTime{Time: begin.Add(time.Duration(r.made) * time.Microsecond)}, Conditions: valid()},
	}
	for _, f := range edit {
		f(fj)
	}
	r.must(r.d.cfg.Cluster.Jobs.GetStore().Add(&batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID("job-" + name)},
		Spec:       batchv1.JobSpec{Parallelism: &pods, Completions: &pods},
	}))
	r.must(r.d.jobs.Update(r.api.create(fj)))
	return types.NamespacedName{Namespace: ns, Name: name}
}

// edit changes a FluxJob, as a user or the controller does.
func (r *rig) edit(key types.NamespacedName, f func(*v1alpha1.FluxJob)) {
	r.Helper()
	r.must(r.d.jobs.Update(r.api.edit(key, f)))
}

// release does what the controller does with a job that was admitted.
func (r *rig) release(keys ...types.NamespacedName) {
	r.Helper()
	for _, key := range keys {
		r.edit(key, func(fj *v1alpha1.FluxJob) { fj.Status.Phase, fj.Status.Promise = v1alpha1.Running, nil })
	}
}

// finish ends a job.
func (r *rig) finish(key types.NamespacedName) {
	r.Helper()
	delete(r.placed, key)
	r.edit(key, func(fj *v1alpha1.FluxJob) { fj.Status.Phase, fj.Status.Result = v1alpha1.Finished, v1alpha1.Succeeded })
	r.step()
}

// step lets the loop work and writes what is to be written, until there is nothing more to do.
func (r *rig) step() {
	r.Helper()
	for range 50 {
		r.now = r.now.Add(passEvery)
		for _, key := range r.failed {
			r.d.writer.urgent.Add(key)
		}
		r.failed = nil
		r.d.loop.step(r.now)
		if !r.write() && !r.d.loop.core.Pending() {
			return
		}
	}
	r.Fatal("the loop does not come to an end")
}

// after lets time pass.
func (r *rig) after(d time.Duration) {
	r.Helper()
	r.now = r.now.Add(d)
	r.step()
}

// write writes what is to be written. It reports whether there was anything.
func (r *rig) write() (some bool) {
	w := r.d.writer
	for {
		var key types.NamespacedName
		switch {
		case w.urgent.Len() > 0:
			key, _ = w.urgent.Get()
			r.report(key, w.writeJob(r.Context(), key))
			w.urgent.Done(key)
		case w.later.Len() > 0:
			key, _ = w.later.Get()
			r.report(key, w.writeJob(r.Context(), key))
			w.later.Done(key)
		case w.queues.Len() > 0:
			name, _ := w.queues.Get()
			r.must(w.writeQueue(r.Context(), name))
			w.queues.Done(name)
			continue
		default:
			return some
		}
		some = true
	}
}

// report remembers a FluxJob whose write has failed. It is written again in the next step.
func (r *rig) report(key types.NamespacedName, err error) {
	if err != nil {
		r.failed = append(r.failed, key)
	}
}

// job returns a FluxJob as the API server has it.
func (r *rig) job(key types.NamespacedName) *v1alpha1.FluxJob {
	r.Helper()
	fj, err := r.api.get(r.Context(), key)
	r.must(err)
	return fj
}

// shows checks the phase and the reason of jobs, and where they have room: "a: Ready Admitted n[1-2]*1".
func (r *rig) shows(want ...string) {
	r.Helper()
	var got []string
	for key, fj := range r.api.objects {
		text := key.Name + ": " + string(fj.Status.Phase)
		if c := meta.FindStatusCondition(fj.Status.Conditions, v1alpha1.ConditionAdmitted); c != nil {
			text += " " + c.Reason
		}
		if p := fj.Status.Promise; p != nil {
			text += fmt.Sprintf(" %d from %s", p.Nodes, p.At.Sub(begin).Round(time.Second))
		}
		if a := fj.Status.Allocation; a != nil {
			for _, s := range a.Seats {
				text += fmt.Sprintf(" %s*%d", s.Hosts, s.Each)
			}
		}
		got = append(got, text)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		r.Errorf("the jobs are\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// message returns what a job says of its wait.
func (r *rig) message(key types.NamespacedName) string {
	r.Helper()
	c := meta.FindStatusCondition(r.job(key).Status.Conditions, v1alpha1.ConditionAdmitted)
	if c == nil {
		return ""
	}
	return c.Message
}

// holds checks what the engine has booked of jobs of queues: "fluxjob@n1 n2".
func (r *rig) holds(want string) {
	r.Helper()
	jobs, err := r.engine.Jobs(r.Context(), r.epoch)
	r.must(err)
	var got []string
	for _, j := range jobs {
		o, ok := r.d.Owner(j.ID)
		name := o.Job.Name
		if !ok {
			name = "nobody"
		}
		if j.Reserved {
			name = "(" + name + ")"
		}
		var nodes []string
		for _, s := range j.Slots {
			nodes = append(nodes, s.Node)
		}
		slices.Sort(nodes)
		got = append(got, name+"@"+strings.Join(nodes, ","))
	}
	slices.Sort(got)
	if text := strings.Join(got, " "); text != want {
		r.Errorf("the matcher has %q, want %q", text, want)
	}
	r.agrees(jobs)
}

// agrees checks that the source of the inventory lists what the engine has.
func (r *rig) agrees(jobs []match.Job) {
	r.Helper()
	text := func(all []match.Job) (lines []string) {
		for _, j := range all {
			for _, s := range j.Slots {
				lines = append(lines, fmt.Sprintf("%d %v %s %s %s", j.ID, j.Reserved, s.Key, s.Node, s.R.Expiration))
			}
		}
		slices.Sort(lines)
		return lines
	}
	if got, want := text(jobs), text(r.d.Jobs()); !slices.Equal(got, want) {
		r.Errorf("the engine has\n\t%s\nand the source lists\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// memory is the API server.
type memory struct {
	mu       sync.Mutex
	objects  map[types.NamespacedName]*v1alpha1.FluxJob
	statuses map[string]*v1alpha1.QueueStatus
	version  int
	writes   int
	// queueWrites counts the writes of Queues.
	queueWrites int
	// fail, if set, is asked before each write, and lost after it.
	fail, lost func(*applied) error
}

func (m *memory) create(fj *v1alpha1.FluxJob) *v1alpha1.FluxJob {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version++
	fj.ResourceVersion = strconv.Itoa(m.version)
	m.objects[types.NamespacedName{Namespace: fj.Namespace, Name: fj.Name}] = fj
	return fj.DeepCopy()
}

func (m *memory) edit(key types.NamespacedName, f func(*v1alpha1.FluxJob)) *v1alpha1.FluxJob {
	m.mu.Lock()
	defer m.mu.Unlock()
	fj := m.objects[key].DeepCopy()
	before := fj.DeepCopy()
	f(fj)
	if fmt.Sprint(before.Spec) != fmt.Sprint(fj.Spec) {
		fj.Generation++
	}
	m.version++
	fj.ResourceVersion = strconv.Itoa(m.version)
	m.objects[key] = fj
	return fj.DeepCopy()
}

func (m *memory) apply(_ context.Context, a *applied, manager string) (*v1alpha1.FluxJob, error) {
	key := types.NamespacedName{Namespace: a.Metadata.Namespace, Name: a.Metadata.Name}
	if m.fail != nil {
		if err := m.fail(a); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	fj := m.objects[key]
	m.mu.Unlock()
	resource := v1alpha1.FluxJobs.GroupResource()
	switch {
	case fj == nil:
		return nil, apierrors.NewNotFound(resource, a.Metadata.Name)
	case fj.ResourceVersion != a.Metadata.ResourceVersion:
		return nil, apierrors.NewConflict(resource, a.Metadata.Name, errors.New("the object has been modified"))
	}
	m.writes++
	written := m.edit(key, func(fj *v1alpha1.FluxJob) {
		if manager == report.FieldManager {
			fj.Status.Promise, fj.Status.Allocation, fj.Status.Requeues = a.Status.Promise, a.Status.Allocation, a.Status.Requeues
			if a.Status.Phase != "" {
				fj.Status.Phase = a.Status.Phase
			}
		}
		for _, c := range a.Status.Conditions {
			meta.SetStatusCondition(&fj.Status.Conditions, c)
		}
	})
	if m.lost != nil {
		if err := m.lost(a); err != nil {
			return nil, err
		}
	}
	return written, nil
}

func (m *memory) get(_ context.Context, key types.NamespacedName) (*v1alpha1.FluxJob, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if fj := m.objects[key]; fj != nil {
		return fj.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(v1alpha1.FluxJobs.GroupResource(), key.Name)
}

func (m *memory) applyQueue(_ context.Context, q *v1alpha1.Queue, s *v1alpha1.QueueStatus) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.statuses[q.Name] = s
	m.queueWrites++
	return nil
}

func quantity(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}
