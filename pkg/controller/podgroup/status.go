package podgroup

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// ConditionValid is the type of the condition that shows whether the labels
// and annotations of a group can be read. While a label is invalid no pod
// of the group starts. For an invalid annotation its default applies.
const ConditionValid = "Valid"

// conditionScheduled is the type of the scheduler's condition, report.ConditionScheduled. The
// controller does not import package report, which needs the packages of kube-scheduler.
const conditionScheduled = "Scheduled"

// nextStatus returns the wanted status. Fields of other writers stay as they are.
func nextStatus(o observation, w sizeDecision) scheduling.PodGroupStatus {
	s := *o.podGroup.Status.DeepCopy()
	c := countOf(o.pods)
	s.Phase = phaseOf(s.Phase, c, w.minMember, o.ownerVerdict())
	if rest := o.restPhase(); c.onNodes == 0 && !final(s.Phase) && rest != "" {
		s.Phase = rest
	}
	if c.members > 0 || !final(s.Phase) {
		s.Running, s.Succeeded, s.Failed = c.running, c.succeeded, c.failed
	}
	if s.OccupiedBy == "" {
		s.OccupiedBy = occupant(o)
	}
	if o.legacyCRD {
		return s
	}
	s.Scheduled = c.onNodes
	if !o.noDesired {
		s.Desired = o.desired(s, c, w)
	}
	if s.CreationTime == nil || s.CreationTime.IsZero() {
		s.CreationTime = new(creationTime(o))
	}
	valid := metav1.Condition{
		Type: ConditionValid, Status: metav1.ConditionTrue, Reason: reason.ValidGroupSize, Message: w.message,
		ObservedGeneration: o.podGroup.Generation, LastTransitionTime: metav1.NewTime(o.now),
	}
	if because, text := o.whyInvalid(w); because != "" {
		valid.Status, valid.Reason, valid.Message = metav1.ConditionFalse, because, text
	}
	meta.SetStatusCondition(&s.Conditions, valid)
	o.setExpected(&s, c, w)
	o.setFinished(&s)
	return s
}

// restPhase returns the phase of a group without pods on nodes whose owners make no pods for now. It
// returns "" if they do.
func (o observation) restPhase() scheduling.PodGroupPhase {
	switch {
	case o.idle():
		return scheduling.PodGroupIdle
	case o.whySuspended() != "":
		return scheduling.PodGroupSuspended
	}
	return ""
}

// desired returns the number of pods that the group wants: its size, or all its pods while nothing says a
// size. Pods beyond the size, such as those of a rollout, do not count. A group that has ended keeps the number.
func (o observation) desired(s scheduling.PodGroupStatus, c counts, w sizeDecision) int32 {
	switch {
	case o.idle():
		return 0
	case final(s.Phase):
		return cmp.Or(s.Desired, max(w.minMember, w.size))
	case w.valid && !w.unknown:
		return max(w.minMember, w.size)
	}
	return max(w.minMember, w.size, c.unended)
}

// setExpected sets or removes the condition MembersExpected.
func (o observation) setExpected(s *scheduling.PodGroupStatus, c counts, w sizeDecision) {
	because, text := reason.Suspended, o.whySuspended()
	if text == "" && c.failed > 0 && c.onNodes == 0 && c.unended < w.minMember && !final(s.Phase) {
		because, text = reason.MembersFailed, o.whoFailed()
	}
	if text == "" {
		meta.RemoveStatusCondition(&s.Conditions, scheduling.ConditionMembersExpected)
		return
	}
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: scheduling.ConditionMembersExpected, Status: metav1.ConditionFalse, Reason: because, Message: clip(text),
		ObservedGeneration: o.podGroup.Generation, LastTransitionTime: metav1.NewTime(o.now),
	})
}

// whySuspended says which owners of the group are suspended. It returns "" if an owner makes pods, or
// if all have ended. A Deployment counts as suspended if its ReplicaSets want no pods.
func (o observation) whySuspended() string {
	idle := o.idle()
	var suspended []string
	for _, top := range o.activeOwners() {
		if !top.suspended && !idle {
			return ""
		}
		suspended = append(suspended, top.owner.Kind+"/"+top.owner.Name)
	}
	switch {
	case len(suspended) == 0:
		return ""
	case len(suspended) > 1:
		return fmt.Sprintf("%s and %s more are suspended", suspended[0], reason.Plural(len(suspended)-1, "owner"))
	case idle:
		return suspended[0] + " wants no pods for now"
	}
	text := suspended[0] + " is suspended"
	if o.isMarked() {
		text += " by the scheduler, to make room for a group of higher priority; it is resumed when its pods have gone"
	}
	return text
}

// whoFailed says which pods of the group have failed and are still there. It names one of them.
func (o observation) whoFailed() string {
	name, more := "", int32(-1)
	for _, set := range o.pods {
		if set.pod.Status.Phase == corev1.PodFailed && set.pod.DeletionTimestamp == nil {
			name, more = cmp.Or(name, set.pod.Name), more+set.n
		}
	}
	switch {
	case more < 0:
		return ""
	case more == 0:
		return "pod " + name + " has failed"
	}
	return fmt.Sprintf("pod %s and %d more have failed", name, more)
}

// whyInvalid returns a reason and a text for the first
// invalid label or annotation. Both are "" if all are valid.
func (o observation) whyInvalid(w sizeDecision) (because, text string) {
	if !w.valid {
		return reason.InvalidGroupSize, clip(w.message)
	}
	if _, _, err := o.incompletePolicy(0); err != nil {
		return reason.InvalidAnnotation, clip(err.Error())
	}
	if err := o.wrongDuration(); err != nil {
		return reason.InvalidAnnotation, clip(err.Error())
	}
	stages, err := o.annotation(group.StagesAnnotation)
	if err := cmp.Or(err, group.ValidateStages(stages)); err != nil {
		return reason.InvalidAnnotation, clip(err.Error())
	}
	return "", ""
}

// maxText bounds the bytes of text from labels, annotations and errors of the API server in a
// message. An event may have 1024 bytes, and an annotation far more.
const maxText = 900

// clip cuts a text to maxText.
func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "..."
}

// occupant names the workload of a group as scheduler-plugins
// does: the namespace and the name of an owner of its pods.
func occupant(o observation) string {
	for _, top := range o.topOwners {
		if top.state != missing {
			return o.key.Namespace + "/" + top.owner.Name
		}
	}
	for _, set := range o.pods {
		if owner := metav1.GetControllerOfNoCopy(set.pod); owner != nil {
			return set.pod.Namespace + "/" + owner.Name
		}
	}
	return ""
}

// creationTime returns when the controller first saw the group, clamped to the second in which the
// group began to wait. The timestamps of the API server say which second that is. So a controller
// that is late, or whose clock is wrong, does not change the order of groups that are a second or
// more apart. For a group without a PodGroup it is the time for CreationTimeAnnotation.
func creationTime(o observation) metav1.MicroTime {
	t := o.now
	if !o.firstSeen.IsZero() {
		t = o.firstSeen
	}
	t = t.Truncate(time.Microsecond)
	since := t.Truncate(time.Second)
	if o.podGroup != nil {
		since = o.podGroup.CreationTimestamp.Time
		if said, err := time.Parse(metav1.RFC3339Micro, o.podGroup.Annotations[scheduling.CreationTimeAnnotation]); err == nil {
			t = said
		}
	}
	if len(o.topOwners) == 1 && !o.topOwners[0].waitingSince.IsZero() {
		since = o.topOwners[0].waitingSince
	}
	if last := since.Add(time.Second - time.Microsecond); t.After(last) {
		t = last
	}
	if t.Before(since) {
		t = since
	}
	return metav1.NewMicroTime(t)
}

// due reports whether a status must be written now. If not, requeueAfter is the time after which to
// check again. Zero means at the next event. next is what to remember.
func (c Config) due(before, after *scheduling.PodGroupStatus, s staleness, minMember int32, now time.Time) (write bool, requeueAfter time.Duration, next staleness) {
	if urgent(before, after) {
		return true, 0, staleness{}
	}
	if before.Phase == after.Phase && sameDetails(before, after) {
		s.since = time.Time{}
		return false, 0, s
	}
	if s.since.IsZero() {
		s.since = now
	}
	delay := s.delayOf(c)
	if reaches(before, after, minMember) {
		delay = c.CountDelay
	}
	if wait := s.since.Add(delay).Sub(now); wait > 0 {
		return false, wait, s
	}
	return true, 0, staleness{written: now, delay: s.delayOf(c)}
}

// A staleness is what the controller keeps about minor changes of a status, from one reconcile to the
// next.
type staleness struct {
	// since is the time since which the status has been out of date. It is zero unless a write of the
	// status is being held back.
	since time.Time
	// written is the time of the last write for such a change alone, and delay is how long it was held.
	written time.Time
	delay   time.Duration
}

// delayOf returns the time for which a minor change is held: CountDelay after a quiet time, and twice
// the last delay while changes go on.
func (s staleness) delayOf(c Config) time.Duration {
	if s.written.IsZero() || s.since.Sub(s.written) >= c.StatusDelay {
		return c.CountDelay
	}
	return min(c.StatusDelay, 2*s.delay)
}

// reaches reports whether the number of pods on nodes has become one that users wait for: none, the
// minimum, or all.
func reaches(before, after *scheduling.PodGroupStatus, minMember int32) bool {
	return before.Scheduled != after.Scheduled && (after.Scheduled == 0 || after.Scheduled == minMember || after.Scheduled == after.Desired)
}

// boundSince returns the time since which the phase is Scheduling, or zero in another phase.
func boundSince(since time.Time, next *scheduling.PodGroupStatus, now time.Time) time.Time {
	if next.Phase != scheduling.PodGroupScheduling {
		return time.Time{}
	}
	return cmp.Or(since, now)
}

// firstStatusDelay is the time for which the first status of a group is held at least. A group that
// starts within it has a first status that says that it runs, and so costs one write less.
const firstStatusDelay = time.Second

// canBeHeld reports whether a status is the first one of a group and says nothing that a user has
// to know at once: the group has not started, and its labels and annotations are valid. It must
// not change the creation time either, by which the scheduler orders groups.
func (o observation) canBeHeld(next *scheduling.PodGroupStatus) bool {
	shown := scheduling.CreationTime(o.podGroup)
	return (o.podGroup.Status.Phase == "" || o.hasDefaultStatus()) && waits(next.Phase) && !meta.IsStatusConditionFalse(next.Conditions, ConditionValid) &&
		meta.FindStatusCondition(next.Conditions, scheduling.ConditionMembersExpected) == nil &&
		(next.CreationTime == nil || next.CreationTime.Equal(&shown))
}

// waits reports whether a group with this phase has not started.
func waits(p scheduling.PodGroupPhase) bool {
	return p == scheduling.PodGroupPending || p == scheduling.PodGroupScheduling
}

// hasDefaultStatus reports whether the PodGroup has the status that the CRD gives to a new one, and
// the controller has written none. An older CRD has no default, and what it keeps of a status of the
// controller has occupiedBy.
func (o observation) hasDefaultStatus() bool {
	s := &o.podGroup.Status
	return !o.legacyCRD && s.Phase == scheduling.PodGroupPending && s.OccupiedBy == "" && s.CreationTime == nil && meta.FindStatusCondition(s.Conditions, ConditionValid) == nil
}

// isUnrefused reports whether the scheduler has not refused the group. A group that gathers its
// pods, or waits for binds, is about to start, and the scheduler's condition says so.
func (o observation) isUnrefused() bool {
	c := meta.FindStatusCondition(o.podGroup.Status.Conditions, conditionScheduled)
	return c == nil || c.Status == metav1.ConditionTrue || reason.PropertiesOf(c.Reason).Passing
}

// gatheringDelay is the time for which the first status of a group is held that has some of its pods and lacks
// others. An owner that makes all pods at once needs less.
const gatheringDelay = 2 * time.Second

// gathersSince returns the time since which the group has pods, and fewer than it starts with. It is zero for
// another group.
func (o observation) gathersSince(since time.Time, w sizeDecision) time.Time {
	if n := countOf(o.pods).unended; n == 0 || n >= w.minMember {
		return time.Time{}
	}
	return cmp.Or(since, o.now)
}

// firstStatusAt returns the time until which a first status that can be held is held.
func (c Config) firstStatusAt(o observation, next *scheduling.PodGroupStatus, m memory) time.Time {
	atLeast, atMost := o.firstSeen.Add(firstStatusDelay), o.firstSeen.Add(c.FirstStatusDelay)
	switch at := m.gathersSince.Add(gatheringDelay); {
	case !o.hasDefaultStatus(), !o.isUnrefused(), next.Phase == scheduling.PodGroupScheduling && m.boundSince.Before(atLeast):
		return atLeast
	case next.Phase == scheduling.PodGroupScheduling:
		return m.boundSince.Add(c.CountDelay)
	case !m.gathersSince.IsZero() && at.Before(atMost):
		return at
	default:
		return atMost
	}
}

// Statuses that only have other numbers, or only say that pods have nodes and do not run yet, are
// written at passingStatusRate a second, after a burst of passingStatusBurst. Where many groups start
// at once, the API server is busy with their binds, and most of the groups run before their turn. A
// status does not wait for its turn for more than StatusDelay. The first one of a group that only says
// that pods have nodes waits for passingStatusDelay at most, and the first one of a group that gathers its
// pods for FirstStatusDelay at most.
const (
	passingStatusRate  = 2
	passingStatusBurst = 10
	passingStatusDelay = time.Minute
)

// passingUntil returns the time until which a status may wait for its turn. It is zero if the status
// does not wait.
func (c Config) passingUntil(o observation, before, next *scheduling.PodGroupStatus, m memory) time.Time {
	switch {
	case next.Phase == scheduling.PodGroupScheduling && o.canBeHeld(next):
		return m.boundSince.Add(passingStatusDelay)
	case !m.gathersSince.IsZero() && o.hasDefaultStatus() && o.canBeHeld(next):
		return o.firstSeen.Add(c.FirstStatusDelay)
	case urgent(before, next) || m.stale.since.IsZero():
		return time.Time{}
	}
	return m.stale.since.Add(c.StatusDelay)
}

// urgent reports whether a status differs in more than details. It is not urgent when pods are
// bound or begin to run. Such a change is written once the group runs, or when due says so.
func urgent(before, next *scheduling.PodGroupStatus) bool {
	starts := before.Phase != "" && next.Phase == scheduling.PodGroupScheduling
	return before.Phase != next.Phase && !starts ||
		before.OccupiedBy != next.OccupiedBy ||
		(before.CreationTime == nil) != (next.CreationTime == nil) ||
		!sameCondition(before, next, ConditionValid) || !sameCondition(before, next, scheduling.ConditionMembersExpected)
}

func sameCondition(before, next *scheduling.PodGroupStatus, t string) bool {
	return equality.Semantic.DeepEqual(meta.FindStatusCondition(before.Conditions, t), meta.FindStatusCondition(next.Conditions, t))
}

// sameDetails reports whether two statuses agree in the numbers that are worth a write, and in the
// message about missing members. The number of running pods counts only once minMember of them run.
func sameDetails(before, next *scheduling.PodGroupStatus) bool {
	if before.CreationTime != nil && final(before.Phase) && meta.FindStatusCondition(before.Conditions, ConditionFinished) == nil {
		// An older controller wrote it. After an upgrade not all groups that have ended are written again.
		return true
	}
	if before.Scheduled != next.Scheduled || before.Desired != next.Desired || messageOf(before) != messageOf(next) {
		return false
	}
	return next.Phase == scheduling.PodGroupScheduling ||
		before.Running == next.Running && before.Succeeded == next.Succeeded && before.Failed == next.Failed
}

// withDesired returns a status with this number of wanted pods, if it is one of a controller that did not
// write the number. So the number alone is no reason to write all groups after an upgrade. For a
// group whose owners have wanted no pods, 0 is a number that was written.
func withDesired(s *scheduling.PodGroupStatus, desired int32) *scheduling.PodGroupStatus {
	if s.Desired != 0 || s.CreationTime == nil {
		return s
	}
	known := *s
	known.Desired = desired
	return &known
}

func messageOf(s *scheduling.PodGroupStatus) string {
	if c := meta.FindStatusCondition(s.Conditions, ConditionIncomplete); c != nil {
		return c.Message
	}
	return ""
}
