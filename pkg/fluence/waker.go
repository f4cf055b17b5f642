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
type waker struct {
	// wake puts into the queue what is wanted there, and returns when to be called
	// again; zero is only when something is wanted.
	wake func(ctx context.Context, w wanted) (again time.Time)

	mu   sync.Mutex
	want wanted
	more chan struct{}
}

// wanted is what is to be put into the queue.
type wanted struct {
	all    bool
	groups map[types.NamespacedName]bool
	// turns are groups whose turn it is to ask.
	turns []types.NamespacedName
	pods  map[string]*corev1.Pod
	// lost are pods, by UID, whose seats of this job a scheduling cycle lost.
	lost map[types.UID]match.JobID
}

func newWaker(wake func(context.Context, wanted) time.Time) *waker {
	return &waker{wake: wake, more: make(chan struct{}, 1), want: newWanted()}
}

func newWanted() wanted {
	return wanted{groups: map[types.NamespacedName]bool{}, pods: map[string]*corev1.Pod{}, lost: map[types.UID]match.JobID{}}
}

// all wakes every group that may ask.
func (w *waker) all() { w.add(func(want *wanted) { want.all = true }) }

// due wakes the groups whose refusals have run out.
func (w *waker) due() { w.add(func(*wanted) {}) }

// one wakes a group, if it may ask.
func (w *waker) one(keys ...types.NamespacedName) {
	w.add(func(want *wanted) {
		for _, k := range keys {
			want.groups[k] = true
		}
	})
}

// turn wakes groups whose turn it is to ask.
func (w *waker) turn(keys ...types.NamespacedName) {
	w.add(func(want *wanted) { want.turns = append(want.turns, keys...) })
}

// pods wakes pods that have a seat.
func (w *waker) pods(pods []*corev1.Pod) {
	w.add(func(want *wanted) {
		for _, p := range pods {
			want.pods[string(p.UID)] = p
		}
	})
}

// lost gives back the seat that a pod has of a job.
func (w *waker) lost(uid types.UID, job match.JobID) {
	w.add(func(want *wanted) { want.lost[uid] = job })
}

func (w *waker) add(change func(*wanted)) {
	w.mu.Lock()
	change(&w.want)
	w.mu.Unlock()
	signal.Send(w.more)
}

// run wakes until ctx ends.
func (w *waker) run(ctx context.Context) {
	for {
		w.mu.Lock()
		want := w.want
		w.want = newWanted()
		w.mu.Unlock()
		if !signal.Wait(ctx, w.more, w.wake(ctx, want)) {
			return
		}
	}
}

// wake puts into the queue what is wanted there, and those whose refusals have
// run out. It returns when the next one does.
func (pl *Fluence) wake(ctx context.Context, w wanted) time.Time {
	now := pl.now()
	for uid, job := range w.lost {
		pl.apply(ctx, pl.groups.Abandon(uid, job, now))
	}
	due, again := pl.groups.Due(now)
	pods := w.pods
	var ready []*corev1.Pod
	if w.all {
		ready = append(pl.groups.Admissible(now), pl.groups.Unclaimed()...)
	} else {
		ready = pl.groups.AdmissibleOf(slices.AppendSeq(append(due, w.turns...), maps.Keys(w.groups)), now)
	}
	for _, key := range w.turns {
		if !pl.groups.MayAsk(key, now) {
			pl.asked(key)
		}
	}
	// Who replaces what a started group lacks stands in the queue before the first of
	// the others can be taken from it.
	urgent := map[string]*corev1.Pod{}
	for _, p := range ready {
		switch m, _ := pl.groups.GroupOf(p.UID); {
		case m.Replaces:
			urgent[string(p.UID)] = p
		case !pl.binds.Waits(m.Key):
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
