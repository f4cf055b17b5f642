package report

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/statusmap"
)

// ConfigMapInterval is how often is looked whether there is something to write, where
// nothing was written lately.
const ConfigMapInterval = 5 * time.Second

// A Status keeps the figures of package health up to date while this scheduler
// leads: rarely, and only where they are others, but for a sign of life.
type ConfigMapWriter struct {
	Client kubernetes.Interface
	// Namespace is that of the ConfigMap; without one nothing is written.
	Namespace string
	Leading   func() bool
	Snapshot  func() statusmap.Status
	// Failed is told of each write that failed.
	Failed func()

	// written are the figures that were written last, tried when that was last
	// attempted, and wrong what was logged of it.
	written statusmap.Status
	tried   time.Time
	wrong   string
}

// Run writes until ctx ends; without a namespace it has nothing to do.
func (s *ConfigMapWriter) Run(ctx context.Context) {
	if s.Namespace == "" {
		return
	}
	t := time.NewTicker(ConfigMapInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			s.writeIfDue(ctx, time.Now())
		}
	}
}

// writeIfDue writes if it is time to and there is something to say.
func (s *ConfigMapWriter) writeIfDue(ctx context.Context, now time.Time) {
	if !s.tried.IsZero() && now.Sub(s.tried) < statusmap.MinWriteInterval {
		return
	}
	if !s.Leading() {
		// Whoever leads has written meanwhile.
		s.written = statusmap.Status{}
		return
	}
	f := s.Snapshot()
	f.Updated = now.UTC().Truncate(time.Second)
	if f.Same(s.written) && now.Sub(s.written.Updated) < statusmap.MaxWriteInterval {
		return
	}
	s.tried = now
	if err := s.write(ctx, f); err != nil {
		if ctx.Err() != nil {
			return
		}
		s.Failed()
		// It is tried again and again, and said once.
		if why := err.Error(); why != s.wrong {
			s.wrong = why
			klog.FromContext(ctx).Error(err, "Write the figures of health", "namespace", s.Namespace, "name", statusmap.Name, "again", statusmap.MinWriteInterval)
		}
		return
	}
	s.written, s.wrong = f, ""
}

func (s *ConfigMapWriter) write(ctx context.Context, f statusmap.Status) error {
	data, err := f.Data()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	_, err = s.Client.CoreV1().ConfigMaps(s.Namespace).Apply(ctx,
		corev1ac.ConfigMap(statusmap.Name, s.Namespace).WithData(data),
		metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
	if err != nil {
		return fmt.Errorf("apply ConfigMap %s/%s: %w", s.Namespace, statusmap.Name, err)
	}
	return nil
}
