package group

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
)

// QueueLabel is the label of the same name in package v1alpha1 of apis/fluence. The value of a Job goes before that of its
// pod template. An empty value is no queue, also where a queue is the default.
const QueueLabel = v1alpha1.QueueLabel

// The annotations of workloads in queues, and of their FluxJobs. Users do not write them.
const (
	// QueuedAnnotation is the annotation of the same name in package v1alpha1 of apis/fluence.
	QueuedAnnotation = v1alpha1.QueuedAnnotation
	// DeadlineAnnotation is an annotation of a Job that was let go by its queue: the activeDeadlineSeconds that are the
	// Job's own, a slash, and those that were set for the time in which it runs.
	DeadlineAnnotation = "fluence.flux-framework.org/deadline"
	// SaidAnnotation is an annotation of a FluxJob: which duration its workload said last. What a user has set
	// in the FluxJob counts until the workload says another one.
	SaidAnnotation = "fluence.flux-framework.org/workload-duration"
)

// QueueOf returns the name of the queue in the first of some labels that have QueueLabel. It returns false if none has.
func QueueOf(labels ...map[string]string) (queue string, said bool) {
	for _, l := range labels {
		if queue, said = l[QueueLabel]; said {
			return queue, true
		}
	}
	return "", false
}

// queueName is the form of the names of Queues that may be values of a label (RFC 1123, section 2.1).
var queueName = regexp.MustCompile(`^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$`)

// CheckQueue returns why a value of QueueLabel cannot be the name of a Queue, in words fit for a user. It returns nil if it
// can, and for no queue.
func CheckQueue(value string) error {
	if len(value) > maxLabelLength || !queueName.MatchString(value) {
		return fmt.Errorf("label %s: %q: cannot be the name of a Queue: a name has lower case letters, digits, dots and hyphens", QueueLabel, value)
	}
	return nil
}

// KueueLabel is the label by which Kueue manages an object (kueue.x-k8s.io/queue-name).
const KueueLabel = "kueue.x-k8s.io/queue-name"

// WhyOthers says why another controller than Fluence decides when a Job runs, in words fit for a user. It returns nothing if none
// does. Such a Job does not wait in queues, and Fluence does not resume it.
func WhyOthers(job *batchv1.Job) string {
	if by := metav1.GetControllerOfNoCopy(job); by != nil {
		return fmt.Sprintf("%s %s controls the Job: only Jobs that nothing controls, and single pods, wait in queues", by.Kind, by.Name)
	}
	if by := ptr.Deref(job.Spec.ManagedBy, batchv1.JobControllerName); by != batchv1.JobControllerName {
		return fmt.Sprintf("spec.managedBy: %q: another controller manages the Job", by)
	}
	if queue, has := job.Labels[KueueLabel]; has {
		return fmt.Sprintf("label %s: %q: Kueue manages the Job", KueueLabel, queue)
	}
	return ""
}

// A Queued is what QueuedAnnotation says of a workload.
type Queued struct {
	// Since is since when it waits. Only microseconds count.
	Since time.Time
	// Held and Duration are what a user had set in a FluxJob that was made anew, because the workload asked for
	// something else.
	Held     bool
	Duration string
}

// String returns the value of the annotation: the time (RFC 3339), then perhaps "held", and perhaps "duration=2h".
func (q Queued) String() string {
	text := q.Since.UTC().Format(metav1.RFC3339Micro)
	if q.Held {
		text += " held"
	}
	if q.Duration != "" {
		text += " duration=" + q.Duration
	}
	return text
}

// ParseQueued reads a value of the annotation. What cannot be read is left out.
func ParseQueued(value string) Queued {
	var q Queued
	for i, field := range strings.Fields(value) {
		key, text, _ := strings.Cut(field, "=")
		switch {
		case i == 0:
			if t, err := time.Parse(time.RFC3339, field); err == nil {
				q.Since = t
			}
		case field == "held":
			q.Held = true
		case key == "duration":
			q.Duration = text
		}
	}
	return q
}

// noDeadline stands in DeadlineAnnotation for a Job without a deadline of its own.
const noDeadline = "none"

// DeadlineNote returns the value of DeadlineAnnotation for a Job with a deadline of its own, nil for none, whose spec gets
// another one. Both are in seconds.
func DeadlineNote(own *int64, set int64) string {
	if own == nil {
		return fmt.Sprintf("%s/%d", noDeadline, set)
	}
	return fmt.Sprintf("%d/%d", *own, set)
}

// ParseDeadlineNote reads a value of DeadlineAnnotation. It returns false if the value cannot be read.
func ParseDeadlineNote(note string) (own *int64, set int64, ok bool) {
	before, after, _ := strings.Cut(note, "/")
	set, err := strconv.ParseInt(after, 10, 64)
	if err != nil {
		return nil, 0, false
	}
	if n, err := strconv.ParseInt(before, 10, 64); err == nil {
		own = &n
	}
	return own, set, true
}

// OwnDeadline returns the activeDeadlineSeconds that are a Job's own, of those in its spec and the value of
// DeadlineAnnotation. It is nil if there are none.
func OwnDeadline(deadline *int64, note string) *int64 {
	own, set, ok := ParseDeadlineNote(note)
	if !ok || !ptr.Equal(deadline, &set) {
		return deadline // nobody has set it, or somebody has changed it since
	}
	return own
}

// RestoreDeadline gives a Job that leaves its queue its own deadline again, and removes the note, in a merge patch of its
// annotations and spec. Without a note it does nothing.
func RestoreDeadline(deadline *int64, note string, annotations, spec map[string]any) {
	if note == "" {
		return
	}
	annotations[DeadlineAnnotation] = nil
	switch own := OwnDeadline(deadline, note); {
	case ptr.Equal(own, deadline):
	case own == nil:
		spec["activeDeadlineSeconds"] = nil
	default:
		spec["activeDeadlineSeconds"] = *own
	}
}
