package fluxjob

import (
	"fmt"
	"strconv"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
)

// maxDurationText is the largest number of bytes of the duration of a FluxJob.
const maxDurationText = 32

// saidBy returns the duration that a workload says, a Flux Standard Duration (RFC 23). The annotation goes first, then the
// workload's own deadline, then that of its pods. With an error, which is in words fit for a user, the duration is empty.
func saidBy(w *workload) (duration string, err error) {
	template := &w.asked.template
	if value := template.Annotations[group.DurationAnnotation]; value != "" {
		if _, err = group.ParseDuration(value); err == nil && len(value) > maxDurationText {
			err = fmt.Errorf("annotation %s: %q: must have at most %d characters", group.DurationAnnotation, value, maxDurationText)
		}
		if err != nil {
			return "", err
		}
		return value, nil
	}
	seconds := w.ownDeadline()
	if seconds == nil && w.isJob() {
		seconds = template.Spec.ActiveDeadlineSeconds
	}
	if seconds == nil || *seconds <= 0 {
		return "", nil
	}
	return strconv.FormatInt(min(*seconds, maxSeconds), 10) + "s", nil
}

// sayDuration sets the duration of a FluxJob if the workload says another one than it did last. What a user has
// set in the meantime stays.
func sayDuration(fj *v1alpha1.FluxJob, said string) {
	if fj.Annotations[group.SaidAnnotation] == said {
		return
	}
	fj.Spec.Duration = said
	setAnnotation(fj, group.SaidAnnotation, said)
}

// setByUser returns what a user has set in a FluxJob, as it is noted of the workload while the FluxJob is made anew.
func setByUser(fj *v1alpha1.FluxJob) group.Queued {
	q := group.Queued{Held: fj.Spec.Held}
	if fj.Spec.Duration != fj.Annotations[group.SaidAnnotation] {
		q.Duration = fj.Spec.Duration
	}
	return q
}
