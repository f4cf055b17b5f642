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

const (
	// ConfigMapInterval is how often the status is compared with what was written last.
	ConfigMapInterval = 5 * time.Second
	// ReadinessInterval is how often the Readiness is compared. It is also the
	// shortest time between two writes because it has changed.
	ReadinessInterval = time.Second
)

// Readiness is what a status says of the matcher, and is written soon after a change.
type Readiness struct {
	// Answers is true if the matcher answers, and Loaded if it has loaded the latest graph.
	Answers, Loaded bool
	// Places is true if groups can be placed.
	Places bool
}

// A ConfigMapWriter keeps the status ConfigMap (package statusmap) up to date while this
// scheduler leads. It writes a status that has changed at most every statusmap.MinWriteInterval,
// and within ReadinessInterval if the Readiness has changed.
// It writes any status every statusmap.MaxWriteInterval, as a sign of life.
type ConfigMapWriter struct {
	Client kubernetes.Interface
	// Namespace is the namespace of the ConfigMap. Nothing is written if it is empty.
	Namespace string
	// Leading reports whether this scheduler leads.
	Leading func() bool
	// Snapshot returns the present status.
	Snapshot func() statusmap.Status
	// Readiness returns the present Readiness. It is called often.
	Readiness func() Readiness
	// Failed is called for each write that failed.
	Failed func()

	// written is the status that was written last.
	written statusmap.Status
	// writtenReadiness is the Readiness at that time.
	writtenReadiness Readiness
	// lastAttempt is when a write was last attempted.
	lastAttempt time.Time
	// lastLoggedError is the error that was logged last. It is empty after a write that succeeded.
	lastLoggedError string
}

// Run writes until ctx ends. It returns at once if there is no namespace.
func (s *ConfigMapWriter) Run(ctx context.Context) {
	if s.Namespace == "" {
		return
	}
	all, readiness := time.NewTicker(ConfigMapInterval), time.NewTicker(ReadinessInterval)
	defer all.Stop()
	defer readiness.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-all.C:
			s.writeIfDue(ctx)
		case <-readiness.C:
			if s.readinessChanged() {
				s.writeIfDue(ctx)
			}
		}
	}
}

// readinessChanged reports whether the Readiness has changed since the status was written. After
// a failed write it returns false, so that failures do not shorten the time between tries.
func (s *ConfigMapWriter) readinessChanged() bool {
	return !s.written.Updated.IsZero() && s.lastLoggedError == "" && s.writtenReadiness != s.Readiness()
}

// writeIfDue writes the status if it is time to write and the status has changed, or
// the ConfigMap is old.
func (s *ConfigMapWriter) writeIfDue(ctx context.Context) {
	pause := statusmap.MinWriteInterval
	if s.readinessChanged() {
		pause = ReadinessInterval
	}
	if !s.lastAttempt.IsZero() && time.Since(s.lastAttempt) < pause {
		return
	}
	if !s.Leading() {
		// Another scheduler may write meanwhile, so the first status is written when
		// this one leads again.
		s.written = statusmap.Status{}
		return
	}
	// Readers take a report from before the time of the lease for one of an earlier leader. So the time
	// of this one is read after Leading was called. The Readiness is read first: if it
	// changes before the snapshot, the next comparison finds that.
	now, readiness := time.Now(), s.Readiness()
	f := s.Snapshot()
	f.Updated = now.UTC().Truncate(time.Second)
	if f.Same(s.written) && now.Sub(s.written.Updated) < statusmap.MaxWriteInterval {
		s.writtenReadiness = readiness
		return
	}
	s.lastAttempt = now
	if err := s.write(ctx, f); err != nil {
		if ctx.Err() != nil {
			return
		}
		s.Failed()
		// The write is tried again and again. The same error is logged once.
		if why := err.Error(); why != s.lastLoggedError {
			s.lastLoggedError = why
			klog.FromContext(ctx).Error(err, "Failed to write the status ConfigMap", "namespace", s.Namespace, "name", statusmap.Name, "retryAfter", statusmap.MinWriteInterval)
		}
		return
	}
	s.written, s.writtenReadiness, s.lastLoggedError = f, readiness, ""
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
