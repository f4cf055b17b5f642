package v1alpha1

import (
	"time"

	"github.com/flux-k8s/fluence/pkg/fsd"
)

// DefaultGrace is the grace of a queue that has none.
const DefaultGrace = 30 * time.Second

// DurationOf returns for how long a job of a queue may run: what the job says itself, or the default of the queue, which may
// be nil. It returns 0 if there is no limit. The error names the field and the value.
func DurationOf(job *FluxJobSpec, queue *Queue) (time.Duration, error) {
	if job.Duration == "" && queue != nil {
		return fsd.ParseLimit("spec.defaults.duration of Queue "+queue.Name, queue.Spec.Defaults.Duration)
	}
	return fsd.ParseLimit("spec.duration", job.Duration)
}

// LongestDuration returns the longest duration that a job of the queue may have. It returns 0 if there is no limit. The error
// names the field and the value.
func (q *Queue) LongestDuration() (time.Duration, error) {
	return fsd.ParseLimit("spec.limits.duration of Queue "+q.Name, q.Spec.Limits.Duration)
}

// GracePeriod returns how long after the end of a job its room counts as free. What is no duration, which the API server does
// not take, is DefaultGrace.
func (q *Queue) GracePeriod() time.Duration {
	d, err := fsd.Parse(q.Spec.Grace)
	if err != nil || d == fsd.Infinite {
		return DefaultGrace
	}
	return d
}
