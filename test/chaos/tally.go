package chaos

import (
	"context"
	"sync"

	"github.com/flux-k8s/fluence/test/stack"
)

// Counters of the scheduler. They begin at 0 with every process.
const (
	driftMetric  = "fluence_drift_total"
	roundsMetric = "fluence_audits_total"
	racesMetric  = "fluence_kubelet_rejections_total"
)

// a tally adds up counters over processes that are killed: what each said last.
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

// read notes what a scheduler's counters say now. One that does not answer is
// left at what it said last.
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

// sum is what all processes said together.
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
