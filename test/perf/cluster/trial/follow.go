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

// errLate means that the time limit of a run has ended.
var errLate = errors.New("the limit is over")

// An endedError means that a process of the contender has ended.
type endedError struct{ name, state, tail string }

func (e *endedError) Error() string {
	return fmt.Sprintf("%s ended (%s); its last words: %s", e.name, e.state, e.tail)
}

// follow returns when all pods are bound, a process of the contender has
// ended, or the time limit has ended. Meanwhile it creates the arrivals.
func (b *Bench) follow(ctx context.Context, plan Plan, binds *gauge.Binds, running map[string]*process.Process) (report.Outcome, string, []report.Arrival, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, stop := context.WithTimeoutCause(ctx, plan.Limit, errLate)
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
	var arrived []report.Arrival
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		var err error
		arrived, err = b.arrive(gctx, plan, binds)
		return err
	})
	g.Go(func() error {
		return binds.Wait(gctx, func(at map[string]time.Time) bool { return len(at) >= plan.total() })
	})
	err := g.Wait()
	if err == nil {
		return report.AllBound, "", arrived, nil
	}
	cause := context.Cause(ctx)
	if ended := (*endedError)(nil); errors.As(cause, &ended) {
		return report.Ended, ended.Error(), arrived, nil
	}
	if errors.Is(cause, errLate) {
		return report.Late, fmt.Sprintf("not all were bound within %v", plan.Limit), arrived, nil
	}
	return "", "", nil, err
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
