package eviction

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/flowcontrol"
	"github.com/flux-k8s/fluence/pkg/preemption"
	"github.com/flux-k8s/fluence/pkg/signal"
)

const (
	// minInFlight and maxInFlight bound the requests that are in flight. It begins with few, and each success allows one
	// more: a busy API server answers all of many requests late, and the first pod would begin to end as late as they.
	minInFlight, maxInFlight = 2, 16
	// stuckAfter is after which time without an answer one more request may be in flight: others do not wait for those
	// that get no answer.
	stuckAfter = time.Second
	// callTimeout is the deadline of one request, and of the two for a pod.
	callTimeout = 10 * time.Second
	// minBackoff and maxBackoff bound the time after which a request for a victim is tried again.
	minBackoff, maxBackoff = 200 * time.Millisecond, 10 * time.Second
	// maxBindWait is for how long binds go before the first request of a plan.
	maxBindWait = 2 * time.Second
	// idleCheckInterval is how often it is checked whether binds still go first.
	idleCheckInterval = 50 * time.Millisecond
	// leadingCheckInterval is how often a standby checks whether it leads.
	leadingCheckInterval = time.Second
	// doubtFor is for how long a deletion without an answer may still take effect. A mark is not taken
	// back before.
	doubtFor = 15 * time.Second
	// maxSuspendWait is for how long the pods of an owner may go on after it was suspended. Then they are deleted:
	// controllers end them within seconds, and who has not by then may be down, or may not obey at all.
	maxSuspendWait = 30 * time.Second
)

// isMarked reports whether the marks of all victims are written that have one before the first pod is touched.
func (p *plan) isMarked() bool {
	return !slices.ContainsFunc(p.victims, func(v *victim) bool { return v.State == Planned && !v.isLone() })
}

// isLone reports whether the victim is a single pod that is deleted. It cannot be evicted in part, so it is marked with
// its deletion: marks before that would cost as much time as the deletions.
func (v *victim) isLone() bool { return v.Kind == preemption.Pod && v.mark.Suspends == "" }

// mayEnd reports whether its mark lets its pods end, and none has begun to.
func (v *victim) mayEnd() bool { return v.State == Marked || v.State == Planned && v.isLone() }

// A call is a request that is due.
type call struct {
	plan   *plan
	victim *victim
	send   func(context.Context) error
	// done is called with mu held if the request has succeeded.
	done func()
	// ends is the pod that the request ends. It is empty if it ends none. touches is true if it ends pods.
	ends    types.UID
	touches bool
	// suspends is true if it suspends the owner. mayMark is true if it is the first that may write the mark.
	suspends, mayMark bool
}

// A deletionError says that a pod was marked, and that its deletion has failed.
type deletionError struct{ error }

func (e deletionError) Unwrap() error { return e.error }

// errBegun says that a mark cannot be taken back, because the owner is suspended already.
var errBegun = errors.New("the owner is suspended already")

// Run carries out the plans until ctx ends.
func (e *Evictor) Run(ctx context.Context) {
	var calls sync.WaitGroup
	defer calls.Wait()
	for {
		again := e.Now().Add(leadingCheckInterval)
		for e.Leading() {
			e.observe()
			c, next, ok := e.next()
			if again = next; !ok {
				break
			}
			calls.Go(func() {
				callCtx, cancel := context.WithTimeout(ctx, callTimeout)
				defer cancel()
				e.answered(ctx, c, c.send(callCtx))
				signal.Send(e.wakeup)
			})
		}
		e.observe()
		if !signal.Wait(ctx, e.wakeup, again) {
			return
		}
	}
}

// observe reports the changes since its last call.
func (e *Evictor) observe() {
	e.mu.Lock()
	changes := e.changes
	e.changes = nil
	e.mu.Unlock()
	for _, c := range changes {
		e.Observe(c)
	}
}

// next returns the first request that is due, and counts it as in flight. Otherwise it returns when to ask again;
// zero means after the next signal.
func (e *Evictor) next() (c call, again time.Time, ok bool) {
	idle := e.bindsIdle()
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.Now()
	e.order = slices.DeleteFunc(e.order, func(p *plan) bool {
		return p.canceled && !slices.ContainsFunc(p.victims, func(v *victim) bool { return !v.settled })
	})
	later := func(t time.Time) {
		if again.IsZero() || t.Before(again) {
			again = t
		}
	}
	switch {
	case e.inFlight >= maxInFlight:
		return c, again, false // each answer is a signal
	case now.Before(e.pausedUntil):
		return c, e.pausedUntil, false
	case e.inFlight < e.mayFly:
	case now.Before(e.movedAt.Add(stuckAfter)):
		return c, e.movedAt.Add(stuckAfter), false
	default:
		e.mayFly = e.inFlight + 1
	}
	for _, p := range e.order {
		// It is asked once, because a plan may have thousands of victims.
		marked := p.isMarked()
		for _, v := range p.victims {
			if v.settled {
				continue
			}
			was := v.State
			c, ok := e.nextOf(p, v, marked, now)
			if !marked && v.State != was && p.isMarked() {
				// The last victim without a mark has gone. The victims before it may be touched now too.
				marked = true
				signal.Send(e.wakeup)
			}
			switch {
			case !ok:
				if d := v.doubtUntil; p.canceled && d.After(now) {
					later(d)
				}
				if v.deleteAt.After(now) {
					later(v.deleteAt)
				}
			case now.Before(v.retryAt):
				later(v.retryAt)
			case now.Before(p.mayGoAt) && !idle:
				later(now.Add(idleCheckInterval))
			default:
				e.inFlight++
				e.movedAt = now
				v.inFlight++
				c.mayMark = !v.markSent
				v.markSent = true
				v.sent[c.ends] = true
				return c, again, true
			}
		}
	}
	if e.inFlight == 0 {
		e.mayFly = minInFlight
	}
	return c, again, false
}

// bindsIdle reports whether no binds wait.
func (e *Evictor) bindsIdle() bool {
	select {
	case <-e.MayGo():
		return true
	default:
		return false
	}
}

// nextOf returns the next request for a victim. It records if the pods of the victim have gone. marked is isMarked of the
// plan.
func (e *Evictor) nextOf(p *plan, v *victim, marked bool, now time.Time) (c call, ok bool) {
	c = call{plan: p, victim: v}
	// The pods are many, and what is asked for here does not change while requests are in flight.
	ending, gone := v.begun, false
	if v.inFlight == 0 || !v.begun {
		ending, gone = e.pods(p, v)
	}
	switch {
	case gone && v.State != Gone && v.State != TakenBack && v.inFlight == 0:
		v.settled = !v.markSent || v.Kind == preemption.Pod
		e.set(p, v, Gone)
	case ending && v.mayEnd() && v.inFlight == 0:
		v.deleteAt = now
		e.begin(p, v)
	}
	mayTakeBack := p.canceled && !v.begun && !ending && v.State != Gone
	if mayTakeBack {
		if v.State == Planned && !v.markSent {
			v.settled = true
			e.set(p, v, TakenBack)
			return c, false
		}
		if v.inFlight > 0 || now.Before(v.doubtUntil) {
			return c, false
		}
		c.send = func(ctx context.Context) error { return e.takeBack(ctx, p, v) }
		c.done = func() { v.settled = true; e.set(p, v, TakenBack) }
		return c, true
	}
	switch {
	case v.settled:
	case v.State == Planned && !v.isLone() && v.inFlight == 0:
		c.send = func(ctx context.Context) error { return e.API.Mark(ctx, v.Victim, v.mark) }
		c.done = func() { e.set(p, v, Marked) }
		return c, true
	case v.State == Gone && v.inFlight == 0:
		c.send = func(ctx context.Context) error { return e.API.Close(ctx, v.Victim, v.mark) }
		c.done = func() { v.settled = true }
		return c, true
	case v.State != Ending && !v.mayEnd(), !v.begun && !marked:
	case v.Suspend.UID != "" && !v.begun && v.inFlight == 0:
		c.touches, c.suspends = true, true
		c.send = func(ctx context.Context) error { return e.API.Suspend(ctx, v.Victim, v.mark) }
		c.done = func() { e.begin(p, v) }
		return c, true
	case v.mark.Suspends == "" || v.begun && !now.Before(v.deleteAt):
		for ; v.handled < len(v.Pods); v.handled++ {
			pod := v.Pods[v.handled]
			if v.sent[pod.UID] || e.isEnding(v.Namespace, pod) {
				continue // an earlier request has deleted it, or somebody else
			}
			c.ends, c.touches = pod.UID, true
			c.send = func(ctx context.Context) error {
				if err := e.API.MarkPod(ctx, v.Victim, pod, v.mark); err != nil {
					return err
				}
				if err := e.API.Delete(ctx, v.Namespace, pod); err != nil {
					return deletionError{err}
				}
				return nil
			}
			c.done = func() { e.begin(p, v) }
			return c, true
		}
		if v.inFlight == 0 {
			v.Problem = "" // nothing is tried again
		}
	}
	return c, false
}

// pods reports whether a pod of the victim is being deleted or has gone, and whether all have gone. A pod
// that has ended has gone: it holds no room. That a pod ends says nothing of the suspension of its owner, unless it
// was deleted because the suspension has not ended it.
func (e *Evictor) pods(p *plan, v *victim) (ending, gone bool) {
	gone = true
	for _, known := range v.Pods {
		if v.begun && !gone {
			return true, false // nothing depends on the others
		}
		pod := e.PodOf(v.Namespace, known.Name)
		if pod == nil || pod.UID != known.UID {
			ending = ending || v.mark.Suspends == ""
			continue
		}
		ending = ending || pod.DeletionTimestamp != nil && (v.mark.Suspends == "" || markedFor(pod) == p.preemptor.UID)
		gone = gone && hasEnded(pod)
	}
	return ending, gone
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// isEnding reports whether a pod is being deleted, or has ended or gone. An earlier process may have deleted it, or a request
// of this one without an answer. It is not deleted twice.
func (e *Evictor) isEnding(namespace string, known preemption.VictimPod) bool {
	pod := e.PodOf(namespace, known.Name)
	return pod == nil || pod.UID != known.UID || pod.DeletionTimestamp != nil || hasEnded(pod)
}

// takeBack removes the mark of a victim that was not touched, and what was written onto its pods. The
// answer to a suspension may be lost, so the owner is read before.
func (e *Evictor) takeBack(ctx context.Context, p *plan, v *victim) error {
	if v.mark.Suspends != "" {
		by, err := e.API.SuspendedBy(ctx, v.Victim)
		if err != nil {
			return err
		}
		if by == p.preemptor.UID {
			return errBegun
		}
	}
	if v.Kind != preemption.Pod {
		for _, pod := range v.Pods {
			known := e.PodOf(v.Namespace, pod.Name)
			if known != nil && known.UID == pod.UID && (v.sent[pod.UID] || markedFor(known) != "") {
				if err := e.API.TakeBackPod(ctx, v.Namespace, pod); err != nil {
					return err
				}
			}
		}
	}
	return e.API.TakeBack(ctx, v.Victim)
}

// begin records that the pods of a victim begin to end. The caller holds mu.
func (e *Evictor) begin(p *plan, v *victim) {
	v.begun = true
	if v.mark.Suspends != "" && v.deleteAt.IsZero() {
		v.deleteAt = e.Now().Add(maxSuspendWait)
	}
	if v.mayEnd() {
		v.Since = e.Now()
		e.set(p, v, Ending)
	}
}

// set sets the state of a victim. The caller holds mu.
func (e *Evictor) set(p *plan, v *victim, s State) {
	v.State = s
	e.changes = append(e.changes, Change{For: p.preemptor, Victim: v.Progress, Resumed: p.resumed})
}

// answered records the answer to a request.
func (e *Evictor) answered(ctx context.Context, c call, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	v, now := c.victim, e.Now()
	e.inFlight--
	e.movedAt = now
	v.inFlight--
	if err == nil {
		if !now.Before(e.pausedUntil) { // what was sent before the API server was too busy says nothing
			e.mayFly = min(e.mayFly+1, maxInFlight)
		}
		v.attempts, v.Problem, v.retryAt = 0, "", time.Time{}
		v.refusals, v.Refused = 0, false
		c.done()
		return
	}
	if errors.Is(err, errBegun) {
		e.begin(c.plan, v)
		return
	}
	delete(v.sent, c.ends)
	v.handled = 0
	v.Problem = err.Error()
	if !now.Before(v.retryAt) { // others that were sent at the same time count once
		v.retryAt = now.Add(min(maxBackoff, minBackoff<<min(v.attempts, 10)))
		v.attempts++
	}
	after, busy := flowcontrol.RetryAfter(err)
	e.Failed(busy)
	if busy {
		e.pausedUntil, e.mayFly = now.Add(after), minInFlight
	}
	klog.FromContext(ctx).V(2).Info("A request for an eviction has failed; it is tried again", "victim", klog.KRef(v.Namespace, v.Name), "kind", v.Kind, "err", err, "at", v.retryAt)
	if isRefusal(err) {
		e.refuse(ctx, c, err)
		return
	}
	v.refusals = 0
	if c.touches && !busy {
		v.doubtUntil = now.Add(doubtFor)
	}
}
