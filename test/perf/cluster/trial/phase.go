package trial

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/flux-k8s/fluence/test/perf/cluster/backlog"
	"github.com/flux-k8s/fluence/test/perf/cluster/gauge"
)

const (
	// makers is the number of gangs that are created at a time, and also of those removed.
	makers = 16
	// lifetime is the time from a gang's last bind to its removal.
	lifetime = 2 * time.Second
	// lookInterval is the interval of the looks at which gangs are bound.
	lookInterval = 50 * time.Millisecond
	// enough is the backlog at which no more gangs come, if
	// the phase may end early: what comes in so many seconds.
	enough = 5
)

// A coming is a gang of a phase.
type coming struct {
	backlog.Gang
	// made is when its last pod was created, and bound when its
	// last pod was bound. Both are zero before that.
	made, bound time.Time
}

// A phase is a part of a stream in which gangs come at one rate.
type phase struct {
	bench *Bench
	plan  Plan
	binds *gauge.Binds
	// rate is in gangs a second. length is how long gangs come, and times when.
	rate   float64
	length time.Duration
	times  []time.Duration
	start  time.Time

	mu    sync.Mutex
	gangs []coming
	// living are the numbers of the gangs that were created and are not to be removed yet.
	living []int
	// begun is the number of gangs whose creation was begun. closed means that no more come.
	begun  int
	closed bool
	// samples are the gangs that wait. whole is the number of gangs that were bound.
	samples []sample
	whole   int
}

// newPhase returns a phase. The names of its gangs begin with prefix.
func (b *Bench) newPhase(plan Plan, binds *gauge.Binds, prefix string, rate float64, length time.Duration) *phase {
	p := &phase{bench: b, plan: plan, binds: binds, rate: rate, length: length, times: plan.Stream.times(rate, length)}
	for _, g := range backlog.Gangs(prefix, plan.size()*len(p.times), plan.size(), plan.Contender.Groups) {
		g.Native = plan.Contender.NativeGroups
		p.gangs = append(p.gangs, coming{Gang: g})
	}
	return p
}

// run makes the gangs come, and returns when all that came are bound and
// removed. If early, no more come once the backlog is large enough to show that it grows.
func (p *phase) run(ctx context.Context, early bool) (result, error) {
	p.start = time.Now()
	doomed := make(chan backlog.Gang, len(p.gangs))
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.come(gctx) })
	g.Go(func() error {
		defer close(doomed)
		return p.tend(gctx, early, doomed)
	})
	for range makers {
		g.Go(func() error {
			for gang := range doomed {
				if err := p.bench.store.Remove(gctx, p.plan.Contender.Scheduler(), gang); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return result{}, err
	}
	return p.result(), nil
}

// result returns how the contender did.
func (p *phase) result() result {
	whole := p.begun == len(p.gangs)
	came := p.length
	if !whole {
		came = p.times[p.begun]
	}
	bound := 0
	for _, c := range p.gangs {
		if !c.bound.IsZero() && c.bound.Sub(p.start) <= came {
			bound++
		}
	}
	return result{
		keptUp: whole && !grows(p.samples, p.rate, p.length),
		served: float64(bound) / max(lookInterval, came).Seconds(),
	}
}

// come creates each gang at its time, or later if too many are being created.
func (p *phase) come(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(makers)
	for i, due := range p.times {
		if !sleep(gctx, time.Until(p.start.Add(due))) || !p.begin() {
			break
		}
		g.Go(func() error {
			if err := p.bench.store.Make(gctx, p.plan.Contender.Scheduler(), p.plan.CPU, p.gangs[i].Gang); err != nil {
				return err
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			p.gangs[i].made = time.Now()
			p.living = append(p.living, i)
			return nil
		})
	}
	err := g.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return err
}

// begin reports whether another gang may come, and counts it.
func (p *phase) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.begun++
	return true
}

// sleep waits. It returns false if ctx is done before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// tend looks which gangs are bound, and dooms each some time
// later. It returns when no more come and all are doomed.
func (p *phase) tend(ctx context.Context, early bool, doomed chan<- backlog.Gang) error {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			if p.look(now, early, doomed) {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("wait for the gangs of a stream: %w", ctx.Err())
		}
		if err := p.binds.Err(); err != nil {
			return err
		}
	}
}

// look takes one look. It reports whether all gangs that came are doomed.
func (p *phase) look(now time.Time, early bool, doomed chan<- backlog.Gang) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.binds.View(func(at map[string]time.Time) {
		for _, i := range p.living {
			c := &p.gangs[i]
			if !c.bound.IsZero() {
				continue
			}
			if _, last, n := span(at, c.Pods); n == len(c.Pods) {
				c.bound = last
				p.whole++
			}
		}
	})
	var left []int
	for _, i := range p.living {
		if c := p.gangs[i]; !c.bound.IsZero() && now.Sub(c.bound) >= lifetime {
			doomed <- c.Gang
		} else {
			left = append(left, i)
		}
	}
	p.living = left
	due := 0
	for due < len(p.times) && p.times[due] <= now.Sub(p.start) {
		due++
	}
	waiting := due - p.whole
	p.samples = append(p.samples, sample{at: now.Sub(p.start), waiting: waiting})
	if early && float64(waiting) > enough*max(1, p.rate) {
		p.closed = true
	}
	return p.closed && p.whole == p.begun && len(p.living) == 0
}
