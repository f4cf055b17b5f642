package chaos

import (
	"context"
	"sync"

	"github.com/flux-k8s/fluence/test/stack"
)

// These are counters of the scheduler. They begin at 0 in each process.
const (
	driftMetric  = "fluence_drift_total"
	roundsMetric = "fluence_audits_total"
	racesMetric  = "fluence_kubelet_rejections_total"
)

// a tally adds up counters over processes that are killed, by the last value of each.
type tally struct {
	stack *stack.Stack

	mu   sync.Mutex
	last map[sample]float64
}

type sample struct {
	pid    int
	metric string
}

func newTally(s *stack.Stack) *tally { return &tally{stack: s, last: map[sample]float64{}} }

// read records the counters of a scheduler. A scheduler
// that does not answer keeps its last values.
func (t *tally) read(ctx context.Context, process string) {
	p := t.stack.Process(process)
	if p == nil || p.State() != nil {
		return
	}
	for _, metric := range []string{driftMetric, roundsMetric, racesMetric} {
		v, err := t.stack.Metric(ctx, process, metric)
		if err != nil {
			return
		}
		t.mu.Lock()
		key := sample{p.PID(), metric}
		t.last[key] = max(t.last[key], v)
		t.mu.Unlock()
	}
}

// sum returns the sum over all processes.
func (t *tally) sum(metric string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	total := 0.0
	for key, v := range t.last {
		if key.metric == metric {
			total += v
		}
	}
	return int(total)
}
