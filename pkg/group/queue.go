package group

import (
	"fmt"
	"regexp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
)

// QueueLabel is the label of the same name in package v1alpha1 of apis/fluence. The value of a Job goes before that of its
// pod template. An empty value is no queue, also where a queue is the default.
const QueueLabel = v1alpha1.QueueLabel

// The annotations of workloads in queues, and of their FluxJobs. Users do not write them.
const (
	// QueuedAnnotation is the annotation SuspendedAnnotation of package v1alpha1 of apis/fluence.
	QueuedAnnotation = v1alpha1.SuspendedAnnotation
	// DeadlineAnnotation is an annotation of a Job that was let go by its queue: the activeDeadlineSeconds that are the
	// Job's own, a slash, and those that were set for the time in which it runs.
	DeadlineAnnotation = "fluence.flux-framework.org/deadline"
	// SaidAnnotation is an annotation of a FluxJob: which duration and priority its workload said last.
	// What a user has set in the FluxJob counts until the workload says something else.
	SaidAnnotation = "fluence.flux-framework.org/workload-says"
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
		return fmt.Errorf("label %s: %q: cannot be the name of a Queue: a name has lower case letters, digits, - and .", QueueLabel, value)
	}
	return nil
}

// QueuedSince returns the value of QueuedAnnotation for a time.
func QueuedSince(t time.Time) string { return t.UTC().Format(metav1.RFC3339Micro) }

// ParseQueuedSince reads a value of QueuedAnnotation. It returns the zero time if it is no time.
func ParseQueuedSince(value string) time.Time {
	t, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return time.Time{}
	}
	return t
}
