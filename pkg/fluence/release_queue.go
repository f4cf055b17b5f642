package fluence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/signal"
)

// releaseQueue is the queue of releases to the matcher. add does not
// block. A release is retried until it succeeds. That is safe however
// late it succeeds, because a job ID is used for one match only.
//
// Invariant: the slot of a pod is not released while the scheduler's cache counts the pod
// on the node, which is from Reserve to the end of its binding cycle. Nothing can cancel
// a binding cycle that waits for a volume. If the slot were released before, the matcher
// would give the node to one group after another, and the filters would reject each.
type releaseQueue struct {
	engine match.Engine
	// epoch returns 0 while the graph is being loaded. Releases
	// wait until then, because the load would undo them.
	epoch func() match.Epoch
	// onFreed is called after releases have succeeded.
	onFreed func()

	// seatsOf returns the seats of a group that are to be booked.
	seatsOf func(types.NamespacedName) []match.Job

	// mu guards queue and assumed.
	mu    sync.Mutex
	queue []queuedCall
	// sending is true while the first call of the queue is sent.
	sending bool
	// assumed has the pods, by UID, that the scheduler's cache counts on their nodes before
	// they are bound, with the jobs whose slots are released when their cycle has ended.
	assumed map[string][]match.JobID
	wakeup  chan struct{}
}

// A queuedCall is a release or, if seatsOf is not zero, the booking of the seats that
// this group has when its turn comes. So a seat that was given back is not booked afterwards.
type queuedCall struct {
	gang.Release
	seatsOf types.NamespacedName
}

// releaseTimeout is the deadline of one release, or of the booking of maxSlotsPerCall slots.
const (
	releaseTimeout  = 2 * time.Second
	maxSlotsPerCall = 256
)

func newReleaseQueue(engine match.Engine, epoch func() match.Epoch, freed func()) *releaseQueue {
	return &releaseQueue{engine: engine, epoch: epoch, onFreed: freed, assumed: map[string][]match.JobID{}, wakeup: make(chan struct{}, 1)}
}

// assume records that the scheduler's cache counts a pod on its node from now on.
func (r *releaseQueue) assume(pod types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, is := r.assumed[string(pod)]; !is {
		r.assumed[string(pod)] = nil
	}
}

// endCycle records that the binding cycle of a pod has ended. It queues the pod's releases.
func (r *releaseQueue) endCycle(pod types.UID) {
	key := string(pod)
	r.mu.Lock()
	jobs := r.assumed[key]
	delete(r.assumed, key)
	for _, job := range jobs {
		r.queue = append(r.queue, queuedCall{Release: gang.Release{Job: job, Keys: []string{key}}})
	}
	r.mu.Unlock()
	if len(jobs) > 0 {
		signal.Send(r.wakeup)
	}
}

// add queues releases. The slots of assumed pods are released when their cycles end.
func (r *releaseQueue) add(releases ...gang.Release) {
	if len(releases) == 0 {
		return
	}
	r.mu.Lock()
	for _, release := range releases {
		if len(release.Keys) > 0 {
			release.Keys = slices.DeleteFunc(slices.Clone(release.Keys), func(key string) bool {
				jobs, assumed := r.assumed[key]
				if assumed {
					r.assumed[key] = append(jobs, release.Job)
				}
				return assumed
			})
			if len(release.Keys) == 0 {
				continue
			}
		}
		r.queue = append(r.queue, queuedCall{Release: release})
	}
	r.mu.Unlock()
	signal.Send(r.wakeup)
}

// book queues the booking of the seats of groups.
func (r *releaseQueue) book(groups ...types.NamespacedName) {
	if len(groups) == 0 {
		return
	}
	r.mu.Lock()
	waiting := r.queue
	if r.sending {
		waiting = waiting[1:] // the first call may lack the latest seats
	}
	for _, key := range groups {
		if !slices.ContainsFunc(waiting, func(q queuedCall) bool { return q.seatsOf == key }) {
			r.queue = append(r.queue, queuedCall{seatsOf: key})
		}
	}
	r.mu.Unlock()
	signal.Send(r.wakeup)
}

// call sends a queued call.
func (r *releaseQueue) call(ctx context.Context, epoch match.Epoch, c queuedCall) error {
	if c.seatsOf == (types.NamespacedName{}) {
		return r.releaseNow(ctx, epoch, c.Release)
	}
	for _, job := range r.seatsOf(c.seatsOf) {
		for slots := range slices.Chunk(job.Slots, maxSlotsPerCall) {
			if err := r.bookNow(ctx, epoch, match.Job{ID: job.ID, Slots: slots}); err != nil {
				return err
			}
		}
	}
	return nil
}

// releaseNow releases slots without the queue.
func (r *releaseQueue) releaseNow(ctx context.Context, epoch match.Epoch, release gang.Release) error {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	if err := r.engine.Release(ctx, epoch, release.Job, release.Keys...); err != nil {
		return fmt.Errorf("release an allocation: %w", err)
	}
	return nil
}

// bookNow books slots without the queue.
func (r *releaseQueue) bookNow(ctx context.Context, epoch match.Epoch, job match.Job) error {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	if err := r.engine.Update(ctx, epoch, job); err != nil {
		return fmt.Errorf("book seats: %w", err)
	}
	return nil
}

// pending returns the number of releases that the matcher has not confirmed. Those
// that wait for the end of a cycle do not count: they are not late.
func (r *releaseQueue) pending() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.queue)
}

// has reports whether the release of a slot is still pending.
func (r *releaseQueue) has(job match.JobID, key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.assumed[key], job) || slices.ContainsFunc(r.queue, func(q queuedCall) bool {
		return q.Job == job && (len(q.Keys) == 0 || slices.Contains(q.Keys, key))
	})
}

// run releases until ctx ends.
func (r *releaseQueue) run(ctx context.Context) {
	const retry = 200 * time.Millisecond
	for {
		var again time.Time
		if !r.drain(ctx) {
			again = time.Now().Add(retry)
		}
		if !signal.Wait(ctx, r.wakeup, again) {
			return
		}
	}
}

func (r *releaseQueue) setSending(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sending = on
}

// drain sends the queued releases. It returns false if a release has to be retried.
func (r *releaseQueue) drain(ctx context.Context) bool {
	done := false
	defer func() {
		if done {
			r.onFreed()
		}
	}()
	for {
		r.mu.Lock()
		if len(r.queue) == 0 {
			r.mu.Unlock()
			return true
		}
		next := r.queue[0]
		r.mu.Unlock()

		epoch := r.epoch()
		if epoch == 0 {
			return false
		}
		r.setSending(true)
		err := r.call(ctx, epoch, next)
		r.setSending(false)
		switch {
		case err == nil:
			done = true
		case errors.Is(err, match.ErrInvalid):
			klog.FromContext(ctx).Error(err, "Failed to release an allocation or to book seats: the matcher rejects it; it is not retried", "job", next.Job, "slots", len(next.Keys), "group", next.seatsOf)
		default:
			return false
		}
		r.mu.Lock()
		r.queue = r.queue[1:]
		r.mu.Unlock()
	}
}
