package podgroup

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// observation is all that is known of a group at one time.
type observation struct {
	key types.NamespacedName
	// podGroup is nil where there is none.
	podGroup *scheduling.PodGroup
	// pods are those of the group that ask for the scheduler, and parts the Jobs,
	// ReplicaSets and StatefulSets whose pods are or will be of the group.
	pods      []*corev1.Pod
	podOwners []podOwner
	// topOwners are the objects that all of these are of and, if this controller made
	// the PodGroup, those that it refers to.
	topOwners []topOwner
	// unseen says that what controls a pod was not seen yet.
	unseen bool
	now    time.Time
	// after is when what is known may be out of date, 0 if only an event tells.
	after time.Duration
	// legacyCRD says that the CRD has only the fields of scheduler-plugins.
	legacyCRD bool
}

// memory is what the controller remembers of a group from one look to the next.
// It is lost with the process: then waiting begins anew, an event may be told twice, and
// no pod of a group is evicted before the group was seen whole.
type memory struct {
	// uid is the PodGroup that this is about, empty while there is none.
	uid types.UID
	// hadPods says that the group has had pods.
	hadPods bool
	// staleSince is since when numbers in the status have been out of date.
	staleSince time.Time
	// emptySince is since when the group has had no pods.
	emptySince time.Time
	// complete says that the group has its minimum of pods, reportedComplete what was told
	// of that since it last started, and invalid what was told to be wrong.
	complete         bool
	reportedComplete string
	reportedInvalid  string
	shortfall        shortfall
}

// A decision is what to do for a group. Fields that are unset ask for nothing.
type decision struct {
	// create is the PodGroup to make. Nothing else is set beside it but events
	// about it.
	create *scheduling.PodGroup
	// apply is what to write of its metadata and spec, and then nothing else is.
	apply *spec
	// status is the status to write, of which fields of others are left out.
	status *scheduling.PodGroupStatus
	// evict are pods to evict, after the status is written.
	evict []*corev1.Pod
	// remove asks for the PodGroup's removal.
	remove bool
	// after is when to decide again though nothing was seen to change.
	after  time.Duration
	events []pendingEvent
}

// A spec is what this controller writes of a PodGroup beside its status.
type spec struct {
	owners []metav1.OwnerReference
	// minMember is 0 where it is a user's.
	minMember int32
}

// decide says what to do for a group, and what to remember.
func (c Config) decide(o observation, m memory) (decision, memory) {
	if o.podGroup == nil {
		return c.decideOnCreation(o, m)
	}
	if m.uid != o.podGroup.UID {
		m = memory{uid: o.podGroup.UID}
	}
	made := c.isManaged(o.podGroup)
	switch {
	case o.podGroup.DeletionTimestamp != nil:
		return decision{}, m
	case len(o.pods) == 0 && !made && !m.hadPods:
		// Nobody asks for our scheduler: it may be another's.
		return decision{}, memory{}
	}
	m.hadPods = m.hadPods || len(o.pods) > 0
	if made && len(o.podGroup.OwnerReferences) > 0 && !o.hasOwner() {
		// It goes with its owners; what becomes of the pods meanwhile is not its story.
		return c.decideOnOrphan(o, m)
	}
	d, m := c.decideOnRemoval(o, m)
	if d.remove {
		return d, m
	}
	w := c.wantedSize(o)
	if s := c.wantedSpec(o, w); s != nil {
		// The status tells of the spec: it is written when the new one is seen.
		return decision{apply: s, after: o.after}, m
	}
	return c.decideOnStatus(o, m, w, d)
}

// decideOnStatus adds to a decision what is to be told about a group.
func (c Config) decideOnStatus(o observation, m memory, w wantedSize, d decision) (decision, memory) {
	before, next := &o.podGroup.Status, nextStatus(o, w)
	v := c.decideOnIncomplete(o, w, m.shortfall)
	if !o.legacyCRD {
		v.setCondition(o, &next)
	}
	m.shortfall = v.shortfall
	d.evict = v.evict
	write, after, stale := c.due(before, &next, m.staleSince, o.now)
	m.staleSince = stale
	if write || v.mustWrite {
		d.status = &next
		d.events = append(d.events, endEvents(before.Phase, &next)...)
	}
	d.events = append(d.events, v.events...)
	d.after = sooner(sooner(d.after, after), sooner(v.after, sooner(o.after, o.untilItEnds())))
	d.events = append(d.events, m.newEvents(o, w)...)
	return d, m
}

// hasOwner says that one of the owners is there to stay.
func (o observation) hasOwner() bool {
	for _, w := range o.topOwners {
		if w.canOwn() {
			return true
		}
	}
	return false
}

// Times between two looks at an owner that is not watched and is about to end: of
// its pods some, or all, have ended already.
const (
	someEnded = 30 * time.Second
	allEnded  = 5 * time.Second
)

// untilItEnds returns when to look again whether an owner has ended; 0 is when
// something else happens.
func (o observation) untilItEnds() time.Duration {
	for _, w := range o.topOwners {
		if !w.ends || w.hasEnded() || w.owner.Followed() || w.lookup != readable {
			continue
		}
		c := countOf(o.pods)
		ended := c.succeeded+c.failed > 0
		for _, p := range o.podOwners {
			ended = ended || p.donePods() > 0
		}
		switch {
		case ended && c.onNodes > 0:
			return someEnded
		case ended:
			return allEnded
		}
	}
	return 0
}
