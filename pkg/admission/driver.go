package admission

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/inventory"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/pkg/signal"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// A Driver lets the jobs of queues start. Its methods are safe for concurrent use.
type Driver struct {
	cfg      Config
	jobs     *jobs
	happened *happened
	writer   *writer
	loop     *loop
	state    *state
	// queuesRead and jobsRead are the watches of Queues and of FluxJobs.
	queuesRead, jobsRead *kindWatch
}

// New returns a Driver that does nothing until Run is called. It adds event handlers to the informers.
func New(cfg Config) (*Driver, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	m, err := newMetrics()
	if err != nil {
		return nil, err
	}
	d := newDriver(cfg, restAPI{cfg.API}, m)
	if err := d.watch(); err != nil {
		return nil, err
	}
	return d, nil
}

// newDriver returns a Driver that writes to an api.
func newDriver(cfg Config, a api, m *metrics) *Driver {
	wake := make(chan struct{}, 1)
	d := &Driver{cfg: cfg, jobs: newJobs(cfg.Groups, wake, cfg.Now), happened: newHappened(wake), state: &state{wake: wake}}
	queues := &queueStore{byName: map[string]*v1alpha1.Queue{}, happened: d.happened}
	d.writer = newWriter(a, d.jobs, cfg.Recorder, m, cfg.Now, cfg.Groups.Changed)
	d.loop = newLoop(&d.cfg, d.jobs, queues, d.happened, d.writer, d.state)
	changed := func() { cfg.Groups.Changed() }
	d.queuesRead = newKindWatch(cfg.API, v1alpha1.Queues, &v1alpha1.Queue{}, queues, changed)
	d.jobsRead = newKindWatch(cfg.API, v1alpha1.FluxJobs, &v1alpha1.FluxJob{}, arriving{d.jobs, d.writer.pace}, changed)
	return d
}

// Stop ends what New has begun, if Run is never called.
func (d *Driver) Stop() { d.writer.stop() }

// Run works until ctx ends. It calls listed when all Queues and FluxJobs have been received once, or cannot be read: the
// matcher's graph is to be loaded after that. The informers of the Cluster must have all their objects by then.
func (d *Driver) Run(ctx context.Context, listed func()) {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithName("queues"))
	context.AfterFunc(ctx, d.writer.stop)
	var unknown atomic.Int32
	unknown.Store(2)
	known := make(chan struct{})
	know := func() {
		if unknown.Add(-1) == 0 {
			close(known)
		}
	}
	var all sync.WaitGroup
	all.Go(func() { d.queuesRead.run(ctx, know) })
	all.Go(func() { d.jobsRead.run(ctx, know) })
	select {
	case <-ctx.Done():
	case <-known:
		d.loop.settle(0) // otherwise the graph would be loaded with room that pods have taken, or do not need any more
		listed()
		all.Go(func() { d.state.pollLease(ctx, d.cfg.Leading) })
		all.Go(func() { d.writer.run(ctx) })
		d.loop.run(ctx)
	}
	all.Wait()
}

// watch adds event handlers to the informers of the cluster.
func (d *Driver) watch() error {
	add := func(what string, informer cache.SharedIndexInformer, h cache.ResourceEventHandlerFuncs) error {
		if _, err := informer.AddEventHandler(h); err != nil {
			return fmt.Errorf("watch %s for queues: %w", what, err)
		}
		return nil
	}
	if err := add("nodes", d.cfg.Cluster.Nodes, cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { d.nodeChanged(nil, obj) }, UpdateFunc: d.nodeChanged, DeleteFunc: func(obj any) { d.nodeChanged(nil, obj) },
	}); err != nil {
		return err
	}
	if err := add("namespaces", d.cfg.Cluster.Namespaces, cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { d.namespaceChanged(nil, obj) }, UpdateFunc: d.namespaceChanged, DeleteFunc: func(obj any) { d.namespaceChanged(nil, obj) },
	}); err != nil {
		return err
	}
	if err := add("Jobs", d.cfg.Cluster.Jobs, cache.ResourceEventHandlerFuncs{AddFunc: d.batchJobChanged, UpdateFunc: func(_, obj any) { d.batchJobChanged(obj) }}); err != nil {
		return err
	}
	return add("pods", d.cfg.Cluster.Pods, cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { d.podChanged(nil, obj) }, UpdateFunc: d.podChanged, DeleteFunc: func(obj any) { d.podChanged(nil, obj) },
	})
}

// nodeChanged handles a node that came, changed or went.
func (d *Driver) nodeChanged(old, obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	node, ok := obj.(*corev1.Node)
	if !ok {
		return
	}
	if before, had := old.(*corev1.Node); had && maps.Equal(before.Labels, node.Labels) && before.Spec.Unschedulable == node.Spec.Unschedulable && equality.Semantic.DeepEqual(before.Spec.Taints, node.Spec.Taints) {
		return
	}
	d.happened.add(func(e *news) { e.nodes[node.Name] = struct{}{} })
}

// namespaceChanged handles a namespace that came, changed or went.
func (d *Driver) namespaceChanged(old, obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	ns, ok := obj.(*corev1.Namespace)
	if !ok {
		return
	}
	if before, had := old.(*corev1.Namespace); had && maps.Equal(before.Labels, ns.Labels) {
		return
	}
	d.happened.add(func(e *news) { e.namespaces[ns.Name] = struct{}{} })
}

func (d *Driver) batchJobChanged(obj any) {
	if job, ok := obj.(*batchv1.Job); ok {
		d.unsettle(job.UID)
	}
}

// podChanged handles a pod that came, changed or went.
func (d *Driver) podChanged(old, obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	if before, had := old.(*corev1.Pod); had && before.Spec.NodeName == pod.Spec.NodeName && translate.Holds(before) == translate.Holds(pod) && (before.DeletionTimestamp == nil) == (pod.DeletionTimestamp == nil) {
		return
	}
	before, had := old.(*corev1.Pod)
	if translate.Holds(pod) && (!had || !translate.Holds(before)) {
		d.overlap(pod)
	}
	of := pod.UID
	if c := group.ControllerOf(pod); c != (group.Owner{}) {
		of = c.UID
	}
	d.unsettle(of)
}

// overlap lets jobs ask that are promised room on the node to which a pod has come, unless the pod has the room of a job.
func (d *Driver) overlap(pod *corev1.Pod) {
	of := pod.UID
	if c := group.ControllerOf(pod); c != (group.Owner{}) {
		of = c.UID
	}
	d.jobs.mu.Lock()
	_, queued := d.jobs.byWorkload[of]
	var keys []types.NamespacedName
	if !queued {
		keys = d.jobs.promisedOn(pod.Spec.NodeName)
	}
	d.jobs.mu.Unlock()
	if len(keys) == 0 {
		return
	}
	d.happened.add(func(e *news) {
		for _, key := range keys {
			name := "a pod of another namespace"
			if key.Namespace == pod.Namespace {
				name = "pod " + pod.Name
			}
			e.overlapped[key] = fmt.Sprintf("%s has come to node %s", name, pod.Spec.NodeName)
		}
	})
}

// unsettle makes the room of a workload be brought up to date.
func (d *Driver) unsettle(workload types.UID) {
	d.jobs.mu.Lock()
	key, ok := d.jobs.byWorkload[workload]
	if ok {
		d.jobs.unsettle(key)
	}
	d.jobs.mu.Unlock()
	if ok {
		signal.Send(d.state.wake)
	}
}

// Empty reports whether there is no FluxJob. Then Status holds only pods with the label of a queue.
func (d *Driver) Empty() bool {
	d.jobs.mu.Lock()
	defer d.jobs.mu.Unlock()
	return len(d.jobs.byKey) == 0
}

// Status says whether the pods of a group must wait for their turn in a queue, and in words fit for a user why. queue is the
// value of a pod's label v1alpha1.QueueLabel, empty without one. Pods that have it wait also while there is no FluxJob, and
// while it is not known whether there is one. Other groups do not wait if there is no FluxJob of their key.
func (d *Driver) Status(group types.NamespacedName, queue string) (held bool, why string) {
	d.jobs.mu.Lock()
	defer d.jobs.mu.Unlock()
	j := d.jobs.byKey[group]
	switch {
	case j == nil && queue == "":
		return false, ""
	case j == nil:
		for _, w := range []*kindWatch{d.queuesRead, d.jobsRead} {
			if why := w.whyUnread(); why != "" {
				return true, why
			}
		}
		return true, fmt.Sprintf("waits in Queue %s for the controller to make its FluxJob", queue)
	case j.isOver():
		return queue != "", fmt.Sprintf("its FluxJob %s has ended", j.key.Name)
	case j.isAdmitted():
		return false, ""
	case j.room != nil && j.takenBack == 0:
		return true, "is about to start: its FluxJob is being written"
	case j.created.IsZero():
		return true, "waits for the controller to check its FluxJob"
	case j.sayMessage != "":
		return true, j.sayReason + ": " + j.sayMessage
	case j.message != "":
		return true, j.reason + ": " + j.message
	}
	return true, fmt.Sprintf("waits in Queue %s", j.queue)
}

// Allocation returns the room of a group that its pods have not taken yet. It returns false if the group is in no queue, or was
// not admitted.
func (d *Driver) Allocation(group types.NamespacedName) (Takeover, bool) {
	d.jobs.mu.Lock()
	defer d.jobs.mu.Unlock()
	j := d.jobs.byKey[group]
	if j == nil || !j.isAdmitted() {
		return Takeover{}, false
	}
	u, unsettled := d.jobs.unsettled[group]
	if unsettled {
		u.awaited = true
		d.jobs.unsettled[group] = u
	}
	return Takeover{Job: j.room.id, Slots: j.room.onOffer(), Unsettled: unsettled, Pods: int(j.class.pods), Queue: j.queue, Requires: d.loop.queues.nodesOf(j.queue)}, true
}

// TakenOver records that a match has given slots of a group to its pods.
func (d *Driver) TakenOver(group types.NamespacedName, keys []string) {
	d.jobs.mu.Lock()
	defer d.jobs.mu.Unlock()
	j := d.jobs.byKey[group]
	if j == nil || j.room == nil {
		return
	}
	taken := make(map[string]struct{}, len(keys))
	for _, key := range keys {
		taken[key] = struct{}{}
	}
	for i, s := range j.room.slots {
		if _, is := taken[s.Key]; is {
			j.room.left[i] = false
		}
	}
	d.jobs.unsettle(group) // the loop may have asked before which pods have nodes
	signal.Send(d.state.wake)
	if d.cfg.Now().Sub(j.room.bookedAt) < maxTakeover {
		// The loop may have booked them anew after the match.
		d.jobs.doubtful = append(d.jobs.doubtful, match.SlotRef{Job: j.room.id, Keys: keys})
	}
}

// maxTakeover is longer than it takes from a match to the call of TakenOver.
const maxTakeover = 30 * time.Second

// Recheck is to be called when pods of a group have lost their assignments or have ended: the room may be theirs again.
func (d *Driver) Recheck(groups ...types.NamespacedName) {
	d.jobs.mu.Lock()
	found := false
	for _, key := range groups {
		if j := d.jobs.byKey[key]; j != nil && j.room != nil {
			d.jobs.unsettle(key)
			found = true
		}
	}
	d.jobs.mu.Unlock()
	if found {
		signal.Send(d.state.wake)
	}
}

// Refused records that pods of a group cannot take its room: the scheduler's filters have refused these nodes of it, or the pods
// themselves if there are none. A group that has no pods on nodes waits again, and gets other nodes. One that has some loses its room
// on these nodes: its other pods may be anywhere.
func (d *Driver) Refused(group types.NamespacedName, nodes []string, why string) {
	started := len(d.cfg.Groups.Placed(group)) > 0
	tell := func() {}
	defer func() { tell() }() // without the lock
	d.jobs.mu.Lock()
	defer d.jobs.mu.Unlock()
	j := d.jobs.byKey[group]
	if j == nil || !j.isAdmitted() {
		return
	}
	s := subject{group, j.uid, j.version, j.of}
	why = translate.Shorten(why)
	name := j.class.name
	d.happened.add(func(e *news) { e.refusals = append(e.refusals, refusal{name, nodes}) })
	if started {
		j.room.refused = append(j.room.refused, nodes...)
		if _, _, lost := j.room.keep(nodes); len(lost.Keys) > 0 {
			text := fmt.Sprintf("the job loses its room on %s, and pods to come may be elsewhere in the queue: %s", translate.Shorten(strings.Join(nodes, ", ")), why)
			tell = func() {
				d.writer.event(s, corev1.EventTypeWarning, v1alpha1.ReasonUnplaceable, "Shrink", text)
			}
		}
		d.writer.add(group, true)
		return
	}
	d.jobs.refused(j, why)
	d.writer.add(group, true)
}

// Preempt makes a group wait again whose pods are about to be evicted, before the first of them is. It does nothing for a group
// that is in no queue. If it fails, nothing may be evicted: it is to be called again.
func (d *Driver) Preempt(ctx context.Context, group types.NamespacedName, why string) error {
	const tries = 3
	var err error
	for range tries {
		d.jobs.mu.Lock()
		j := d.jobs.byKey[group]
		if j == nil || !j.isAdmitted() && j.takenBack == 0 {
			d.jobs.mu.Unlock()
			return nil
		}
		d.jobs.takeBack(j, v1alpha1.ReasonPreempted, translate.Shorten(why))
		j.leaving = true
		d.jobs.apart[group] = struct{}{}
		a, of, queue := j.toApply(d.cfg.Now()), j.of, j.queue
		d.jobs.mu.Unlock()
		var fj *v1alpha1.FluxJob
		if fj, err = d.writer.api.apply(ctx, a, report.FieldManager); apierrors.IsConflict(err) {
			if fj, err = d.writer.api.get(ctx, group); err == nil {
				d.writer.answered(fj)
				err = fmt.Errorf("FluxJob %s changes too often", group)
				continue
			}
		}
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			d.writer.add(group, true) // it may be carried out yet
			return err
		}
		d.writer.answered(fj)
		d.writer.metrics.requeued.WithLabelValues(queue).Inc()
		d.writer.event(subjectOf(fj, of), corev1.EventTypeWarning, v1alpha1.ReasonPreempted, "Preempt", why)
		return nil
	}
	return err
}

// End returns when the room of a group's pods is free again. It returns false if the group is in no queue or not admitted. The zero
// time with true means that the end is not known.
func (d *Driver) End(group types.NamespacedName) (end time.Time, ok bool) {
	d.jobs.mu.Lock()
	defer d.jobs.mu.Unlock()
	if j := d.jobs.byKey[group]; j != nil && j.room != nil && j.room.written {
		return j.room.end, true
	}
	return time.Time{}, false
}

// Promises returns the reservations of jobs after a rank. A group of this rank overlooks them.
func (d *Driver) Promises(rank gang.Rank) (ids []match.JobID) {
	d.jobs.mu.Lock()
	defer d.jobs.mu.Unlock()
	for key := range d.jobs.holders {
		if j := d.jobs.byKey[key]; rank.Less(j.rank()) {
			ids = append(ids, j.promise.job.ID)
		}
	}
	return ids
}

// Overtaken is to be called when a group of this rank, which is in no queue, was given room on some nodes. Jobs after it are promised
// other room, or the same later. Why says to the users of a namespace that room on a node was given to the group.
func (d *Driver) Overtaken(rank gang.Rank, nodes []string, why func(namespace, node string) string) {
	ids := d.Promises(rank)
	if len(ids) == 0 {
		return
	}
	lost := map[types.NamespacedName]string{}
	d.jobs.mu.Lock()
	for _, id := range ids {
		key := d.jobs.byID[id]
		j := d.jobs.byKey[key]
		if j == nil || j.promise == nil {
			continue
		}
		for _, node := range nodes {
			if _, is := j.promise.nodes[node]; is {
				lost[key] = node
				break
			}
		}
	}
	d.jobs.mu.Unlock()
	d.happened.add(func(e *news) {
		e.anywhere = true
		for key, node := range lost {
			e.overlapped[key] = why(key.Namespace, node)
		}
	})
}

// Owner returns the job to which a reservation, or room before its pods have taken it, belongs.
func (d *Driver) Owner(of match.JobID) (Owner, bool) {
	d.jobs.mu.Lock()
	defer d.jobs.mu.Unlock()
	key, ok := d.jobs.byID[of]
	if !ok {
		return Owner{}, false
	}
	j := d.jobs.byKey[key]
	return Owner{Job: key, Workload: j.of.kind() + " " + key.Namespace + "/" + j.of.name, Priority: j.priority}, true
}

// Jobs implements inventory.Source: the room that pods have not taken yet, and the promises.
func (d *Driver) Jobs() []match.Job { return d.jobs.Jobs() }

// Restored reports whether the jobs that waited when this scheduler began to lead have asked once, or have had the time for it: those
// that were promised room before are promised it again then. Until then groups in no queue should not ask. Otherwise they
// would take room from jobs that are before them. Groups.Changed is called without groups when that changes.
func (d *Driver) Restored() bool { return d.state.restored.Load() || !d.jobs.someWait() }

// GiveUpRestoring is to be called if Queues and FluxJobs could not be listed for a long time: Restored reports true until they are.
func (d *Driver) GiveUpRestoring() {
	d.state.restored.Store(true)
	d.cfg.Groups.Changed()
}

// Observe is to be called with each change of the matcher's graph (inventory.Config.OnChange).
func (d *Driver) Observe(c inventory.Change) {
	d.happened.add(func(e *news) {
		switch c.Kind {
		case inventory.Loaded:
			e.loaded = true
		case inventory.Lost, inventory.NodeRemoved:
		case inventory.NodeAdded, inventory.NodeChanged:
			e.grown = true
		case inventory.Freed:
			e.grown = e.grown || c.IncludesShared
			e.freed[c.Node] = struct{}{}
		}
	})
}

// RoomFreed is to be called when room has become free that no pod in the cluster held: assignments, claims, reservations.
func (d *Driver) RoomFreed() { d.happened.add(func(e *news) { e.anywhere = true }) }
