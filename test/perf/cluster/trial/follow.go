package trial

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/flux-k8s/fluence/test/cluster/process"
	"github.com/flux-k8s/fluence/test/perf/cluster/gauge"
	"github.com/flux-k8s/fluence/test/perf/cluster/report"
)

// tailLines is the number of lines that are quoted of the log of a process that ended.
const tailLines = 3

// A lateError means that a contender did not do in time what it had to do.
type lateError struct{ why string }

func (e *lateError) Error() string { return e.why }

// An endedError means that a process of the contender has ended.
type endedError struct{ name, state, tail string }

func (e *endedError) Error() string {
	return fmt.Sprintf("%s ended (%s); its last words: %s", e.name, e.state, e.tail)
}

// follow makes a course, which returns when all pods are bound. It interrupts the course when a
// process of the contender has ended, or the time limit has. It returns how the run ended, and why.
func follow(ctx context.Context, limit time.Duration, running map[string]*process.Process, course func(context.Context) error) (report.Outcome, string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, stop := context.WithTimeoutCause(ctx, limit, &lateError{fmt.Sprintf("not all were bound within %v", limit)})
	defer stop()
	for name, p := range running {
		go func() {
			select {
			case <-p.Done():
				cancel(&endedError{name: name, state: p.State().String(), tail: p.Tail(tailLines)})
			case <-ctx.Done():
			}
		}()
	}
	err := course(ctx)
	if err == nil {
		return report.AllBound, "", nil
	}
	cause := context.Cause(ctx)
	if ended := (*endedError)(nil); errors.As(cause, &ended) {
		return report.Ended, ended.Error(), nil
	}
	if late := (*lateError)(nil); errors.As(err, &late) {
		return report.Late, late.Error(), nil
	}
	if late := (*lateError)(nil); errors.As(cause, &late) {
		return report.Late, fmt.Sprintf("%v: %v", late, err), nil
	}
	return "", "", err
}

// bindBacklog returns when all pods are bound. Meanwhile it creates the arrivals.
func (b *Bench) bindBacklog(ctx context.Context, m *measured, binds *gauge.Binds) error {
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		var err error
		m.arrivals, err = b.arrive(gctx, m.plan, binds)
		return err
	})
	g.Go(func() error { return waitBound(gctx, binds, m.total) })
	return g.Wait()
}

// waitBound returns when a number of pods is bound.
func waitBound(ctx context.Context, binds *gauge.Binds, pods int) error {
	return binds.Wait(ctx, func(at map[string]time.Time) bool { return len(at) >= pods })
}

// arrive creates each arrival at its time, and returns
// the figures of the arrivals that were created.
func (b *Bench) arrive(ctx context.Context, plan Plan, binds *gauge.Binds) ([]report.Arrival, error) {
	var all []report.Arrival
	for _, a := range plan.Arrivals {
		due := int(a.After * float64(plan.Pods))
		if err := binds.Wait(ctx, func(at map[string]time.Time) bool { return len(at) >= due }); err != nil {
			return all, err
		}
		g := plan.gang(a)
		if err := b.store.Make(ctx, plan.Contender.Scheduler(), plan.CPU, g); err != nil {
			return all, err
		}
		made := time.Now()
		one := report.Arrival{Name: a.Name, Pods: a.Pods, Before: len(binds.Seen())}
		err := binds.Wait(ctx, func(at map[string]time.Time) bool {
			for _, pod := range g.Pods {
				if at[pod].IsZero() {
					return false
				}
			}
			return true
		})
		seen := binds.Seen()
		if first, last, n := span(seen, g.Pods); n > 0 {
			// A watch may deliver the bind before the pod's creation is answered.
			one.First = max(0, first.Sub(made).Seconds())
			if n == a.Pods {
				one.Last = max(0, last.Sub(made).Seconds())
				one.After = len(seen)
			}
		}
		all = append(all, one)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// span returns the first and the last bind of pods, and the number of bound ones.
func span(at map[string]time.Time, pods []string) (first, last time.Time, n int) {
	for _, pod := range pods {
		t, ok := at[pod]
		if !ok {
			continue
		}
		n++
		if first.IsZero() || t.Before(first) {
			first = t
		}
		if t.After(last) {
			last = t
		}
	}
	return first, last, n
}
