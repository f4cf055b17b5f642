// Package pace bounds how many writes a second are made that can wait, so that they leave the API server to what just comes.
package pace

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// AtOnce is how many writes may be made at once.
	AtOnce = 100
	// Calm is how many a second follow.
	Calm = 50
	// Rushed is how many a second follow in a rush.
	Rushed = 10
	// A rush is while more than rushFrom objects a second come, and rushLasts longer.
	rushFrom  = 20
	rushLasts = time.Second
)

// A Pace bounds writes that can wait. Its methods are safe for concurrent use.
type Pace struct {
	writes, arrivals *rate.Limiter

	mu sync.Mutex
	// rushUntil is when the rush ends.
	rushUntil time.Time
}

// New returns a Pace of which no write was made yet.
func New() *Pace {
	return &Pace{writes: rate.NewLimiter(Calm, AtOnce), arrivals: rate.NewLimiter(rushFrom, rushFrom)}
}

// Came tells that an object has come whose own writes go first.
func (p *Pace) Came() {
	if p.arrivals.Allow() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.writes.Limit() != Rushed {
		p.writes.SetLimitAt(now, Rushed)
	}
	p.rushUntil = now.Add(rushLasts)
}

// Allow reports whether a write may be made now, which it counts then.
func (p *Pace) Allow() bool {
	p.adjust()
	return p.writes.Allow()
}

// Wait waits until a write may be made. It returns an error if ctx has ended.
func (p *Pace) Wait(ctx context.Context) error {
	p.adjust()
	if err := p.writes.Wait(ctx); err != nil {
		return fmt.Errorf("wait to write: %w", err)
	}
	return nil
}

// adjust ends a rush that is over.
func (p *Pace) adjust() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.After(p.rushUntil) && p.writes.Limit() != Calm {
		p.writes.SetLimitAt(now, Calm)
	}
}
