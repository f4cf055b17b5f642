package trial

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/flux-k8s/fluence/test/perf/cluster/gauge"
)

// course makes what happens between the contender's start and the last bind.
func (b *Bench) course(ctx context.Context, m *measured, binds *gauge.Binds) error {
	switch {
	case m.plan.Stream != nil:
		return b.bindStream(ctx, m, binds)
	case m.plan.Low > 0:
		return b.bindByPreempting(ctx, m, binds)
	case m.plan.Room > 0:
		return b.bindAfterWaiting(ctx, m, binds)
	default:
		return b.bindBacklog(ctx, m, binds)
	}
}

// begin begins to measure what processes use and which requests they make.
func (b *Bench) begin(ctx context.Context, m *measured, binds *gauge.Binds) error {
	var err error
	m.reopenedBefore = binds.Reopened()
	if m.requestsBefore, err = b.requests(ctx); err != nil {
		return err
	}
	m.before = gauge.Read(m.processes())
	m.start = time.Now()
	return nil
}

// settle waits until all processes are quiet while the
// contender runs, before anything is measured.
func (b *Bench) settle(ctx context.Context, m *measured) error {
	_, err := b.Timing.After.Wait(ctx, m.processes())
	return err
}

// bindStream makes gangs come at the rate of the plan, which it looks for if it has to.
func (b *Bench) bindStream(ctx context.Context, m *measured, binds *gauge.Binds) error {
	s := *m.plan.Stream
	of := m.plan.Contender.Name
	if s.RateOf != "" {
		of = s.RateOf
	}
	highest, ok := b.highest[of]
	switch {
	case ok:
	case of != m.plan.Contender.Name:
		return &lateError{fmt.Sprintf("the highest rate of %s is not known", of)}
	default:
		var err error
		if highest, err = b.searchRate(ctx, m.plan, binds); err != nil {
			return err
		}
		b.highest[of] = highest
	}
	if err := b.settle(ctx, m); err != nil {
		return err
	}
	p := b.newPhase(m.plan, binds, "stream", s.Share*highest, s.For)
	m.stream, m.highest = p, highest
	if err := b.begin(ctx, m, binds); err != nil {
		return err
	}
	_, err := p.run(ctx, false)
	return err
}

// searchRate finds the highest rate at which the backlog
// does not grow. etcd is compacted after each attempt.
func (b *Bench) searchRate(ctx context.Context, plan Plan, binds *gauge.Binds) (float64, error) {
	n := 0
	attempt := func(length time.Duration) func(float64) (result, error) {
		return func(rate float64) (result, error) {
			n++
			r, err := b.newPhase(plan, binds, fmt.Sprintf("search-%02d", n), rate, length).run(ctx, true)
			if err != nil {
				return result{}, err
			}
			fmt.Fprintf(b.Log, "%s: %.1f gangs/s for %v, kept up: %t, %.1f were bound\n", plan.Contender.Name, rate, length, r.keptUp, r.served)
			return r, b.stand.Compact(ctx)
		}
	}
	return search(attempt(plan.Stream.For/10), attempt(plan.Stream.For/2))
}

// processes returns all processes that are measured. Before
// the contender's start these are the others alone.
func (m *measured) processes() map[string]gauge.Process {
	all := maps.Clone(m.others)
	maps.Copy(all, m.contender)
	return all
}
