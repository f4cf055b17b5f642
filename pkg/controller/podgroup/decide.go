package podgroup

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// observed is all that is known of a group at one time.
type observed struct {
	key types.NamespacedName
	// podGroup and job are nil where there is none. A Job stands here if its pods
	// are of this group by the Job's name, not by a label of their own.
	podGroup *scheduling.PodGroup
	job      *batchv1.Job
	// pods are those of the group that ask for the scheduler.
	pods []*corev1.Pod
	now  time.Time
	// plainCRD says that the CRD has only the fields of scheduler-plugins.
	plainCRD bool
}

// memory is what the controller remembers of a group from one look to the next.
// It is lost with the process: then waiting begins anew, and an event may be
// told twice.
type memory struct {
	// seen says that the group has had pods.
	seen bool
	// stale is since when numbers in the status have been out of date.
	stale time.Time
	// empty is since when the group has had no pods.
	empty time.Time
	// complete says that the event of this name was told, invalid which wrong
	// label was.
	complete bool
	invalid  string
}

// A decision is what to do for a group. Fields that are unset ask for nothing.
type decision struct {
	// create is the PodGroup to make. Nothing else is set beside it but events
	// about it.
	create *scheduling.PodGroup
	// minMember is the spec to write, and then nothing else is.
	minMember int32
	// status is the status to write, of which fields of others are left out.
	status *scheduling.PodGroupStatus
	// remove asks for the PodGroup's removal.
	remove bool
	// after is when to decide again though nothing was seen to change.
	after  time.Duration
	events []note
}

// decide says what to do for a group, and what to remember.
func (c Config) decide(o observed, m memory) (decision, memory) {
	switch pg := o.podGroup; {
	case pg == nil:
		return c.decideToMake(o, m)
	case pg.DeletionTimestamp != nil:
		return decision{}, m
	case len(o.pods) == 0 && !c.madeHere(pg) && !m.seen:
		// Nobody asks for our scheduler: it may be another's.
		return decision{}, memory{}
	}
	m.seen = m.seen || len(o.pods) > 0
	if c.madeHere(o.podGroup) && len(o.podGroup.OwnerReferences) > 0 && (o.job == nil || o.job.DeletionTimestamp != nil) {
		// It goes with its Job; what becomes of the pods meanwhile is not its story.
		return decision{}, m
	}
	d, m := c.decideOnRemoval(o, m)
	if d.remove {
		return d, m
	}
	w := c.wantedSize(o)
	if c.madeHere(o.podGroup) && o.podGroup.Spec.MinMember != w.minMember {
		// The status tells of the spec: it is written when the new one is seen.
		return decision{minMember: w.minMember}, m
	}
	before, next := &o.podGroup.Status, nextStatus(o, w)
	write, after, stale := c.due(before, &next, w.minMember, m.stale, o.now)
	m.stale = stale
	if write {
		d.status = &next
		d.events = append(d.events, endingOf(before.Phase, &next)...)
	}
	if after > 0 && (d.after == 0 || after < d.after) {
		d.after = after
	}
	d.events = append(d.events, m.tell(o, w)...)
	return d, m
}
