package fluxjob

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
)

// A said is what a workload says itself of what users may set in its FluxJob.
type said struct {
	// duration is a Flux Standard Duration (RFC 23). It is empty if the workload says none, or a wrong one.
	duration string
	priority int32
	// err is what is wrong with the duration, in words fit for a user.
	err error
}

// saidBy returns what a workload says. The annotation goes first, then the workload's own deadline, then that of its pods.
// priority is that of its pods' PriorityClass.
func saidBy(w *workload, priority int32) said {
	s := said{priority: min(priority, maxPriority)}
	template := &w.asked.template
	if value := template.Annotations[group.DurationAnnotation]; value != "" {
		if _, s.err = group.ParseDuration(value); s.err == nil && len(value) > maxDurationText {
			s.err = fmt.Errorf("annotation %s: %q: must have at most %d characters", group.DurationAnnotation, value, maxDurationText)
		}
		if s.err == nil {
			s.duration = value
		}
		return s
	}
	seconds := w.ownDeadline()
	if seconds == nil && w.isJob() {
		seconds = template.Spec.ActiveDeadlineSeconds
	}
	if seconds != nil && *seconds > 0 {
		s.duration = strconv.FormatInt(*seconds, 10) + "s"
	}
	return s
}

// maxPriority is the highest priority of a FluxJob. Kubernetes has higher ones for its own pods.
const maxPriority = 1_000_000_000

// maxDurationText is the largest number of bytes of the duration of a FluxJob.
const maxDurationText = 32

// text is the value of group.SaidAnnotation.
func (s said) text() string { return fmt.Sprintf("duration=%s priority=%d", s.duration, s.priority) }

// lastSaid returns what the workload of a FluxJob said last.
func lastSaid(fj *v1alpha1.FluxJob) said {
	var s said
	for field := range strings.FieldsSeq(fj.Annotations[group.SaidAnnotation]) {
		switch key, value, _ := strings.Cut(field, "="); key {
		case "duration":
			s.duration = value
		case "priority":
			n, err := strconv.ParseInt(value, 10, 32)
			if err == nil {
				s.priority = int32(n)
			}
		}
	}
	return s
}

// apply sets the duration and the priority of a FluxJob where the workload says something else than it did when they were
// set last. What a user has set in the meantime stays.
func (s said) apply(fj *v1alpha1.FluxJob) {
	before, isNew := lastSaid(fj), fj.UID == ""
	if isNew || before.duration != s.duration {
		fj.Spec.Duration = s.duration
	}
	if isNew || before.priority != s.priority {
		fj.Spec.Priority = s.priority
	}
	setAnnotation(fj, group.SaidAnnotation, s.text())
}
