package fluence

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A patient is what a breaker pings.
type patient struct {
	up     bool
	hangs  bool
	pings  []time.Duration // since the start
	closed int
}

// watched runs test with a breaker in a bubble, after the matcher answered once.
func watched(t *testing.T, test func(*breaker, *patient)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p := &patient{}
		b := newBreaker(func(ctx context.Context) error {
			p.pings = append(p.pings, time.Since(start))
			if p.hangs {
				<-ctx.Done()
				return ctx.Err()
			}
			if !p.up {
				return errors.New("down")
			}
			return nil
		}, func() { p.closed++ })
		// Whether the matcher answers is not known before.
		wantOpen(t, b, true)
		p.up = true
		go b.run(t.Context())
		synctest.Wait()
		if len(p.pings) != 1 || p.closed != 1 {
			t.Errorf("%d pings, told %d times that it closed; want one each", len(p.pings), p.closed)
		}
		p.up, p.pings, p.closed = false, nil, 0
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
	watched(t, func(b *breaker, p *patient) {
		time.Sleep(time.Hour)
		wantOpen(t, b, false)
		if len(p.pings) > 0 || p.closed > 0 {
			t.Errorf("%d pings, told %d times", len(p.pings), p.closed)
		}
	})
}

func TestBreakerPingsUntilAnAnswerThenClosesAndTells(t *testing.T) {
	watched(t, func(b *breaker, p *patient) {
		b.trip("why")
		wantOpen(t, b, true)
		synctest.Wait()
		wantOpen(t, b, true)
		time.Sleep(3*pingEvery + time.Millisecond)
		wantOpen(t, b, true)
		if p.closed != 0 {
			t.Error("told that it closed while it is open")
		}
		p.up = true
		time.Sleep(pingEvery)
		wantOpen(t, b, false)
		if len(p.pings) != 5 || p.pings[0] != 0 || p.pings[4] != 4*pingEvery || p.closed != 1 {
			t.Errorf("pings at %v, told %d times; want one at once and every %v, told once", p.pings, p.closed, pingEvery)
		}
		time.Sleep(time.Hour)
		if len(p.pings) != 5 {
			t.Errorf("%d pings after it closed", len(p.pings)-5)
		}
		p.up = false
		b.trip("again")
		wantOpen(t, b, true)
	})
}

func TestBreakerTrippedTwiceInAnOutageClosesOnce(t *testing.T) {
	watched(t, func(b *breaker, p *patient) {
		b.trip("a call")
		synctest.Wait()
		b.trip("the inventory")
		p.up = true
		time.Sleep(time.Hour)
		if p.closed != 1 || len(p.pings) != 2 {
			t.Errorf("told %d times after %d pings, want once after 2", p.closed, len(p.pings))
		}
	})
}

func TestBreakerBoundsAPing(t *testing.T) {
	watched(t, func(b *breaker, p *patient) {
		p.hangs = true
		b.trip("why")
		synctest.Wait()
		p.hangs, p.up = false, true
		time.Sleep(pingTimeout - time.Millisecond)
		wantOpen(t, b, true)
		// The first ping is given up, and the next one answered.
		time.Sleep(2 * pingEvery)
		wantOpen(t, b, false)
	})
}
