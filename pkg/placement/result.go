package placement

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
)

// A Result is what came of an enquiry.
type Result struct {
	// Refusal is why there are no nodes; nil is that there are.
	Refusal *gang.Refusal
	// MatcherCalled says that the matcher was asked, or was to be. Without that there is nothing but the
	// refusal.
	MatcherCalled bool
	// Slots are those that the pods were given, in the order in which they take them up. InOrder
	// says that they have to: the filters may refuse one before another has its node.
	Slots   []match.Slot
	InOrder bool
	// FirstShape are the pods that ask for the same as the first one. What that is refused for goes for
	// them.
	FirstShape []types.UID
	// At is when the matcher was asked, and Epoch which graph.
	At    time.Time
	Epoch match.Epoch
	// Effects is what follows from the matcher's answers.
	Effects MatcherEffects
	// BlockingTurns are the turns for which nodes are reserved that the group could use.
	BlockingTurns []gang.Turn
	Stats         Stats

	attempt *attempt
}

// Stats count what an enquiry did.
type Stats struct {
	// Passed, Objected and Refused count verifications of what the matcher gave: by the filters it
	// may be, it may not be, or no node could be.
	Passed, Rejected, Refused int
	// Repairs counts the matches that were made anew.
	Repairs int
}

// An Aftermath is what follows from the matcher's answers beside what the group is told.
type MatcherEffects struct {
	// Release lists what is to go back: what was booked and is not wanted, or what may have been
	// booked.
	Release []gang.Release
	// Stale says that the graph is another than the one that was asked.
	Stale bool
	// NoAnswer says that the matcher gave no answer, and Late that it had as long as it may take.
	NoAnswer, TimedOut bool
	// Err says that the matcher broke on the request.
	Err error
}
