package placement

import (
	"context"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/preemption"
)

// A PreemptionRequest is what FindByPreemption needs besides the result of Place.
type PreemptionRequest struct {
	// For is the group for which others are evicted.
	For preemption.Preemptor
	// Candidates returns who may be evicted, in the order of preemption.Index.Candidates, and how many more
	// there are. usable reports whether the group may use a node if there is room.
	Candidates func(usable func(node string) bool) (victims []preemption.Victim, left int)
	// Ending are slots that are free soon, because their pods are ending. The keys are the UIDs of the pods.
	Ending []match.SlotRef
	// MaxTime is how long the search may take.
	MaxTime time.Duration
}

// A PreemptionResult is what FindByPreemption has found. If neither Plan nor Why is set, there is no answer for
// now: the matcher or the filters took too long, or the matcher's graph has changed.
type PreemptionResult struct {
	// Plan says who is evicted. It has no victims if the group fits when the pods that are ending have gone.
	Plan *preemption.Plan
	// Why says why nobody is evicted, as a part of a message to users.
	Why string
	// Found is how many of the required pods fit without all candidates. It is set with Why if the
	// matcher has said so, and -1 otherwise.
	Found int64
	// LeftOut is how many candidates were not considered, because there are too many.
	LeftOut int
}

// FindByPreemption searches for the victims of least harm, so that the required pods of a group fit for which
// Place found no room. of is the result of Place. The profile's filters have accepted a plan, with the victims'
// pods away and the pods of the group in their place. It may only be called inside a scheduling cycle. It changes
// nothing. The time that it takes is not charged to the attempt.
func (p *Placer) FindByPreemption(ctx context.Context, of Result, r PreemptionRequest) PreemptionResult {
	return PreemptionResult{Found: -1}
}
