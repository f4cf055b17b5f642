package placement

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
)

// A Result is the outcome of Place.
type Result struct {
	// Refusal is why there are no nodes. It is nil if there are.
	Refusal *gang.Refusal
	// MatcherCalled says that the attempt got as far as a request
	// to the matcher. If it is false, only Refusal is set.
	MatcherCalled bool
	// Slots are the slots of the pods, in the order in which the pods take them.
	Slots []match.Slot
	// InOrder says that the pods must keep this order, because the filters may reject
	// one before another has its node.
	InOrder bool
	// FirstShape are the pods of the same shape as the first one. A refusal of the
	// first pod holds for all of them.
	FirstShape []types.UID
	// At is the time of the snapshot that the matcher got.
	At time.Time
	// Epoch is the epoch of the matcher's graph in this snapshot.
	Epoch match.Epoch
	// Effects is what the caller has to do because of the matcher's answers.
	Effects MatcherEffects
	// BlockingTurns are the turns of other groups whose reserved
	// nodes this group could use if they were not reserved.
	BlockingTurns []gang.Turn
	// RoomRefused are the nodes of the plan's Room on which the filters refuse pods.
	RoomRefused []string
	Stats       Stats

	attempt *attempt
}

// Stats counts what an attempt did.
type Stats struct {
	// Passed counts the matches that the filters accepted. Rejected counts the
	// matches with pods that the filters rejected. Refused counts the verifications
	// that ended early: PreFilter rejected a pod, or the budget was used up.
	Passed, Rejected, Refused int
	// Repairs counts the matches that were repeated because the filters rejected pods
	// of the one before.
	Repairs int
}

// MatcherEffects is what the caller has to do because of the matcher's answers.
type MatcherEffects struct {
	// Release lists what to release: allocations that are not used, and allocations
	// that the matcher may have made although its answer did not arrive.
	Release []gang.Release
	// Stale says that the matcher's graph has another epoch than the request.
	Stale bool
	// NoAnswer says that the matcher did not answer. TimedOut says that it did not answer in time.
	NoAnswer, TimedOut bool
	// Loading says that the matcher answered that it is loading its graph.
	Loading bool
	// Err is an unexpected error of the matcher. It is nil if there was none.
	Err error
}
