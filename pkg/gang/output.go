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
	Reject []types.UID
	Reason string
	// Recheck lists pods on nodes of which it may have changed whether the nodes are
	// their group's alone.
	Recheck []types.UID
	// Refused lists what pods, or with them their groups, are told.
	Refused []Refused
	// Transitions lists what became of groups, in order.
	Transitions []Transition
	// Placed lists the groups with a PodGroup of which more than before came to hold nodes,
	// at least their minimum and with no bind outstanding, or late members were refused or no
	// longer wait.
	Placed []Placement
	// Wake lists groups whose pods may have come to be let into the scheduling queue.
	Wake []types.NamespacedName
	// Forget lists groups without a PodGroup that lost a pod, and groups that lost their
	// PodGroup: what was kept of them for others is void.
	Forget []types.NamespacedName
}

// Refused is a "no" for a pod, or with it for its group.
type Refused struct {
	Pod             *corev1.Pod
	Reason, Message string
}

// A Release names slots to give back: those with Keys, or without keys all.
type Release struct {
	Job  match.JobID
	Keys []string
}

// A TransitionKind tells the transitions in a group's life apart.
type TransitionKind string

// The transitions that a group makes by itself, without a caller who decides on it.
const (
	// Started: the first bind is sent, with as many members reserved as have to start
	// together.
	Started TransitionKind = "Started"
	// GaveBack: seats were lost that the API does not show yet, all of them or, of a
	// group that has started, one.
	GaveBack TransitionKind = "GaveBack"
	// Ended: no member of a group that had started counts any more. What those hold
	// that are on their way out goes with them.
	Ended TransitionKind = "Ended"
)

// A Transition is something that became of a group.
type Transition struct {
	Kind TransitionKind
	Key  types.NamespacedName
	// Job is the one that the seats were matched under, Pods how many they are; zero of
	// a group that Ended.
	Job  match.JobID
	Pods int
	// Complete is since when a group that Started could be asked for, as far as this
	// process knows.
	Complete time.Time
	// Reason is why one GaveBack, in words.
	Reason string
}

// A Placement is a group that has all its pods on nodes.
type Placement struct {
	Key types.NamespacedName
	// Nodes counts the pods by node.
	Nodes map[string]int
	// Whole says whether the nodes are the group's alone, and InVain which annotation came
	// too late for that.
	Whole  bool
	InVain string
	// Waiting counts the late members that were refused a node, and Reason and
	// Message say why the first of them was.
	Waiting         int
	Reason, Message string
}

// pending is the Output that is being made, with the groups of which Placed is to tell.
type pending struct {
	Output
	placed map[types.NamespacedName]bool
}

func (p *pending) release(job match.JobID, keys ...string) {
	p.Release = append(p.Release, Release{Job: job, Keys: keys})
}

// reject has a pod that waits in Permit be told why it may not be bound. All that one call
// rejects are told what the first is.
func (p *pending) reject(uid types.UID, why string) {
	p.Reject = append(p.Reject, uid)
	if p.Reason == "" {
		p.Reason = why
	}
}

func (p *pending) refused(pod *corev1.Pod, reason, message string) {
	p.Refused = append(p.Refused, Refused{Pod: pod, Reason: reason, Message: message})
}

func (p *pending) transition(t Transition) { p.Transitions = append(p.Transitions, t) }

func (p *pending) wake(keys ...types.NamespacedName) { p.Wake = append(p.Wake, keys...) }

func (p *pending) forget(key types.NamespacedName) { p.Forget = append(p.Forget, key) }

// place has Placed tell of a group.
func (p *pending) place(key types.NamespacedName) {
	if p.placed == nil {
		p.placed = map[types.NamespacedName]bool{}
	}
	p.placed[key] = true
}

func (r *rules) placement(s *state) Placement {
	p := Placement{Key: s.key, Nodes: map[string]int{}, Whole: s.fenced == WholeYes, InVain: r.asksInVain(s)}
	for _, m := range s.members {
		if m.onNode() {
			p.Nodes[m.node()]++
		}
	}
	for _, m := range s.ordered((*member).refusedSeat) {
		if p.Waiting++; p.Waiting == 1 {
			p.Reason, p.Message = m.no.Reason, m.no.Message
		}
	}
	return p
}
