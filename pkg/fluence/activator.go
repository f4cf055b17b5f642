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

// A waker puts pods into the scheduling queue from a goroutine of its own: the
// queue calls PreEnqueue under its lock, so nobody may ask it for anything from
// there, nor with a lock of ours.
type activator struct {
	// activate puts into the queue what is wanted there, and returns when to be called
	// again; zero is only when something is wanted.
	activate func(ctx context.Context, w requests) (again time.Time)

	mu     sync.Mutex
	want   requests
	wakeup chan struct{}
}

// requests is what is to be put into the queue.
type requests struct {
	allGroups bool
	groups    map[types.NamespacedName]bool
	// admitted are groups whose turn it is to ask.
	admitted []types.NamespacedName
	pods     map[string]*corev1.Pod
	// lost are pods, by UID, whose seats of this job a scheduling cycle lost.
	lost map[types.UID]match.JobID
}

func newActivator(wake func(context.Context, requests) time.Time) *activator {
	return &activator{activate: wake, wakeup: make(chan struct{}, 1), want: newRequests()}
}

func newRequests() requests {
	return requests{groups: map[types.NamespacedName]bool{}, pods: map[string]*corev1.Pod{}, lost: map[types.UID]match.JobID{}}
}

// activateAll wakes every group that may ask.
func (w *activator) activateAll() { w.add(func(want *requests) { want.allGroups = true }) }

// activateDue wakes the groups whose refusals have run out.
func (w *activator) activateDue() { w.add(func(*requests) {}) }

// activateGroups wakes a group, if it may ask.
func (w *activator) activateGroups(keys ...types.NamespacedName) {
	w.add(func(want *requests) {
		for _, k := range keys {
			want.groups[k] = true
		}
	})
}

// activateAdmitted wakes groups whose turn it is to ask.
func (w *activator) activateAdmitted(keys ...types.NamespacedName) {
	w.add(func(want *requests) { want.admitted = append(want.admitted, keys...) })
}

// activatePods wakes pods that have a seat.
func (w *activator) activatePods(activatePods []*corev1.Pod) {
	w.add(func(want *requests) {
		for _, p := range activatePods {
			want.pods[string(p.UID)] = p
		}
	})
}

// revokeLost gives back the seat that a pod has of a job.
func (w *activator) revokeLost(uid types.UID, job match.JobID) {
	w.add(func(want *requests) { want.lost[uid] = job })
}

func (w *activator) add(change func(*requests)) {
	w.mu.Lock()
	change(&w.want)
	w.mu.Unlock()
	signal.Send(w.wakeup)
}

// run wakes until ctx ends.
func (w *activator) run(ctx context.Context) {
	for {
		w.mu.Lock()
		want := w.want
		w.want = newRequests()
		w.mu.Unlock()
		if !signal.Wait(ctx, w.wakeup, w.activate(ctx, want)) {
			return
		}
	}
}

// activate puts into the queue what is wanted there, and those whose refusals have
// run out. It returns when the next one does.
func (pl *Fluence) activate(ctx context.Context, w requests) time.Time {
	now := pl.now()
	for uid, job := range w.lost {
		pl.apply(ctx, pl.groups.RevokeLost(uid, job, now))
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
	// Who replaces what a started group lacks stands in the queue before the first of
	// the others can be taken from it.
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
