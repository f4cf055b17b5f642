package trial

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/test/perf/cluster/gauge"
	"github.com/flux-k8s/fluence/test/perf/cluster/report"
)

// lowCPU is the CPU request of a pod of priority 0 that has to make room.
const lowCPU = "80m"

// preempting is what was measured of a run in which gangs evict other pods.
type preempting struct {
	// created is when the last pod of the first gang was created.
	created time.Time
	// ends are when evicted pods ended, by name.
	ends map[string]time.Time
}

// bindByPreempting creates the gangs when the contender is quiet, and returns when all of their pods are bound.
func (b *Bench) bindByPreempting(ctx context.Context, m *measured, binds *gauge.Binds) error {
	by := m.plan.Contender.Scheduler()
	low, planted, err := b.store.Populate(ctx, by, m.plan.Low, resource.MustParse(lowCPU))
	if err != nil {
		return err
	}
	ends, err := gauge.WatchEnds(ctx, b.client, low)
	if err != nil {
		return err
	}
	if _, err := b.Timing.Before.Wait(ctx, m.processes()); err != nil {
		return err
	}
	if err := b.begin(ctx, m, binds); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := b.store.Make(gctx, by, m.plan.CPU, m.gangs[0]); err != nil {
			return err
		}
		m.preempting.created = time.Now()
		return b.store.Make(gctx, by, m.plan.CPU, m.gangs[1:]...)
	})
	g.Go(func() error { return waitBound(gctx, binds, m.total) })
	err = g.Wait()
	if err == nil {
		err = b.waitEnded(ctx, ends, low, planted)
	}
	m.preempting.ends = ends.Seen()
	return err
}

// waitEnded returns when the watch has delivered the ends of all pods that are gone. There were so many in the namespace.
func (b *Bench) waitEnded(ctx context.Context, ends *gauge.Binds, namespace string, planted int) error {
	left, err := b.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the pods that were not evicted: %w", err)
	}
	return ends.Wait(ctx, func(at map[string]time.Time) bool { return len(at) >= planted-len(left.Items) })
}

// preemption returns what gangs took that evicted others, nil if there was nothing to evict.
func (m *measured) preemption() *report.Preemption {
	if m.plan.Low == 0 {
		return nil
	}
	since := func(times map[string]time.Time, pick func([]time.Time) time.Time) float64 {
		if len(times) == 0 {
			return 0
		}
		return pick(slices.SortedFunc(maps.Values(times), time.Time.Compare)).Sub(m.preempting.created).Seconds()
	}
	first := func(times []time.Time) time.Time { return times[0] }
	last := func(times []time.Time) time.Time { return times[len(times)-1] }
	return &report.Preemption{
		Victims: len(m.preempting.ends), First: since(m.preempting.ends, first), Last: since(m.preempting.ends, last), Bound: since(m.binds, last),
	}
}
