package chaos

import (
	"context"
	"fmt"
	"io"
	"net"
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
		Levels:            levels(),
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
func (r *run) result() Result {
	drift := 0
	for _, log := range r.keeper.logs {
		drift += log.count(lineDrift)
	}
	r.view.mu.Lock()
	ran := len(r.view.ran)
	r.view.mu.Unlock()
	return Result{
		Seed:       r.cfg.Seed,
		Events:     r.stats.events(),
		Kills:      int(r.stats.kills.Load()),
		Violations: len(r.checker.Violations()),
		Drift:      max(drift, r.tally.sum(driftMetric)),
		Leaks:      r.leaks,
		Doubt:      doubt(r.checker.Stats(), r.stats.witnessed(ran, r.tally.sum(roundsMetric))),
	}
}

const (
	// unknownBinds is how many binds may be in no audit log, as those of the moment before
	// an API server is killed are: there may be two in a short run. unknownShare is how much
	// of all of them.
	unknownBinds = 8
	unknownShare = 0.01
	// excusedShare is how much of the time may be excused, where as many events
	// happen as manyEvents. Where fewer do, all binds may be.
	excusedShare = 0.85
	manyEvents   = 200
	// manyOverloads is how many overloads of the API server refuse something for certain.
	manyOverloads = 4
)

// A witness is what happened in a run, beside what the checker saw: events, groups that ran,
// rounds of the scheduler's audit, and overloads with the requests refused in them.
type witness struct{ events, ran, rounds, overloads, refused int }

// doubt says why a run that found nothing has proved nothing; empty is that it has.
func doubt(s invariants.Stats, w witness) string {
	unknown := max(unknownBinds, int(unknownShare*float64(s.Binds+s.BindsExcused+s.BindsUnknown)))
	switch {
	case w.ran > 0 && s.Binds == 0 && (w.events >= manyEvents || s.BindsExcused == 0):
		return fmt.Sprintf("%d groups ran, and no bind was judged", w.ran)
	case s.BindsUnknown > unknown:
		return fmt.Sprintf("%d binds are in no audit log, at most %d may be", s.BindsUnknown, unknown)
	case w.rounds == 0:
		return "no round of the scheduler's audit was seen"
	case w.overloads >= manyOverloads && w.refused == 0:
		return fmt.Sprintf("no request was refused in %d overloads of the API server", w.overloads)
	case w.events >= manyEvents && excused(s) > excusedShare:
		return fmt.Sprintf("%.0f %% of the time were excused, at most %.0f %% may be", 100*excused(s), 100*excusedShare)
	default:
		return ""
	}
}

// excused is the share of the time that was.
func excused(s invariants.Stats) float64 {
	if s.Watched <= 0 {
		return 0
	}
	return s.Excused.Seconds() / s.Watched.Seconds()
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}
