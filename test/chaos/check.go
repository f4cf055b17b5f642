package chaos

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/flux-k8s/fluence/test/invariants"
)

// incompleteTimeout is the controller's setting of how long a group may lack members.
// linger is its setting of how long the PodGroup of bare pods may outlive the last pod.
const (
	incompleteTimeout = 20 * time.Second
	linger            = 10 * time.Second
)

// check starts the checker.
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

// an alarm writes a violation at once, with the events before it.
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

// result returns the result of the run so far.
func (r *run) result() Result {
	drift := 0
	for _, log := range r.keeper.logs {
		drift += log.count(lineDrift)
	}
	r.view.mu.Lock()
	ran := len(r.view.ran)
	r.view.mu.Unlock()
	saw := r.stats.witnessed(ran, r.tally.sum(roundsMetric))
	saw.promises, saw.queues = r.cfg.Promises, r.cfg.Queues
	return Result{
		Seed:       r.cfg.Seed,
		Events:     r.stats.events(),
		Kills:      int(r.stats.kills.Load()),
		Violations: len(r.checker.Violations()),
		Drift:      max(drift, r.tally.sum(driftMetric)),
		Leaks:      r.leaks,
		Doubt:      doubt(r.checker.Stats(), saw),
	}
}

const (
	// unknownBinds is how many binds may be missing in the audit log. A kill
	// of the API server loses its last log lines, so a short run may have two.
	unknownBinds = 8
	// unknownShare is the share of all binds that may be missing.
	unknownShare = 0.01
	// excusedShare is the share of the time that may be excused in a run of
	// at least manyEvents events. In a shorter run all binds may be excused.
	excusedShare = 0.85
	manyEvents   = 200
	// manyOverloads is the number of overloads in which
	// the API server certainly refuses a request.
	manyOverloads = 4
)

// A witness is what happened in a run, apart from what the checker saw: the events, the groups
// that ran, the rounds of the scheduler's audit, the overloads, the requests refused in them, how many groups may be promised room at a time, and
// whether there are queues.
type witness struct {
	events, ran, rounds, overloads, refused, promises int
	queues                                            bool
}

// doubt returns why a run without a violation has proved
// nothing. It returns "" if it has proved something.
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
	case w.promises > 0 && w.events >= manyEvents && s.PromisesMoved+s.PromisesKept == 0:
		return fmt.Sprintf("groups were promised room %d times, and no promise was judged", s.Promised)
	case w.queues && w.events >= manyEvents && (s.Admitted+s.AdmittedExcused == 0 || s.QueueBinds == 0 && s.BindsExcused == 0):
		return fmt.Sprintf("%d jobs of queues were seen as they were given room, and %d binds of their pods", s.Admitted+s.AdmittedExcused, s.QueueBinds)
	case w.events >= manyEvents && excused(s) > excusedShare:
		return fmt.Sprintf("%.0f %% of the time were excused, at most %.0f %% may be", 100*excused(s), 100*excusedShare)
	default:
		return ""
	}
}

// excused returns the share of the time that was excused.
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
