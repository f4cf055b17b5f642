package gang

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
)

// An Output is what the caller has to carry out after a call that changed
// groups. It includes what earlier calls without an Output left to do.
type Output struct {
	// Release lists the slots to release in the matcher.
	Release []Release
	// Book lists the groups with seats that the matcher does not know: SeatSlots returns them.
	Book []types.NamespacedName
	// Reject lists the pods in Permit and in the bind queue that must not be bound.
	Reject []types.UID
	// RejectReason is the message for all pods in Reject.
	RejectReason string
	// Recheck lists the pods on nodes that may have become exclusive or shared, and the pods whose
	// assignment was revoked: such a pod may have come to its node meanwhile.
	Recheck []types.UID
	// Refusals lists the refusals to report for pods and, through the pods, for their groups.
	Refusals []PodRefusal
	// Transitions lists the changes of groups, in order.
	Transitions []Transition
	// Seats lists what has become of seats.
	Seats []SeatUse
	// Placed lists the groups to report as placed. Each has a PodGroup, enough members on
	// nodes, and no bind outstanding. Since the last report more members have come to nodes, or
	// the refused late members, the late annotation or the Expectation have changed, or ReportAgain was called.
	Placed []PlacedGroup
	// Activate lists the groups whose pods may now be let into the scheduling queue.
	Activate []types.NamespacedName
	// Forget lists the groups whose cached reports and results are void: groups
	// that lost their PodGroup, and groups without a PodGroup that lost a pod.
	Forget []types.NamespacedName
}

// A PodRefusal is a refusal to report for a pod and, through the pod, for its group.
type PodRefusal struct {
	Pod             *corev1.Pod
	Reason, Message string
}

// A Release names slots of a job to release. No keys mean all slots of the job.
type Release struct {
	Job  match.JobID
	Keys []string
}

// A TransitionType is the type of a Transition.
type TransitionType string

// The transitions of a group.
const (
	// Started means that the first bind is sent. At least the minimum is reserved.
	Started TransitionType = "Started"
	// Revoked means that assignments that the API does not show yet were lost: all of
	// the group under one job, or one if the group has started or can start without it.
	Revoked TransitionType = "Revoked"
	// Ended means that a started group has no present member any more.
	// Members that are being deleted keep their nodes until they are gone.
	Ended TransitionType = "Ended"
	// SeatsGivenBack means that free seats of the group were given back, or were lost.
	SeatsGivenBack TransitionType = "SeatsGivenBack"
)

// A Transition is a change in the life of a group.
type Transition struct {
	Type TransitionType
	Key  types.NamespacedName
	// Job is the job that the assignments were matched under. It is zero for Ended and SeatsGivenBack.
	Job match.JobID
	// Pods is the number of the assignments or seats. It is zero for Ended.
	Pods int
	// CompleteSince is set for Started. It is since when the
	// group has been complete, by what this process knows.
	CompleteSince time.Time
	// Reason is set for Revoked and SeatsGivenBack. It says why, in words.
	Reason string
}

// A PlacedGroup is a group with enough members on nodes.
type PlacedGroup struct {
	Key types.NamespacedName
	// Nodes has the number of pods by node.
	Nodes map[string]int
	// Exclusive is true if the nodes are exclusive to the group.
	Exclusive bool
	// LateAnnotation is the annotation that asked for whole
	// nodes too late. Empty means that there is none.
	LateAnnotation string
	// SeatNote says why the group has not got all the seats that it asks for. It is empty if it has.
	SeatNote string
	// RefusedLate is the number of late members that were refused.
	RefusedLate int
	// Reason and Message are from the refusal of the oldest of these members.
	Reason, Message string
	// Expectation is what the group has free seats for.
	Expectation Expectation
}

// pending is the Output that the current call prepares.
type pending struct {
	Output
	// placedGroups has the keys of the groups to list in Placed.
	placedGroups map[types.NamespacedName]bool
}

func (p *pending) release(job match.JobID, keys ...string) {
	p.Release = append(p.Release, Release{Job: job, Keys: keys})
}

// book adds a group to Book.
func (p *pending) book(key types.NamespacedName) {
	if !slices.Contains(p.Book, key) {
		p.Book = append(p.Book, key)
	}
}

// reject adds a pod to Reject. The first pod of a call decides RejectReason.
func (p *pending) reject(uid types.UID, why string) {
	p.Reject = append(p.Reject, uid)
	if p.RejectReason == "" {
		p.RejectReason = why
	}
}

// reportRefusal adds a refusal to Refusals.
func (p *pending) reportRefusal(pod *corev1.Pod, reason, message string) {
	p.Refusals = append(p.Refusals, PodRefusal{Pod: pod, Reason: reason, Message: message})
}

func (p *pending) transition(t Transition) { p.Transitions = append(p.Transitions, t) }

func (p *pending) activate(keys ...types.NamespacedName) { p.Activate = append(p.Activate, keys...) }

func (p *pending) forget(key types.NamespacedName) { p.Forget = append(p.Forget, key) }

// reportPlaced has a group listed in Placed.
func (p *pending) reportPlaced(key types.NamespacedName) {
	if p.placedGroups == nil {
		p.placedGroups = map[types.NamespacedName]bool{}
	}
	p.placedGroups[key] = true
}

// placedGroup describes a group for Placed.
func (r *rules) placedGroup(s *groupState) PlacedGroup {
	p := PlacedGroup{
		Key: s.key, Nodes: map[string]int{}, Exclusive: s.exclusivity == Exclusive, LateAnnotation: r.lateAnnotation(s),
		SeatNote: s.note, Expectation: r.expectation(s),
	}
	for _, m := range s.members {
		if m.isPlaced() {
			p.Nodes[m.node()]++
		}
	}
	for _, m := range s.ordered((*member).wasRefused) {
		if p.RefusedLate++; p.RefusedLate == 1 {
			p.Reason, p.Message = m.lastRefusal.Reason, m.lastRefusal.Message
		}
	}
	return p
}
