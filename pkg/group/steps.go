package group

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
)

// A StepKind tells the steps of a group's life apart.
type StepKind string

// The steps that a group takes by itself, without a caller who decides on it.
const (
	// Started: the first bind is sent, with as many members reserved as have to start
	// together.
	Started StepKind = "Started"
	// GaveBack: seats were lost that the API does not show yet, all of them or, of a
	// group that has started, one.
	GaveBack StepKind = "GaveBack"
	// Ended: no member of a group that had started counts any more. What those hold
	// that are on their way out goes with them.
	Ended StepKind = "Ended"
)

// A Step is something that became of a group.
type Step struct {
	Kind StepKind
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

// Steps lists what became of groups since the last call, in order.
func (g *Groups) Steps() []Step {
	g.mu.Lock()
	defer g.mu.Unlock()
	steps := g.steps
	g.steps = nil
	return steps
}

func (g *Groups) step(s Step) { g.steps = append(g.steps, s) }
