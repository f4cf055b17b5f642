package podgroup

import (
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// madeHere says that this controller made a PodGroup: it is marked as such, and
// the API server remembers who wrote it. The marks alone may have been copied
// from one PodGroup to another.
func (c Config) madeHere(pg *scheduling.PodGroup) bool {
	if pg.Labels[ManagedByLabel] != ManagedByValue || pg.Annotations[SchedulerAnnotation] != c.SchedulerName {
		return false
	}
	for _, f := range pg.ManagedFields {
		if f.Manager == FieldManager && f.Subresource == "" {
			return true
		}
	}
	return false
}
