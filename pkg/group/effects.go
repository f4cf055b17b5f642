package group

import (
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
	if e.Reason == "" {
		e.Reason = other.Reason
	}
}
