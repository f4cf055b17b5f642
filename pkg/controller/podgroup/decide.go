package podgroup

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// observation is all that is known about a group at one moment.
type observation struct {
	key types.NamespacedName
	// podGroup is nil if there is none.
	podGroup *scheduling.PodGroup
	// pods are the pods of the group that ask for the scheduler.
	pods []podSet
	// podOwners are the Jobs, ReplicaSets and StatefulSets
	// whose pods are, or will be, of the group.
	podOwners []podOwner
	// otherSchedulers says which Jobs and so on are of the group,
	// and ask for another scheduler. Their pods do not count.
	otherSchedulers []string
	// topOwners are the owners at the top of these pods and podOwners. If
	// this controller made the PodGroup, its owner references are among them.
	topOwners []topOwner
	// needsMinimum is true if the group is of a native PodGroup, and pods of it start together by the
	// rules of Fluence. See group.Identity.
	needsMinimum bool
	// inNative is true if pods of the group's owner are in a native PodGroup.
	inNative bool
	// outside has for each top owner how many of its live pods are in other groups: in native
	// PodGroups by their names, and in groups of Fluence under "". A group of Fluence has no "".
	outside map[types.UID]map[string]int32
	// ownerNotCached is true if a pod's owner is not in the cache yet.
	ownerNotCached bool
	now            time.Time
	// firstSeen is memory.firstSeen. decide sets it.
	firstSeen time.Time
	// requeueAfter is the time after which the owners have to be read again. Zero means not before
	// the next event.
	requeueAfter time.Duration
	lacking
}

// lacking says which fields an older CRD lacks.
type lacking struct {
	// legacyCRD is true if the CRD has only the fields of scheduler-plugins.
	legacyCRD bool
	// noTemplates is true if the CRD lacks spec.templates, and noDesired if it lacks status.desired.
	noTemplates, noDesired bool
}

// memory is the state that the controller keeps about a group from one reconcile to the next. It is
// lost with the process. After a restart the delays begin again, an event may be sent twice, and no
// pod of a group is evicted before the controller has seen the group complete.
type memory struct {
	// uid is the PodGroup that this memory is about. It is "" if there is none.
	uid types.UID
	// firstSeen is the time at which the controller first saw the PodGroup with a pod, or created
	// it. See firstStatusAt and createdDelay.
	firstSeen time.Time
	// created is the text of the event that the controller has created the PodGroup. It is "" if
	// that was sent.
	created string
	// complete is the text of a Complete event that is held. See eventsHeldFor.
	complete string
	// quiet is true if the PodGroup was seen with the CRD's default status, and nothing was told of
	// it yet.
	quiet bool
	// hadPods is true if the group has had pods.
	hadPods bool
	stale   staleness
	// wantedNone is true if the group's owners were seen to want no pods. See withDesired.
	wantedNone bool
	// boundSince is the time since which the phase is Scheduling. It is zero in other phases.
	boundSince time.Time
	// gathersSince is the time since which the group has pods, and fewer than its minimum. It is zero
	// if it has none or enough.
	gathersSince time.Time
	// emptySince is the time since which the PodGroup has had no pods and waits to be removed. It
	// is zero if the PodGroup does not wait.
	emptySince time.Time
	// enoughPods is true if at least as many pods exist as the group's minimum.
	enoughPods bool
	// reportedComplete is the text of the last Complete event since the group last started.
	reportedComplete string
	// reportedInvalid is the text of the last event about an invalid label or annotation.
	reportedInvalid string
	// reportedWarnings has the texts of the last events about sizes that are valid, and probably not meant.
	reportedWarnings string
	// reportedKeys is the text of the last event about labels and annotations without an effect.
	reportedKeys string
	// readKeys has the versions of the objects whose keys were read last. See keyVersions.
	readKeys  uint64
	shortfall shortfall
	members   membersTold
}

// A decision says what to do for a group. An unset field asks for nothing.
type decision struct {
	// create is the PodGroup to create. If it is set, nothing else is set.
	create *scheduling.PodGroup
	// apply has the fields of metadata and spec to write. If it is set, nothing else is written.
	apply *fieldsToApply
	// status is the status to write. applyStatus leaves out the fields of other managers.
	status *scheduling.PodGroupStatus
	// passingUntil is the time until which status may wait for its turn, because it has only numbers, or
	// only says that pods have nodes. It is zero if status must be written now. See passingStatusRate.
	passingUntil time.Time
	// evict are the pods to evict after the status is written.
	evict []podSet
	// remove asks to remove the PodGroup.
	remove bool
	// requeueAfter is the time after which to decide again without an event. Zero means never.
	requeueAfter time.Duration
	events       []pendingEvent
}

// fieldsToApply are the fields of a PodGroup, outside its status, that this controller writes.
type fieldsToApply struct {
	owners []metav1.OwnerReference
	// minMember is 0 if a user has set it.
	minMember int32
	templates []scheduling.PodsOfTemplate
}

// decide returns what to do for a group, and what to remember of it.
func (c Config) decide(o observation, m memory) (decision, memory) {
	if o.podGroup == nil {
		return c.decideOnCreation(o, m)
	}
	if m.uid != o.podGroup.UID {
		was := m
		m = memory{uid: o.podGroup.UID, firstSeen: o.now}
		if was.uid == "" {
			m.created = was.created // it is about this object, which was made a moment ago
		}
	}
	o.firstSeen = m.firstSeen
	made := c.isManaged(o.podGroup)
	switch {
	case o.podGroup.DeletionTimestamp != nil:
		return decision{}, m
	case len(o.pods) == 0 && !made && !m.hadPods:
		// No pod of the group asks for this scheduler, so the PodGroup may belong to another
		// scheduler.
		return decision{}, memory{}
	}
	m.hadPods = m.hadPods || len(o.pods) > 0
	if made && len(o.podGroup.OwnerReferences) > 0 && !o.hasLiveOwner() {
		// The garbage collector deletes the PodGroup with its owners. Until then its status stays
		// as it is.
		return c.decideOnOrphan(o, m)
	}
	d, m := c.decideOnRemoval(o, m)
	if d.remove {
		return d, m
	}
	w := c.wantedSize(o)
	if s := c.wantedFields(o, w); s != nil {
		// The status depends on the spec. It is written when the API server shows the new spec.
		return decision{apply: s, requeueAfter: o.requeueAfter}, m
	}
	return c.decideOnStatus(o, m, w, d)
}

// decideOnStatus adds to a decision the status and the events that are due.
func (c Config) decideOnStatus(o observation, m memory, w sizeDecision, d decision) (decision, memory) {
	before, next := &o.podGroup.Status, nextStatus(o, w)
	v := c.decideOnIncomplete(o, w, m.shortfall)
	if !o.legacyCRD {
		v.setCondition(o, &next)
	}
	d.events = append(d.events, m.members.newEvents(o, w, &next, m.shortfall, c.IncompleteTimeout)...)
	m.shortfall = v.shortfall
	d.evict = v.evict
	m.boundSince, m.gathersSince = boundSince(m.boundSince, &next, o.now), o.gathersSince(m.gathersSince, w)
	m.wantedNone = m.wantedNone || o.idle()
	shown := before
	if !m.wantedNone {
		shown = withDesired(before, next.Desired)
	}
	passingUntil := c.passingUntil(o, before, &next, m)
	write, requeueAfter, stale := c.due(shown, &next, m.stale, w.minMember, o.now)
	if write && o.canBeHeld(&next) {
		if wait := c.firstStatusAt(o, &next, m).Sub(o.now); wait > 0 {
			write, requeueAfter, stale = false, wait, staleness{since: m.boundSince}
		}
	}
	m.stale = stale
	if write || v.mustWrite {
		d.status = &next
		if !v.mustWrite && passingUntil.After(o.now) {
			d.passingUntil = passingUntil
		}
		d.events = append(d.events, endEvents(before.Phase, &next)...)
	}
	d.events = append(d.events, v.events...)
	d.requeueAfter = sooner(sooner(d.requeueAfter, requeueAfter), sooner(v.requeueAfter, sooner(o.requeueAfter, o.endPollInterval())))
	d.events = append(d.events, m.newEvents(o, w)...)
	var wait time.Duration
	m.quiet = (m.quiet || o.hasDefaultStatus()) && o.isUnrefused() && meta.IsStatusConditionTrue(next.Conditions, ConditionValid)
	if m.quiet {
		switch wait = c.eventsHeldFor(o, &next, m.boundSince); {
		case wait > 0:
			d.events = m.holdComplete(d.events)
			d.requeueAfter = sooner(d.requeueAfter, wait)
			return d, m
		case next.Phase == scheduling.PodGroupRunning || next.Phase == scheduling.PodGroupFinished:
			d.events = m.holdComplete(d.events)
			m.created, m.complete, m.quiet = "", "", false
			return d, m
		}
		m.quiet = false
	}
	d.events, wait = m.withCreated(m.withComplete(d.events), o.now)
	d.requeueAfter = sooner(d.requeueAfter, wait)
	return d, m
}

// hasLiveOwner reports whether an owner exists and is not being deleted.
func (o observation) hasLiveOwner() bool {
	for _, top := range o.topOwners {
		if top.isLive() {
			return true
		}
	}
	return false
}

// The intervals at which the controller polls an owner of a kind that is not watched, once a pod of
// the group has ended: endPollWhileRunning while other pods are still on nodes, and
// endPollAfterPods when none is left.
const (
	endPollWhileRunning = 30 * time.Second
	endPollAfterPods    = 5 * time.Second
)

// endPollInterval returns the time after which to read again whether an owner has ended. Zero means
// that no such read is needed.
func (o observation) endPollInterval() time.Duration {
	for _, top := range o.topOwners {
		if !top.reportsEnd || top.hasEnded() || top.owner.Watched() || top.state != readable {
			continue
		}
		c := countOf(o.pods)
		ended := c.succeeded+c.failed > 0
		for _, p := range o.podOwners {
			ended = ended || p.donePods() > 0
		}
		switch {
		case ended && c.onNodes > 0:
			return endPollWhileRunning
		case ended:
			return endPollAfterPods
		}
	}
	return 0
}
