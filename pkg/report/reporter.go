package report

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/fairqueue"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/signal"
	"github.com/flux-k8s/fluence/pkg/translate"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// A Store holds PodGroups.
type Store interface {
	// Get returns a PodGroup as last seen, or nil.
	Get(types.NamespacedName) *scheduling.PodGroup
	// Apply writes the scheduler's conditions of this very object. Those of it that are not among
	// them go.
	Apply(context.Context, *scheduling.PodGroup, ...metav1.Condition) error
}

// Config is what a Reporter is made of. All of it is to be set.
type Config struct {
	Store    Store
	Recorder events.EventRecorder
	// Leading says whether this scheduler is the one that decides: a standby sees
	// the same groups and must not speak of them.
	Leading func() bool
	// Exclusive says of a group that runs what is told of its nodes: that they are its own, which
	// annotation asked for that in vain, and in which life of the group.
	Exclusive func(types.NamespacedName) (whole bool, inVain string, life uint64)
	// BindsIdle returns a channel that is closed while there is nothing that goes before conditions.
	BindsIdle func() <-chan struct{}
	// Failed is told of each write that failed.
	Failed func()
}

// A Reporter writes what becomes of groups onto their PodGroups: a condition,
// and an event when the reason changes. It writes from goroutines of its own,
// the latest news only, and nothing that is there already.
type Reporter struct {
	Config
	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]
	// noConditions says that the CRD of PodGroup was found to have no conditions.
	noConditions atomic.Bool
	// writing counts the workers that are at it.
	writing atomic.Int32

	mu    sync.Mutex
	items map[types.NamespacedName]*groupState

	// ledMu is apart: to ask whether this scheduler leads reads all metrics.
	ledMu   sync.Mutex
	led     bool
	askedAt time.Time
}

// An item is what is known of one group; a successor of the same name has
// another.
type groupState struct {
	GroupStatus
	// pendingSince is since when there is news to write.
	pendingSince time.Time
	// pod is where the news goes while there is no PodGroup.
	pod *corev1.Pod
	// written is the news that was written last, at the time writtenAt, and since when
	// the condition has had that status.
	written   GroupStatus
	writtenAt time.Time
	since     metav1.Time
	// again counts the writes since then that only had other numbers.
	again int
	// onPod says that it was told on the pod.
	onPod bool
}

// StandbyCheck is how often a standby looks whether it has come to lead.
const StandbyCheck = time.Second

// Times between two writes of a condition for other numbers alone: the first, and
// the longest that it grows to while the reason stays. Many groups may wait.
const (
	numbersAfter = 5 * time.Second
	numbersEvery = 20 * time.Second
)

// NewReporter returns a Reporter that knows nothing of any group yet.
func NewReporter(c Config) *Reporter {
	return &Reporter{
		Config: c,
		queue: fairqueue.New("",
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](100*time.Millisecond, 30*time.Second),
			func(k types.NamespacedName) string { return k.Namespace }),
		items: map[types.NamespacedName]*groupState{},
	}
}

// Report takes note of the latest news of a group. While there is no PodGroup it
// goes to pod, if that is not nil.
func (r *Reporter) Report(k types.NamespacedName, n GroupStatus, pod *corev1.Pod) {
	if n.exclusive, n.lateAnnotation, n.incarnation = r.Exclusive(k); !n.hasWholeNodesCondition() {
		n.incarnation = 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n.Message = translate.Shorten(n.Message)
	it := r.items[k]
	if it == nil {
		it = &groupState{}
		r.items[k] = it
	}
	if it.GroupStatus == n {
		return
	}
	if it.written == it.GroupStatus {
		it.pendingSince = time.Now()
	}
	it.GroupStatus = n
	if pod != nil {
		it.pod = pod
	}
	r.queue.Add(k)
}

// Latest returns the latest news of a group, whether or not it was written.
func (r *Reporter) Latest(k types.NamespacedName) (GroupStatus, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	it, ok := r.items[k]
	if !ok {
		return GroupStatus{}, false
	}
	return it.GroupStatus, true
}

// Forget drops what is known of a group that is gone.
func (r *Reporter) Forget(k types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.items, k)
}

// ObservePodGroup tells again what was told on a pod, now that there is a PodGroup.
func (r *Reporter) ObservePodGroup(k types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if it, ok := r.items[k]; ok && it.onPod {
		r.items[k] = &groupState{GroupStatus: it.GroupStatus, pod: it.pod}
		r.queue.Add(k)
	}
}

const (
	// reportWorkers write at the same time.
	reportWorkers = 4
	// reportWithin is how old news get at most while binds go before them.
	reportWithin = 2 * time.Second
)

// IsBusy says that news wait to be written, or are being written.
func (r *Reporter) IsBusy() bool { return r.queue.Len() > 0 || r.writing.Load() > 0 }

// Stop has Run end. It may be called before that.
func (r *Reporter) Stop() { r.queue.ShutDown() }

// Run writes until Stop is called.
func (r *Reporter) Run(ctx context.Context) {
	var workers sync.WaitGroup
	for range reportWorkers {
		workers.Go(func() { r.work(ctx) })
	}
	workers.Wait()
}

// waitForBinds waits until no bind waits, or until news have become old enough to go first.
func (r *Reporter) waitForBinds(ctx context.Context, k types.NamespacedName) {
	r.mu.Lock()
	it := r.items[k]
	if it == nil || it.written == it.GroupStatus {
		r.mu.Unlock()
		return
	}
	old := it.pendingSince.Add(reportWithin)
	r.mu.Unlock()
	signal.Wait(ctx, r.BindsIdle(), old)
}

func (r *Reporter) work(ctx context.Context) {
	for {
		k, shutdown := r.queue.Get()
		if shutdown {
			return
		}
		r.writing.Add(1)
		r.waitForBinds(ctx, k)
		if err := r.write(ctx, k); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Report on a group", "group", k)
			r.Failed()
			r.queue.AddRateLimited(k)
		} else {
			r.queue.Forget(k)
		}
		r.writing.Add(-1)
		r.queue.Done(k)
	}
}

func (r *Reporter) write(ctx context.Context, k types.NamespacedName) error {
	r.mu.Lock()
	own := r.items[k]
	var it groupState
	if own != nil {
		it = *own
	}
	r.mu.Unlock()
	if it.written == it.GroupStatus {
		return nil
	}
	if !r.Leads() {
		r.queue.AddAfter(k, StandbyCheck)
		return nil
	}
	pg := r.Store.Get(k)
	switch {
	case pg == nil:
		if it.pod != nil && it.written.Reason != it.Reason {
			r.event(it.pod, it.GroupStatus)
		}
		it.onPod = true
		r.markWritten(own, it, metav1.Now())
		if r.Store.Get(k) != nil {
			// It came meanwhile.
			r.ObservePodGroup(k)
		}
		return nil
	case it.Reason == reason.NoPodGroup:
		// It came to be meanwhile.
		r.drop(k, own)
		return nil
	}
	err := r.writeCondition(ctx, k, pg, own, it)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		// It is gone, or another has its name: the informer will tell.
		r.drop(k, own)
		return nil
	}
	return err
}

// writeCondition writes the news onto the PodGroup, where they are news.
func (r *Reporter) writeCondition(ctx context.Context, k types.NamespacedName, pg *scheduling.PodGroup, own *groupState, it groupState) error {
	before, since := it.written, it.since
	if old := meta.FindStatusCondition(pg.Status.Conditions, ConditionScheduled); old != nil && it.writtenAt.IsZero() {
		// Written by a scheduler before this one.
		before, since = groupStatusOf(pg, old), old.LastTransitionTime
	}
	if before == it.GroupStatus {
		r.markWritten(own, it, since)
		return nil
	}
	again := 0
	if before.Reason == it.Reason && before.exclusive == it.exclusive && before.lateAnnotation == it.lateAnnotation && before.incarnation == it.incarnation && !it.writtenAt.IsZero() {
		wait := min(numbersEvery, numbersAfter<<min(it.again, 10))
		if left := wait - time.Since(it.writtenAt); left > 0 {
			r.queue.AddAfter(k, left)
			return nil
		}
		again = it.again + 1
	}
	if before.Status != it.Status {
		since = metav1.Now()
	}
	conditions := []metav1.Condition{{
		Type:               ConditionScheduled,
		Status:             it.Status,
		Reason:             it.Reason,
		Message:            it.Message,
		ObservedGeneration: pg.Generation,
		LastTransitionTime: since,
	}}
	if whole := it.wholeCondition(pg, before.incarnation); whole.Type != "" {
		conditions = append(conditions, whole)
	}
	err := r.Store.Apply(ctx, pg, conditions...)
	switch {
	case err == nil:
		r.noConditions.Store(false)
	case !scheduling.LacksField(err):
		return err
	case !r.noConditions.Swap(true):
		klog.FromContext(ctx).Error(err, "The CRD of PodGroup has no conditions, so reasons are told by events alone; apply manifests/crds", "crd", scheduling.CRDName)
	}
	if before.Status != it.Status || before.Reason != it.Reason {
		r.event(Reference(pg), it.GroupStatus)
	}
	it.again = again
	r.markWritten(own, it, since)
	return nil
}

// Leads asks whether this scheduler leads, no more often than a standby has to.
func (r *Reporter) Leads() bool {
	r.ledMu.Lock()
	defer r.ledMu.Unlock()
	if now := time.Now(); now.Sub(r.askedAt) >= StandbyCheck {
		r.led, r.askedAt = r.Leading(), now
	}
	return r.led
}

// markWritten takes note that an item's news was written.
func (r *Reporter) markWritten(own *groupState, told groupState, since metav1.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	own.written, own.writtenAt, own.since, own.onPod, own.again = told.GroupStatus, time.Now(), since, told.onPod, told.again
}

// drop forgets an item, unless a successor has taken its place.
func (r *Reporter) drop(k types.NamespacedName, own *groupState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.items[k] == own {
		delete(r.items, k)
	}
}

func (r *Reporter) event(about runtime.Object, n GroupStatus) {
	kind := cmp.Or(map[metav1.ConditionStatus]string{metav1.ConditionTrue: corev1.EventTypeNormal}[n.Status], corev1.EventTypeWarning)
	r.Recorder.Eventf(about, nil, kind, n.Reason, "Scheduling", "%s", n.Message)
}

// RecordEvent records an event about a PodGroup that leaves its condition as it is. It does nothing where
// there is no PodGroup.
func (r *Reporter) RecordEvent(k types.NamespacedName, reason, message string) {
	if pg := r.Store.Get(k); pg != nil {
		r.Recorder.Eventf(Reference(pg), nil, corev1.EventTypeNormal, reason, "Scheduling", "%s", message)
	}
}

// Reference is how an event names a PodGroup.
func Reference(pg *scheduling.PodGroup) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion:      scheduling.GroupVersion.String(),
		Kind:            "PodGroup",
		Namespace:       pg.Namespace,
		Name:            pg.Name,
		UID:             pg.UID,
		ResourceVersion: pg.ResourceVersion,
	}
}
