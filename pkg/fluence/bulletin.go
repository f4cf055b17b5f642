package fluence

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/health"
)

// bulletinEvery is how often is looked whether there is something to write, where
// nothing was written lately.
const bulletinEvery = 5 * time.Second

// A bulletin keeps the figures of package health up to date while this scheduler
// leads: rarely, and only where they are others, but for a sign of life.
type bulletin struct {
	client    kubernetes.Interface
	namespace string
	leading   func() bool
	figures   func() health.Figures
	// failed is told of each write that failed.
	failed func()

	// written are the figures that were written last, tried when that was last
	// attempted, and wrong what was logged of it.
	written health.Figures
	tried   time.Time
	wrong   string
}

// run writes until ctx ends; without a namespace it has nothing to do.
func (b *bulletin) run(ctx context.Context) {
	if b.namespace == "" {
		return
	}
	t := time.NewTicker(bulletinEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			b.look(ctx, time.Now())
		}
	}
}

// look writes if it is time to and there is something to say.
func (b *bulletin) look(ctx context.Context, now time.Time) {
	if !b.tried.IsZero() && now.Sub(b.tried) < health.Pause {
		return
	}
	if !b.leading() {
		// Whoever leads has written meanwhile.
		b.written = health.Figures{}
		return
	}
	f := b.figures()
	f.Updated = now.UTC().Truncate(time.Second)
	if f.Same(b.written) && now.Sub(b.written.Updated) < health.SignOfLife {
		return
	}
	b.tried = now
	if err := b.write(ctx, f); err != nil {
		if ctx.Err() != nil {
			return
		}
		b.failed()
		// It is tried again and again, and said once.
		if why := err.Error(); why != b.wrong {
			b.wrong = why
			klog.FromContext(ctx).Error(err, "Write the figures of health", "namespace", b.namespace, "name", health.Name, "again", health.Pause)
		}
		return
	}
	b.written, b.wrong = f, ""
}

func (b *bulletin) write(ctx context.Context, f health.Figures) error {
	data, err := f.Data()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_, err = b.client.CoreV1().ConfigMaps(b.namespace).Apply(ctx,
		corev1ac.ConfigMap(health.Name, b.namespace).WithData(data),
		metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err != nil {
		return fmt.Errorf("apply ConfigMap %s/%s: %w", b.namespace, health.Name, err)
	}
	return nil
}

// figures is a reading in the words of package health.
func (r reading) figures(pl *Fluence, as Identity) health.Figures {
	f := health.Figures{
		Epoch: uint64(r.epoch), Nodes: r.nodes,
		GroupsByPhase: map[string]int{}, WaitingByReason: r.Waiting,
		Allocations: r.Tentative + r.Held, Drift: pl.drifted.Load(), MatcherAnswers: r.answers,
		Leader: as.Name, Version: as.Version,
	}
	for _, p := range gang.Phases() {
		if n := r.Phases[p]; n > 0 {
			f.GroupsByPhase[string(p)] = n
		}
	}
	if at := pl.matchedAt.Load(); at != 0 {
		matched := time.Unix(0, at).UTC().Truncate(time.Second)
		f.LastMatch = &matched
	}
	return f
}
