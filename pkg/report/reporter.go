package report

import (
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
	"github.com/flux-k8s/fluence/pkg/nativegroup"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/signal"
	"github.com/flux-k8s/fluence/pkg/translate"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// A Store holds PodGroups.
type Store interface {
	// Get returns the cached PodGroup, or nil.
	Get(types.NamespacedName) *scheduling.PodGroup
	// Apply writes the conditions that the scheduler owns onto this very object. It
	// removes those conditions of the scheduler that are not passed.
	Apply(context.Context, *scheduling.PodGroup, ...metav1.Condition) error
}

// Config is what a Reporter needs. All fields must be set.
type Config struct {
	Store    Store
	Recorder events.EventRecorder
	// Leading reports whether this scheduler leads. A standby sees the same groups
	// and must not report on them.
	Leading func() bool
	// Exclusive returns, for a started group, whether the group has its
	// nodes to itself, which annotation asked for whole nodes too late,
	// and a number that distinguishes the incarnations of the group.
	Exclusive func(types.NamespacedName) (whole bool, lateAnnotation string, incarnation uint64)
	// BindsIdle returns a channel that is closed once the bind queue is idle.
	// Conditions wait for that, for at most maxBindWait.
	BindsIdle func() <-chan struct{}
	// Failed is called for each write that failed.
	Failed func()
}

// A Reporter writes what becomes of groups onto their PodGroups: conditions, and an
// event when the status or the reason changes. It writes in the background. It writes
// only the latest status of a group, and only if the PodGroup does not have it already.
//
// It sends no event that repeats a condition of a group that starts as it should. A passing reason
// (see Passing of package reason) becomes an event only if it lasts for passingTime. A placement
// becomes an event only if another event came before it.
type Reporter struct {
	Config
	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]
	// noConditions says that the last write found that the CRD of PodGroup has no conditions.
	noConditions atomic.Bool
	// writing counts the workers that write, or wait for binds.
	writing atomic.Int32
	numbers numbersLimits

	mu    sync.Mutex
	items map[types.NamespacedName]*groupState

	// ledMu guards led and askedAt. It is separate from mu because Leading is slow:
	// it reads all metrics.
	ledMu   sync.Mutex
	led     bool
	askedAt time.Time
}

// groupState is what the Reporter knows of one group. A new group of the same name
// gets a new groupState.
type groupState struct {
	GroupStatus
	// pendingSince is since when there is a status to write.
	pendingSince time.Time
	// pod gets the events while there is no PodGroup.
	pod *corev1.Pod
	// written is the status that was written last.
	written GroupStatus
	// writtenAt is when it was written.
	writtenAt time.Time
	// since is when the status of its condition last changed.
	since metav1.Time
	// messageOnlyWrites counts the writes in a row that changed only the message.
	messageOnlyWrites int
	// notBefore is until when a write that changes only numbers was put off, because there are too many. It is
	// zero if it was not.
	notBefore time.Time
	// eventSent says that an event other than Placed was sent since the group was last placed.
	eventSent bool
	// eventAt is when the event of a passing reason is due. It is zero if there is none.
	eventAt time.Time
	// onPod says that written was reported on the pod, because there was no PodGroup.
	onPod bool
}

// LeadingCheckInterval is how often a standby checks whether it leads.
const LeadingCheckInterval = time.Second

// A write that changes only the message comes minMessageInterval after the one before. This
// time doubles with each such write, up to maxMessageInterval, because many groups may wait.
const (
	minMessageInterval = 5 * time.Second
	maxMessageInterval = 20 * time.Second
)

// passingTime is how long a passing reason lasts before it becomes an event.
const passingTime = 45 * time.Second

// messageInterval returns the time between two writes that change
// only the message, after this many such writes in a row.
func messageInterval(inARow int) time.Duration {
	return min(maxMessageInterval, minMessageInterval<<min(inARow, 10))
}

// NewReporter returns a Reporter without groups.
func NewReporter(c Config) *Reporter {
	return &Reporter{
		Config: c,
		queue: fairqueue.New("",
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](100*time.Millisecond, 30*time.Second),
			func(k types.NamespacedName) string { return k.Namespace }),
		items: map[types.NamespacedName]*groupState{},
	}
}

// Report queues the latest status of a group to be written. While there is no
// PodGroup, the status becomes an event of pod, if pod is not nil.
func (r *Reporter) Report(k types.NamespacedName, n GroupStatus, pod *corev1.Pod) {
	n.exclusive, n.lateAnnotation, n.incarnation = r.Exclusive(k)
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

// Latest returns the latest status of a group, written or not. It returns false for
// an unknown group.
func (r *Reporter) Latest(k types.NamespacedName) (GroupStatus, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	it, ok := r.items[k]
	if !ok {
		return GroupStatus{}, false
	}
	return it.GroupStatus, true
}

// Forget drops a group that is gone.
func (r *Reporter) Forget(k types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.items, k)
}

// ObservePodGroup records that a group has a PodGroup now. If its status was reported
// on a pod, the status is written onto the PodGroup.
func (r *Reporter) ObservePodGroup(k types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if it, ok := r.items[k]; ok && it.onPod {
		r.items[k] = &groupState{GroupStatus: it.GroupStatus, pod: it.pod}
		r.queue.Add(k)
	}
}

const (
	// reportWorkers is how many conditions are written at the same time.
	reportWorkers = 4
	// maxBindWait is for how long binds go before a status.
	maxBindWait = 2 * time.Second
)

// IsBusy reports whether statuses wait to be written, or are being written.
func (r *Reporter) IsBusy() bool { return r.queue.Len() > 0 || r.writing.Load() > 0 }

// Stop ends Run. It may be called before Run.
func (r *Reporter) Stop() { r.queue.ShutDown() }

// Run writes until Stop is called.
func (r *Reporter) Run(ctx context.Context) {
	var workers sync.WaitGroup
	for range reportWorkers {
		workers.Go(func() { r.work(ctx) })
	}
	workers.Wait()
}

// waitForBinds waits until the bind queue is idle, or until the status of a group has
// waited for maxBindWait.
func (r *Reporter) waitForBinds(ctx context.Context, k types.NamespacedName) {
	r.mu.Lock()
	it := r.items[k]
	if it == nil || it.written == it.GroupStatus {
		r.mu.Unlock()
		return
	}
	old := it.pendingSince.Add(maxBindWait)
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
			klog.FromContext(ctx).Error(err, "Failed to write the status of a PodGroup", "group", k)
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
	stored := r.items[k]
	var copied groupState
	if stored != nil {
		copied = *stored
	}
	r.mu.Unlock()
	if copied.written == copied.GroupStatus && (copied.eventAt.IsZero() || time.Now().Before(copied.eventAt)) {
		return nil
	}
	if !r.Leads() {
		r.queue.AddAfter(k, LeadingCheckInterval)
		return nil
	}
	pg := r.Store.Get(k)
	switch {
	case copied.written == copied.GroupStatus:
		if pg != nil {
			r.event(Reference(pg), copied.GroupStatus)
		}
		copied.eventSent, copied.eventAt = true, time.Time{}
		r.markWritten(stored, copied, copied.since)
		return nil
	case pg == nil:
		if copied.pod != nil && copied.written.Reason != copied.Reason {
			r.event(copied.pod, copied.GroupStatus)
		}
		copied.onPod = true
		r.markWritten(stored, copied, metav1.Now())
		if r.Store.Get(k) != nil {
			// The PodGroup may have come before onPod was set. Then nothing else writes onto it.
			r.ObservePodGroup(k)
		}
		return nil
	case copied.Reason == reason.NoPodGroup:
		// There is a PodGroup now, so the status is out of date.
		r.drop(k, stored)
		return nil
	}
	err := r.writeCondition(ctx, k, pg, stored, copied)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		// The PodGroup is gone, or another one has its name. The informer will report that.
		r.drop(k, stored)
		return nil
	}
	return err
}

// writeCondition writes the conditions if they differ from what was written before, and an event
// if the status or the reason has changed. It may put off a write that changes only the message.
func (r *Reporter) writeCondition(ctx context.Context, k types.NamespacedName, pg *scheduling.PodGroup, stored *groupState, copied groupState) error {
	before, since := copied.written, copied.since
	if old := meta.FindStatusCondition(pg.Status.Conditions, ConditionScheduled); old != nil && copied.writtenAt.IsZero() {
		// The conditions were written by a scheduler before this one.
		before, since = groupStatusOf(pg, old), old.LastTransitionTime
		copied.eventSent = old.Status != metav1.ConditionTrue && (!reason.PropertiesOf(old.Reason).Passing || time.Since(since.Time) >= passingTime)
	}
	if before == copied.GroupStatus {
		r.markWritten(stored, copied, since)
		return nil
	}
	again := 0
	if before.Reason == copied.Reason && before.exclusive == copied.exclusive && before.lateAnnotation == copied.lateAnnotation && before.incarnation == copied.incarnation && !copied.writtenAt.IsZero() {
		if left := messageInterval(copied.messageOnlyWrites) - time.Since(copied.writtenAt); left > 0 {
			r.putOff(k, pg, stored, copied, left)
			return nil
		}
		if copied.Status != metav1.ConditionTrue && StableText(before.Message) == StableText(copied.Message) {
			if copied.notBefore = r.numbers.next(k.Namespace, copied.notBefore); !copied.notBefore.IsZero() {
				r.putOff(k, pg, stored, copied, time.Until(copied.notBefore))
				return nil
			}
		}
		again = copied.messageOnlyWrites + 1
	}
	placedAgain := copied.Status == metav1.ConditionTrue && before.incarnation != copied.incarnation
	if before.Status != copied.Status || placedAgain {
		since = metav1.Now()
	}
	conditions := []metav1.Condition{{
		Type:               ConditionScheduled,
		Status:             copied.Status,
		Reason:             copied.Reason,
		Message:            copied.Message,
		ObservedGeneration: pg.Generation,
		LastTransitionTime: since,
	}}
	if whole := copied.wholeNodesCondition(pg, before.incarnation); whole.Type != "" {
		conditions = append(conditions, whole)
	}
	err := r.Store.Apply(ctx, pg, conditions...)
	switch {
	case err == nil:
		r.noConditions.Store(false)
	case !scheduling.LacksField(err):
		return err
	case !r.noConditions.Swap(true):
		klog.FromContext(ctx).Error(err, "The CRD of PodGroup has no field status.conditions, so reasons are reported by events only; apply manifests/crds", "crd", scheduling.CRDName)
	}
	if before.Status != copied.Status || before.Reason != copied.Reason {
		r.eventOfChange(pg, &copied)
	}
	copied.messageOnlyWrites = again
	r.markWritten(stored, copied, since)
	if !copied.eventAt.IsZero() {
		// A message that was put off may have used up the wake-up for the event.
		r.queue.AddAfter(k, time.Until(copied.eventAt))
	}
	return nil
}

// putOff puts a write off. An event that is due meanwhile is sent all the same.
func (r *Reporter) putOff(k types.NamespacedName, pg *scheduling.PodGroup, stored *groupState, copied groupState, left time.Duration) {
	if at := copied.eventAt; !at.IsZero() {
		if until := time.Until(at); until > 0 {
			left = min(left, until)
		} else {
			r.event(Reference(pg), copied.GroupStatus)
			copied.eventSent, copied.eventAt = true, time.Time{}
		}
	}
	r.mu.Lock()
	stored.eventSent, stored.eventAt, stored.notBefore = copied.eventSent, copied.eventAt, copied.notBefore
	r.mu.Unlock()
	r.queue.AddAfter(k, left)
}

// eventOfChange sends the event of a status that was just written, unless the condition says enough.
func (r *Reporter) eventOfChange(pg *scheduling.PodGroup, g *groupState) {
	g.eventAt = time.Time{}
	switch placed := g.Status == metav1.ConditionTrue; {
	case g.Reason == reason.Finished || g.Reason == reason.Failed:
		// The controller sends the event of the end.
	case !placed && reason.PropertiesOf(g.Reason).Passing && !r.noConditions.Load():
		g.eventAt = time.Now().Add(passingTime)
	case !placed || g.eventSent || r.noConditions.Load():
		r.event(Reference(pg), g.GroupStatus)
		g.eventSent = !placed
	}
}

// Leads reports whether this scheduler leads. It calls Leading at most every LeadingCheckInterval.
func (r *Reporter) Leads() bool {
	r.ledMu.Lock()
	defer r.ledMu.Unlock()
	if now := time.Now(); now.Sub(r.askedAt) >= LeadingCheckInterval {
		r.led, r.askedAt = r.Leading(), now
	}
	return r.led
}

// markWritten records that the status in copied was written.
func (r *Reporter) markWritten(stored *groupState, copied groupState, since metav1.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	stored.written, stored.writtenAt, stored.since, stored.onPod, stored.messageOnlyWrites = copied.GroupStatus, time.Now(), since, copied.onPod, copied.messageOnlyWrites
	stored.eventSent, stored.eventAt, stored.notBefore = copied.eventSent, copied.eventAt, time.Time{}
}

// drop forgets the state of a group, unless another state has taken its place.
func (r *Reporter) drop(k types.NamespacedName, own *groupState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.items[k] == own {
		delete(r.items, k)
	}
}

func (r *Reporter) event(about runtime.Object, n GroupStatus) {
	kind := corev1.EventTypeWarning
	if n.Status == metav1.ConditionTrue || reason.PropertiesOf(n.Reason).Intended {
		kind = corev1.EventTypeNormal
	}
	r.Recorder.Eventf(about, nil, kind, n.Reason, "Scheduling", "%s", n.Message)
}

// RecordEvent records an event of a PodGroup, and leaves its conditions as they are.
// It does nothing if there is no PodGroup.
func (r *Reporter) RecordEvent(k types.NamespacedName, reason, message string) {
	if pg := r.Store.Get(k); pg != nil {
		r.Recorder.Eventf(Reference(pg), nil, corev1.EventTypeNormal, reason, "Scheduling", "%s", message)
	}
}

// Reference returns the reference to a PodGroup for an event.
func Reference(pg *scheduling.PodGroup) *corev1.ObjectReference {
	apiVersion, name := nativegroup.NameOf(pg)
	return &corev1.ObjectReference{
		APIVersion:      apiVersion,
		Kind:            "PodGroup",
		Namespace:       pg.Namespace,
		Name:            name,
		UID:             pg.UID,
		ResourceVersion: pg.ResourceVersion,
	}
}
