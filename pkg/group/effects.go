package group

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
)

// Effects are what a caller has to do after a change of state.
type Effects struct {
	// Release lists what goes back to the engine.
	Release []Release
	// Reject lists the pods that wait in Permit and shall not be bound, Reason
	// what they are told.
	Reject []types.UID
	Reason string
	// Rebook lists pods on nodes of which it may have changed whether the nodes are
	// their group's alone.
	Rebook []types.UID
	// Refused lists what pods, or with them their groups, are told.
	Refused []Refused
	// Found lists groups that pods have come into, and Left those that pods have
	// left for another.
	Found []types.NamespacedName
	Left  []types.NamespacedName
}

// Refused is a "no" that no plan was answered with.
type Refused struct {
	Pod             *corev1.Pod
	Reason, Message string
}

// A Release names slots to give back: those with Keys, or without keys all.
type Release struct {
	Job  match.JobID
	Keys []string
}

func (e *Effects) release(job match.JobID, keys ...string) {
	e.Release = append(e.Release, Release{Job: job, Keys: keys})
}

func (e *Effects) add(other Effects) {
	e.Release = append(e.Release, other.Release...)
	e.Reject = append(e.Reject, other.Reject...)
	e.Rebook = append(e.Rebook, other.Rebook...)
	e.Refused = append(e.Refused, other.Refused...)
	e.Found = append(e.Found, other.Found...)
	e.Left = append(e.Left, other.Left...)
	if e.Reason == "" {
		e.Reason = other.Reason
	}
}
