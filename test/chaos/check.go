package chaos

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/flux-k8s/fluence/test/invariants"
)

// incompleteTimeout and linger are what the controller is told: how long a group may
// lack members, and how long after its pods a group of bare pods goes.
const (
	incompleteTimeout = 20 * time.Second
	linger            = 10 * time.Second
)

// check has the cluster watched from now on.
func (r *run) check(ctx context.Context) (err error) {
	r.checker, err = invariants.Watch(ctx, invariants.Config{
		REST:              r.stack.RESTConfig(),
		Audit:             r.stack.AuditLog(),
		IncompleteTimeout: incompleteTimeout,
		Linger:            linger,
		Log:               alarm{out: r.cfg.Log, history: &r.history},
	})
	if err != nil {
		return fmt.Errorf("watch what must hold: %w", err)
	}
	return nil
}

// an alarm tells a violation at once, with what happened before it.
type alarm struct {
	out     io.Writer
	history *history
}

func (a alarm) Write(text []byte) (int, error) {
	if strings.Contains(string(text), " "+invariants.RuleRepeatedAttempt+" ") {
		return len(text), nil
	}
	if _, err := fmt.Fprintf(a.out, "VIOLATION %safter\n%v\n", text, a.history); err != nil {
		return 0, err
	}
	return len(text), nil
}

// look reads the counters of all schedulers.
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
		Seed:       r.cfg.Seed,
		Events:     len(plan),
		Kills:      int(r.stats.kills.Load()),
		Violations: len(r.violations()),
		Drift:      max(drift, r.tally.sum(driftMetric)),
		Leaks:      r.leaks,
	}
}

// violations are those of Fluence's own. Each attempt of kube-scheduler's code that
// fails is told by an event, whether the last one said the same or not: these are
// counted apart.
func (r *run) violations() []invariants.Violation {
	return slices.DeleteFunc(r.checker.Violations(), isAttempt)
}

func isAttempt(v invariants.Violation) bool { return v.Rule == invariants.RuleRepeatedAttempt }

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}
