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
	pingTimeout = time.Second
	// pingEvery is the time between two pings of a matcher that does not answer: a
	// group waits no longer than that after its return.
	pingEvery = 200 * time.Millisecond
)

// whyListing is why pods are held until all PodGroups and owners have been listed.
const whyListing = "PodGroups and the owners of pods are being listed"

// A breaker keeps scheduling cycles away from a matcher that does not answer. It
// is open at first and when a call, or the inventory, says so, and closes when a
// ping is answered.
type breaker struct {
	ping    func(context.Context) error
	onClose func()
	// onOutage, if set, is called when the matcher is found not to answer.
	onOutage func()

	mu      sync.Mutex
	why     string
	tripped chan struct{}
	// recoveries counts how often it was closed.
	recoveries uint64
	// silence is for how long no ping has had an answer, the last of which ended at asked.
	silence  time.Duration
	lastPing time.Time
}

func newBreaker(ping func(context.Context) error, closed func()) *breaker {
	b := &breaker{ping: ping, onClose: closed, tripped: make(chan struct{}, 1)}
	b.trip(placement.WhyUnavailable)
	return b
}

func (b *breaker) state() (open bool, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.why != "", b.why
}

// recoveryCount counts how often the matcher was found to answer again.
func (b *breaker) recoveryCount() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.recoveries
}

// silentFor says for how long the matcher was asked and gave no answer at all; 0 if it did
// the last time. One that answers that it takes no calls yet, for it loads, is not silent.
func (b *breaker) silentFor() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.silence
}

// observePing takes note of how a ping ended that began at a time. Of the time since the one
// before it counts what pings take: a process that was stopped meanwhile asked nobody.
func (b *breaker) observePing(began time.Time, err error) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !isSilence(err) {
		b.silence, b.lastPing = 0, time.Time{}
		return
	}
	since := b.lastPing
	if since.IsZero() {
		since = began
	}
	b.silence += min(now.Sub(since), pingTimeout+pingEvery)
	b.lastPing = now
}

// isSilence says that a ping which ended with an error had no answer.
func isSilence(err error) bool {
	return errors.Is(err, match.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}

// trip opens the breaker.
func (b *breaker) trip(why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.why = why
	signal.Send(b.tripped)
}

// requestPing has the matcher be pinged, and the breaker opened if that is not answered.
func (b *breaker) requestPing() { signal.Send(b.tripped) }

// run pings while the breaker is open, until ctx ends.
func (b *breaker) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.tripped:
		}
		open, _ := b.state()
		answers, _ := b.answers(ctx)
		if !open && answers {
			// What trips it meanwhile has a signal of its own.
			b.confirm()
			continue
		}
		if !answers {
			b.trip(placement.WhyUnavailable)
			klog.FromContext(ctx).Info("The matcher does not answer; groups wait")
			if b.onOutage != nil {
				b.onOutage()
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

// confirm counts an answer of a matcher that was only doubted.
func (b *breaker) confirm() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recoveries++
}

// close also takes back what tripped the breaker again while it was open.
func (b *breaker) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.why = ""
	b.recoveries++
	select {
	case <-b.tripped:
	default:
	}
}

func (b *breaker) answers(ctx context.Context) (bool, error) {
	call, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	began := time.Now()
	err := b.ping(call)
	if err != nil && !isSilence(err) {
		// It answers, and is at work for another call. That one may end in time.
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
