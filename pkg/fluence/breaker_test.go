package fluence

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/placement"
)

// fakeMatcher is the matcher that a breaker pings.
type fakeMatcher struct {
	up    atomic.Bool
	hangs atomic.Bool
	loads atomic.Bool // it answers that it takes no calls yet
	// stopped means that the pinging process does not run.
	stopped atomic.Bool
	closed  atomic.Int32

	mu    sync.Mutex
	pings []time.Duration // since the start
}

// pinged returns the times of the pings so far.
func (p *fakeMatcher) pinged() []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.pings)
}

// withBreaker runs test with a breaker in a bubble, after the matcher has answered once.
func withBreaker(t *testing.T, test func(*breaker, *fakeMatcher)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p := &fakeMatcher{}
		b := newBreaker(func(ctx context.Context) error {
			p.mu.Lock()
			p.pings = append(p.pings, time.Since(start))
			p.mu.Unlock()
			if p.hangs.Load() {
				<-ctx.Done()
				return ctx.Err()
			}
			if p.stopped.Load() {
				time.Sleep(time.Hour) // as in a process that does not run
			}
			if !p.up.Load() {
				return match.ErrUnavailable
			}
			if p.loads.Load() {
				return errors.New("loading")
			}
			return nil
		}, func() { p.closed.Add(1) })
		// It is not yet known whether the matcher answers.
		wantOpen(t, b, true)
		p.up.Store(true)
		go b.run(t.Context())
		synctest.Wait()
		if len(p.pinged()) != 1 || p.closed.Load() != 1 {
			t.Errorf("%d pings, told %d times that it closed; want one each", len(p.pinged()), p.closed.Load())
		}
		p.up.Store(false)
		p.closed.Store(0)
		p.mu.Lock()
		p.pings = nil
		p.mu.Unlock()
		test(b, p)
	})
}

func wantOpen(t *testing.T, b *breaker, want bool) {
	t.Helper()
	if open, why := b.state(); open != want || (why != "") != want {
		t.Errorf("the breaker is open: %v, because %q; want %v", open, why, want)
	}
}

func TestBreakerThatIsClosedPingsNobody(t *testing.T) {
	withBreaker(t, func(b *breaker, p *fakeMatcher) {
		time.Sleep(time.Hour)
		wantOpen(t, b, false)
		if len(p.pinged()) > 0 || p.closed.Load() > 0 {
			t.Errorf("%d pings, told %d times", len(p.pinged()), p.closed.Load())
		}
	})
}

func TestBreakerPingsUntilAnAnswerThenClosesAndTells(t *testing.T) {
	withBreaker(t, func(b *breaker, p *fakeMatcher) {
		b.trip("why")
		wantOpen(t, b, true)
		synctest.Wait()
		wantOpen(t, b, true)
		time.Sleep(3*pingEvery + time.Millisecond)
		wantOpen(t, b, true)
		if p.closed.Load() != 0 {
			t.Error("told that it closed while it is open")
		}
		p.up.Store(true)
		time.Sleep(pingEvery)
		wantOpen(t, b, false)
		if len(p.pinged()) != 5 || p.pinged()[0] != 0 || p.pinged()[4] != 4*pingEvery || p.closed.Load() != 1 {
			t.Errorf("pings at %v, told %d times; want one at once and every %v, told once", p.pinged(), p.closed.Load(), pingEvery)
		}
		time.Sleep(time.Hour)
		if len(p.pinged()) != 5 {
			t.Errorf("%d pings after it closed", len(p.pinged())-5)
		}
		p.up.Store(false)
		b.trip("again")
		wantOpen(t, b, true)
	})
}

func TestBreakerTrippedTwiceInAnOutageClosesOnce(t *testing.T) {
	withBreaker(t, func(b *breaker, p *fakeMatcher) {
		b.trip("a call")
		synctest.Wait()
		b.trip("the inventory")
		p.up.Store(true)
		time.Sleep(time.Hour)
		if p.closed.Load() != 1 || len(p.pinged()) != 2 {
			t.Errorf("told %d times after %d pings, want once after 2", p.closed.Load(), len(p.pinged()))
		}
	})
}

func TestBreakerBoundsAPing(t *testing.T) {
	withBreaker(t, func(b *breaker, p *fakeMatcher) {
		p.hangs.Store(true)
		b.trip("why")
		synctest.Wait()
		p.hangs.Store(false)
		p.up.Store(true)
		time.Sleep(pingTimeout - time.Millisecond)
		wantOpen(t, b, true)
		// The first ping times out, and the next one is answered.
		time.Sleep(2 * pingEvery)
		wantOpen(t, b, false)
	})
}

// A call that fails during a requested ping opens the
// breaker, and its group learns when the matcher is back.
func TestATripDuringAPingIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *breaker
		pings, closed := 0, 0
		b = newBreaker(func(context.Context) error {
			if pings++; pings == 2 {
				b.trip(placement.WhyUnavailable)
			}
			return nil
		}, func() { closed++ })
		go b.run(t.Context())
		synctest.Wait()
		b.requestPing()
		synctest.Wait()
		wantOpen(t, b, false)
		if pings != 3 || closed != 2 || b.confirmedPingCount() != 3 {
			t.Errorf("%d pings, of which %d were counted, and told %d times that it closed; want 3, 3 and 2", pings, b.confirmedPingCount(), closed)
		}
	})
}

// wantSilence compares how long the matcher is reported to be silent, within the time of one ping.
func wantSilence(t *testing.T, b *breaker, want time.Duration) {
	t.Helper()
	const near = pingTimeout + pingEvery
	if got := b.silentFor(); got > want || want-got > near || want == 0 && got != 0 {
		t.Errorf("the matcher is silent for %v, want %v", got, want)
	}
}

func TestBreakerTellsForHowLongTheMatcherIsSilent(t *testing.T) {
	cases := map[string]struct {
		hangs bool
	}{"one that refuses": {}, "one that hangs": {hangs: true}}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			withBreaker(t, func(b *breaker, p *fakeMatcher) {
				time.Sleep(time.Hour)
				wantSilence(t, b, 0)
				p.hangs.Store(tc.hangs)
				b.trip("why")
				time.Sleep(30 * time.Second)
				wantSilence(t, b, 30*time.Second)
				p.hangs.Store(false)
				p.up.Store(true)
				time.Sleep(2 * pingTimeout)
				wantSilence(t, b, 0)
				// Earlier silence does not count any more.
				p.up.Store(false)
				b.trip("again")
				time.Sleep(10 * time.Second)
				wantSilence(t, b, 10*time.Second)
			})
		})
	}
}

func TestAMatcherThatSaysThatItLoadsIsNotSilent(t *testing.T) {
	withBreaker(t, func(b *breaker, p *fakeMatcher) {
		b.trip("why")
		time.Sleep(20 * time.Second)
		wantSilence(t, b, 20*time.Second)
		p.loads.Store(true)
		p.up.Store(true)
		time.Sleep(time.Minute)
		wantOpen(t, b, true)
		wantSilence(t, b, 0)
	})
}

// A matcher that is busy with another call is pinged until that call has ended.
func TestBusyMatcherIsPingedUntilPingTimeout(t *testing.T) {
	cases := map[string]struct {
		works time.Duration
		open  bool
	}{
		"for less": {works: pingTimeout - 2*pingEvery},
		"for more": {works: pingTimeout + pingEvery/2, open: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			withBreaker(t, func(b *breaker, p *fakeMatcher) {
				p.up.Store(true)
				p.loads.Store(true)
				b.requestPing()
				time.Sleep(tc.works)
				p.loads.Store(false)
				synctest.Wait()
				wantOpen(t, b, tc.open)
				time.Sleep(pingTimeout)
				wantOpen(t, b, false)
				if closed := p.closed.Load() > 0; closed != tc.open {
					t.Errorf("it was opened: %t, want %t", closed, tc.open)
				}
			})
		})
	}
}

func TestAMatcherIsNotSilentWhileNobodyAsksIt(t *testing.T) {
	withBreaker(t, func(b *breaker, p *fakeMatcher) {
		p.stopped.Store(true)
		b.trip("why")
		time.Sleep(2*time.Hour + time.Second)
		wantSilence(t, b, 2*(pingTimeout+pingEvery))
		p.stopped.Store(false)
		p.up.Store(true)
		time.Sleep(2 * time.Hour)
		wantSilence(t, b, 0)
	})
}

// A matcher that loads its graph answers. Groups wait for the end of the load, and no outage is counted.
func TestBreakerWaitsForAMatcherThatLoads(t *testing.T) {
	withBreaker(t, func(b *breaker, p *fakeMatcher) {
		outages := 0
		b.onOutage = func() { outages++ }
		p.up.Store(true)
		p.loads.Store(true)
		b.trip(placement.WhyLoading)
		time.Sleep(30 * time.Second)
		if open, why := b.state(); !open || why != placement.WhyLoading {
			t.Errorf("the breaker is open: %v, because %q; want %q", open, why, placement.WhyLoading)
		}
		wantSilence(t, b, 0)
		p.loads.Store(false)
		time.Sleep(2 * pingEvery)
		wantOpen(t, b, false)
		if p.closed.Load() != 1 || outages != 0 {
			t.Errorf("told %d times that it closed, and of %d outages; want once and none", p.closed.Load(), outages)
		}
	})
}

// The reason names what the last ping has shown.
func TestBreakerTellsABusyMatcherFromASilentOne(t *testing.T) {
	withBreaker(t, func(b *breaker, p *fakeMatcher) {
		p.up.Store(true)
		p.loads.Store(true)
		b.trip(placement.WhyUnavailable)
		time.Sleep(10 * time.Second)
		if _, why := b.state(); why != placement.WhyBusy {
			t.Errorf("a matcher that answers is not asked because %q, want %q", why, placement.WhyBusy)
		}
		p.up.Store(false)
		time.Sleep(10 * time.Second)
		if _, why := b.state(); why != placement.WhyUnavailable {
			t.Errorf("a matcher that is silent is not asked because %q, want %q", why, placement.WhyUnavailable)
		}
	})
}
