package fluence

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/signal"
)

// activator activates pods: it puts them into the scheduling queue. Its methods only record
// what to activate, and return at once. Its own goroutine activates the pods, because the queue
// holds its locks (of holdingQueue, and of what it wraps) while it calls PreEnqueue: a call to the
// queue from PreEnqueue, or under a lock that PreEnqueue takes, would deadlock.
//
// The queue calls flush before each Pop, so that a pod that a scheduling cycle has
// requested is in the queue before the next pod is popped. Otherwise the order of
// the queue would depend on which goroutine is the first.
//
// It also revokes abandoned assignments, because PreEnqueue finds them and must not block.
type activator struct {
	// activate activates the requested pods and returns the time of its
	// next call. Zero means that only the next request leads to a call.
	activate func(ctx context.Context, w activationRequests) (again time.Time)

	// activating is held during a call of activate, so that there is one at a time.
	activating sync.Mutex

	mu sync.Mutex
	// want is what was requested since the last call of activate.
	want activationRequests
	// requested says that something was. want is empty after activateDue.
	requested bool
	// wakeup is signalled when something is requested.
	wakeup chan struct{}
}

// activationRequests names the pods and groups to activate, and the assignments to revoke before that.
type activationRequests struct {
	// allGroups requests every group that may be placed.
	allGroups bool
	// groups are requested if they may be placed.
	groups map[types.NamespacedName]bool
	// admitted are groups that the bind queue has admitted: they may
	// be placed now, because few enough pods wait for their binds.
	admitted []types.NamespacedName
	// pods have an assignment. The key is the UID.
	pods map[string]*corev1.Pod
	// abandoned has, by pod UID, the match job of an assignment that is to be revoked,
	// because the scheduling cycle that used the assignment ended without a result.
	abandoned map[types.UID]match.JobID
}

func newActivator(activate func(context.Context, activationRequests) time.Time) *activator {
	return &activator{activate: activate, wakeup: make(chan struct{}, 1), want: newActivationRequests()}
}

func newActivationRequests() activationRequests {
	return activationRequests{groups: map[types.NamespacedName]bool{}, pods: map[string]*corev1.Pod{}, abandoned: map[types.UID]match.JobID{}}
}

// activateAll requests every group that may be placed.
func (w *activator) activateAll() { w.add(func(want *activationRequests) { want.allGroups = true }) }

// activateDue requests the groups whose refusals have run out. It adds
// nothing to want, because activate looks for such groups each time.
func (w *activator) activateDue() { w.add(func(*activationRequests) {}) }

// activateGroups requests groups, if they may be placed.
func (w *activator) activateGroups(keys ...types.NamespacedName) {
	w.add(func(want *activationRequests) {
		for _, k := range keys {
			want.groups[k] = true
		}
	})
}

// activateAdmitted requests groups that the bind queue has admitted.
func (w *activator) activateAdmitted(keys ...types.NamespacedName) {
	w.add(func(want *activationRequests) { want.admitted = append(want.admitted, keys...) })
}

// activatePods requests pods that have an assignment.
func (w *activator) activatePods(pods []*corev1.Pod) {
	w.add(func(want *activationRequests) {
		for _, p := range pods {
			want.pods[string(p.UID)] = p
		}
	})
}

// revokeAbandoned requests that the assignment that a pod has from this match job is revoked.
func (w *activator) revokeAbandoned(uid types.UID, job match.JobID) {
	w.add(func(want *activationRequests) { want.abandoned[uid] = job })
}

func (w *activator) add(change func(*activationRequests)) {
	w.mu.Lock()
	change(&w.want)
	w.requested = true
	w.mu.Unlock()
	signal.Send(w.wakeup)
}

// run activates what is requested until ctx ends.
func (w *activator) run(ctx context.Context) {
	for {
		w.activating.Lock()
		want, _ := w.take()
		again := w.activate(ctx, want)
		w.activating.Unlock()
		if !signal.Wait(ctx, w.wakeup, again) {
			return
		}
	}
}

// flush returns once all that was requested before is activated.
func (w *activator) flush(ctx context.Context) {
	w.activating.Lock()
	defer w.activating.Unlock()
	if want, requested := w.take(); requested {
		// Ignore when to call it again: wakeup is signalled, so run calls it at once.
		w.activate(ctx, want)
	}
}

// take returns what was requested since its last call, and whether anything was.
func (w *activator) take() (want activationRequests, requested bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.requested {
		return newActivationRequests(), false
	}
	want, w.want, w.requested = w.want, newActivationRequests(), false
	return want, true
}

// flushActivations is called before each Pop of the queue.
func (pl *Fluence) flushActivations(ctx context.Context) { pl.activator.flush(ctx) }

// activate activates the requested pods, and the groups whose
// refusals have run out. It returns when the next refusal runs out.
func (pl *Fluence) activate(ctx context.Context, w activationRequests) time.Time {
	now := pl.now()
	for uid, job := range w.abandoned {
		pl.apply(ctx, pl.groups.RevokeAbandoned(uid, job, now))
	}
	due, again := pl.groups.Due(now)
	pods := w.pods
	var ready []*corev1.Pod
	if w.allGroups {
		ready = append(pl.groups.Enqueueable(now), pl.groups.Unclaimed()...)
	} else {
		ready = pl.groups.EnqueueableOf(slices.AppendSeq(append(due, w.admitted...), maps.Keys(w.groups)), now)
	}
	for _, key := range w.admitted {
		if !pl.groups.MayPlace(key, now) {
			pl.endAdmission(key)
		}
	}
	// Pods that replace lost members of a started group come first, so
	// that they are in the queue before any of the other pods is popped.
	urgent := map[string]*corev1.Pod{}
	for _, p := range ready {
		switch m, _ := pl.groups.GroupOf(p.UID); {
		case m.Replaces:
			urgent[string(p.UID)] = p
		case !pl.bindQueue.IsWaiting(m.Key):
			pods[string(p.UID)] = p
		}
	}
	for _, batch := range []map[string]*corev1.Pod{urgent, pods} {
		if len(batch) > 0 {
			pl.handle.Activate(klog.FromContext(ctx), batch)
		}
	}
	return again
}
