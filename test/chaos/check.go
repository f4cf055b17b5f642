package chaos

import (
	"context"
	"fmt"
	"net"
)

// a checker watches Fluence.
type checker interface {
	Excuse(what string) (end func())
	Settle(ctx context.Context) error
	End(ctx context.Context) error
}

type blind struct{}

func (blind) Excuse(string) func()         { return func() {} }
func (blind) Settle(context.Context) error { return nil }
func (blind) End(context.Context) error    { return nil }

func newChecker(context.Context, *run) (checker, error) { return blind{}, nil }

// look reads counters and tells of new violations.
func (r *run) look(ctx context.Context) {
	for name := range r.keeper.logs {
		r.tally.read(ctx, name)
	}
}

// result sums the run up.
func (r *run) result(plan Plan) Result {
	drift := 0
	for _, log := range r.keeper.logs {
		drift += log.count(lineDrift)
	}
	return Result{
		Seed:   r.cfg.Seed,
		Events: len(plan),
		Kills:  int(r.stats.kills.Load()),
		Drift:  max(drift, r.tally.sum(driftMetric)),
		Leaks:  r.leaks,
	}
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}
