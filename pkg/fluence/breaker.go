package fluence

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/placement"
	"github.com/flux-k8s/fluence/pkg/signal"
)

const (
	// pingTimeout is the deadline of one ping.
	pingTimeout = time.Second
	// pingEvery is the time between two pings of a matcher that does not
	// answer. Groups go on at most that long after the matcher has come back.
	pingEvery = 200 * time.Millisecond
)

// whyListing is why pods are held until all PodGroups and owners have been listed.
const whyListing = "the scheduler is still listing PodGroups and the owners of pods"

// breaker is a circuit breaker: it keeps scheduling cycles away from a
// matcher that does not answer. It starts open. A failed call, an unanswered
// ping or the loss of the graph opens it, and an answered ping closes it.
type breaker struct {
	// ping calls the matcher once.
	ping func(context.Context) error
	// onClose is called each time the breaker has closed.
	onClose func()
	// onOutage, if set, is called when the matcher is found not to answer.
	onOutage func()

	// mu guards the fields below.
	mu sync.Mutex
	// why is why the breaker is open; "" means that it is closed.
	why string
	// pingRequested is signalled when the matcher is to be pinged.
	pingRequested chan struct{}
	// confirmedPings counts the answered pings that requestPing asked for, or that closed the breaker.
	confirmedPings uint64
	// silence is how long pings have gone unanswered, without an answer in between.
	silence time.Duration
	// lastPing is when the last unanswered ping ended.
	lastPing time.Time
}

func newBreaker(ping func(context.Context) error, onClose func()) *breaker {
	b := &breaker{ping: ping, onClose: onClose, pingRequested: make(chan struct{}, 1)}
	b.trip(placement.WhyUnavailable)
	return b
}

// state reports whether the breaker is open, and why.
func (b *breaker) state() (open bool, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.why != "", b.why
}

// confirmedPingCount returns how many pings were answered that
// requestPing asked for, or that closed the breaker.
func (b *breaker) confirmedPingCount() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.confirmedPings
}

// silentFor returns how long the matcher has not answered any ping.
// It returns 0 if the matcher answered the last one. An error answer,
// such as that the matcher is still loading, counts as an answer.
func (b *breaker) silentFor() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.silence
}

// observePing records the result of a ping. Each ping adds at most pingTimeout+pingEvery to
// silence, so that time in which this process was suspended and sent no pings does not count.
func (b *breaker) observePing(began time.Time, err error) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !isSilence(err) {
		b.silence, b.lastPing = 0, time.Time{}
		if err != nil && b.why == placement.WhyUnavailable {
			b.why = placement.WhyBusy
		}
		return
	}
	if b.why != "" {
		b.why = placement.WhyUnavailable
	}
	since := b.lastPing
	if since.IsZero() {
		since = began
	}
	b.silence += min(now.Sub(since), pingTimeout+pingEvery)
	b.lastPing = now
}

// isSilence reports whether the error of a ping means that there was no answer at all.
func isSilence(err error) bool {
	return errors.Is(err, match.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}

// trip opens the breaker and requests a ping.
func (b *breaker) trip(why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.why = why
	signal.Send(b.pingRequested)
}

// open opens the breaker, if it is closed, because a requested ping was not answered.
func (b *breaker) open() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.why == "" {
		b.why = placement.WhyUnavailable
	}
}

// requestPing requests a ping. The breaker opens if the ping is not answered.
func (b *breaker) requestPing() { signal.Send(b.pingRequested) }

// run pings the matcher when requested, and then repeatedly until it answers, until ctx ends.
func (b *breaker) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.pingRequested:
		}
		open, why := b.state()
		answers, _ := b.answers(ctx)
		if !open && answers {
			// A trip since the call of state has signalled tripped again.
			b.confirm()
			continue
		}
		if !answers {
			if why == placement.WhyLoading && b.silentFor() == 0 {
				klog.FromContext(ctx).Info("The matcher is loading its graph; groups wait")
			} else {
				b.open()
				klog.FromContext(ctx).Info("The matcher does not answer; groups wait")
				if b.onOutage != nil {
					b.onOutage()
				}
			}
			if wait.PollUntilContextCancel(ctx, pingEvery, false, b.answers) != nil {
				return
			}
		}
		b.close()
		klog.FromContext(ctx).Info("The matcher answers again")
		b.onClose()
	}
}

// confirm counts an answered ping while the breaker was closed.
func (b *breaker) confirm() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.confirmedPings++
}

// close closes the breaker. It discards a signal that came while the breaker was open.
func (b *breaker) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.why = ""
	b.confirmedPings++
	select {
	case <-b.pingRequested:
	default:
	}
}

// answers pings the matcher, and reports whether it answers without an
// error. The error is always nil; wait.PollUntilContextCancel asks for it.
func (b *breaker) answers(ctx context.Context) (bool, error) {
	call, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	began := time.Now()
	err := b.ping(call)
	if err != nil && !isSilence(err) {
		// The matcher answers, with an error. It may be busy with
		// another call, so the ping is repeated until pingTimeout.
		_ = wait.PollUntilContextCancel(call, pingEvery, false, func(ctx context.Context) (bool, error) {
			if again := b.ping(ctx); ctx.Err() == nil {
				err = again
			}
			return err == nil, nil
		})
	}
	if ctx.Err() == nil {
		b.observePing(began, err)
	}
	return err == nil, nil
}
