package fluence

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

const (
	pingTimeout = time.Second
	// pingEvery is the time between two pings of a matcher that does not answer: a
	// group waits no longer than that after its return.
	pingEvery = 200 * time.Millisecond
)

// What pods are told while the breaker is open, and until all is known.
const (
	whyUnavailable = "the matcher does not answer"
	whyLoading     = "the matcher's graph is being loaded"
	whyListing     = "PodGroups and the owners of pods are being listed"
)

// A breaker keeps scheduling cycles away from a matcher that does not answer. It
// is open at first and when a call, or the inventory, says so, and closes when a
// ping is answered.
type breaker struct {
	ping   func(context.Context) error
	closed func()
	// silent, if set, is called when the matcher is found not to answer.
	silent func()

	mu      sync.Mutex
	why     string
	tripped chan struct{}
}

func newBreaker(ping func(context.Context) error, closed func()) *breaker {
	b := &breaker{ping: ping, closed: closed, tripped: make(chan struct{}, 1)}
	b.trip(whyUnavailable)
	return b
}

func (b *breaker) state() (open bool, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.why != "", b.why
}

// trip opens the breaker.
func (b *breaker) trip(why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.why = why
	signal(b.tripped)
}

// run pings while the breaker is open, until ctx ends.
func (b *breaker) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.tripped:
		}
		answers, _ := b.answers(ctx)
		if !answers {
			klog.FromContext(ctx).Info("The matcher does not answer; groups wait")
			if b.silent != nil {
				b.silent()
			}
			if wait.PollUntilContextCancel(ctx, pingEvery, false, b.answers) != nil {
				return
			}
		}
		b.close()
		klog.FromContext(ctx).Info("The matcher answers again")
		b.closed()
	}
}

// close also takes back what tripped the breaker again while it was open.
func (b *breaker) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.why = ""
	select {
	case <-b.tripped:
	default:
	}
}

func (b *breaker) answers(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	return b.ping(ctx) == nil, nil
}
