package gang

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
)

// An Output is what a caller owes after a call that changed the state of groups. Every such
// call returns one. It lists what came of that call and of those before it whose Output was
// not returned to anybody.
type Output struct {
	// Release lists what goes back to the engine.
	Release []Release
	// Reject lists the pods that wait in Permit and shall not be bound, Reason
	// what they are told.
	Reject       []types.UID
	RejectReason string
	// Recheck lists pods on nodes of which it may have changed whether the nodes are
	// their group's alone.
	Recheck []types.UID
	// Refusals lists what pods, or with them their groups, are told.
	Refusals []PodRefusal
	// Transitions lists what became of groups, in order.
	Transitions []Transition
	// Placed lists the groups with a PodGroup of which more than before came to hold nodes,
	// at least their minimum and with no bind outstanding, or late members were refused or no
	// longer wait.
	Placed []PlacedGroup
	// Activate lists groups whose pods may have come to be let into the scheduling queue.
	Activate []types.NamespacedName
	// Forget lists groups without a PodGroup that lost a pod, and groups that lost their
	// PodGroup: what was kept of them for others is void.
	Forget []types.NamespacedName
}

// PodRefusal is a "no" for a pod, or with it for its group.
type PodRefusal struct {
	Pod             *corev1.Pod
	Reason, Message string
}

// A Release names slots to give back: those with Keys, or without keys all.
type Release struct {
	Job  match.JobID
	Keys []string
}

// A TransitionType tells the transitions in a group's life apart.
type TransitionType string

// The transitions that a group makes by itself, without a caller who decides on it.
const (
	// Started: the first bind is sent, with as many members reserved as have to start
	// together.
	Started TransitionType = "Started"
	// Revoked: seats were lost that the API does not show yet, all of them or, of a
	// group that has started, one.
	Revoked TransitionType = "GaveBack"
	// Ended: no member of a group that had started counts any more. What those hold
	// that are on their way out goes with them.
	Ended TransitionType = "Ended"
)

// A Transition is something that became of a group.
type Transition struct {
	Type TransitionType
	Key  types.NamespacedName
	// Job is the one that the seats were matched under, Pods how many they are; zero of
	// a group that Ended.
	Job  match.JobID
	Pods int
	// CompleteSince is since when a group that Started could be asked for, as far as this
	// process knows.
	CompleteSince time.Time
	// Reason is why one Revoked, in words.
	Reason string
}

// A Placement is a group that has all its pods on nodes.
type PlacedGroup struct {
	Key types.NamespacedName
	// Nodes counts the pods by node.
	Nodes map[string]int
	// Exclusive says whether the nodes are the group's alone, and LateAnnotation which annotation came
	// too late for that.
	Exclusive      bool
	LateAnnotation string
	// RefusedLate counts the late members that were refused a node, and Reason and
	// Message say why the first of them was.
	RefusedLate     int
	Reason, Message string
}

// pending is the Output that is being made, with the groups of which Placed is to tell.
type pending struct {
	Output
	placedGroups map[types.NamespacedName]bool
}

func (p *pending) release(job match.JobID, keys ...string) {
	p.Release = append(p.Release, Release{Job: job, Keys: keys})
}

// reject has a pod that waits in Permit be told why it may not be bound. All that one call
// rejects are told what the first is.
func (p *pending) reject(uid types.UID, why string) {
	p.Reject = append(p.Reject, uid)
	if p.RejectReason == "" {
		p.RejectReason = why
	}
}

func (p *pending) refuse(pod *corev1.Pod, reason, message string) {
	p.Refusals = append(p.Refusals, PodRefusal{Pod: pod, Reason: reason, Message: message})
}

func (p *pending) transition(t Transition) { p.Transitions = append(p.Transitions, t) }

func (p *pending) activate(keys ...types.NamespacedName) { p.Activate = append(p.Activate, keys...) }

func (p *pending) forget(key types.NamespacedName) { p.Forget = append(p.Forget, key) }

// reportPlaced has Placed tell of a group.
func (p *pending) reportPlaced(key types.NamespacedName) {
	if p.placedGroups == nil {
		p.placedGroups = map[types.NamespacedName]bool{}
	}
	p.placedGroups[key] = true
}

func (r *rules) placedGroup(s *groupState) PlacedGroup {
	p := PlacedGroup{Key: s.key, Nodes: map[string]int{}, Exclusive: s.exclusivity == Exclusive, LateAnnotation: r.lateAnnotation(s)}
	for _, m := range s.members {
		if m.isPlaced() {
			p.Nodes[m.node()]++
		}
	}
	for _, m := range s.ordered((*member).isRefused) {
		if p.RefusedLate++; p.RefusedLate == 1 {
			p.Reason, p.Message = m.lastRefusal.Reason, m.lastRefusal.Message
		}
	}
	return p
}
