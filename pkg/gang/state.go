package gang

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
)

// groupState is one group.
type groupState struct {
	key types.NamespacedName
	// inPodGroup says that the key is that of a PodGroup, and gang that the group waits
	// for it.
	inPodGroup    bool
	needsPodGroup bool
	podGroup      *PodGroup
	levels        []group.Level
	members
	// representative is the member that is let through to ask for all, or for all
	// that are late.
	representative types.UID
	// preplaced is the number of members that were created on nodes and are there: nobody has
	// placed them, and as many fewer are to be.
	preplaced int

	incarnation
	derived
	retryState
	groupPositions
	backoff
	waitTimes
	yieldState
}

// An incarnation is what becomes of a group from its match until no member is seated or holds a
// node any more.
type incarnation struct {
	// pastIncarnations counts the incarnations that have ended.
	pastIncarnations uint64
	// created is what creation says. It is zero until that is asked for in this incarnation, and
	// while the group has no pods. Youngest is the latest creation of a member that has had a
	// node in any incarnation.
	created, youngest time.Time
	// minReserved is the number of reserved members at which the attempt may bind.
	minReserved int
	// permitted says that as many members are reserved: they may stand at the gate.
	permitted bool
	// started says that a bind of this incarnation was sent, so that its seats cannot be
	// given back together any more. StartTold says that a Transition told it.
	started       bool
	startReported bool
	// mayBeBound says that a bind of this incarnation was made, or may have been: its answer is
	// not known.
	mayBeBound bool
	// peakMinimum is the largest minimum that this incarnation has come up to. To ask for
	// more than that is to grow, not to lack members.
	peakMinimum int
	// reportedPlaced is the number of pods on nodes of which Placed spoke last, as far as they
	// are still there, and reportedRefused that of late members that were refused.
	reportedPlaced  int
	reportedRefused int
	// exclusivity says whether the nodes of this incarnation are its own, and matched that this
	// process settled that by a match. It stays as it is while a member is present.
	exclusivity Exclusivity
	matched     bool
	// reportedLateAnnotation says that Placed spoke of annotations that came too late for whole nodes.
	reportedLateAnnotation bool
}

// derived is what follows from a group's members and PodGroup, once somebody has asked.
type derived struct {
	// gatheringKnown says that gatheringReason and gatheringMessage are what incomplete says: it is
	// asked under the lock of the scheduler's queue, for each pod.
	gatheringKnown bool
	// needed is what youngestNeeded says for the member neededBy, which is empty until it is asked for.
	needed                            time.Time
	neededBy                          types.UID
	gatheringReason, gatheringMessage string
	// topology is what asked says, nil until it is asked for.
	topology *effectiveTopology
}

// retryState is when, and after which events, a refused group may ask again, as it is in the registry.
type retryState struct {
	// relevantEvents has the events that may let the group ask earlier than it does now.
	relevantEvents eventSet
	// retryAt is when the first of its refusals runs out; zero is never, and then it is not among
	// the retries. Index is its place there.
	retryAt time.Time
	index   int
}

// A succession says who takes the place of a member that a started group lost.
type groupPositions struct {
	// positions are those of the members that make up the minimum, as many as owed says at most:
	// fewer where the group lost members that this process never saw. Fresh are those that came
	// free, or came about, since occupy looked at them, and claimants the members that wait for
	// one.
	positions, changedPositions []*position
	replacements                []*member
	// tooFewPositions says that there were fewer places than owed when claim last looked.
	tooFewPositions bool
}

// waitTimes is since when a group has waited, and for what.
type waitTimes struct {
	// completeSince is since when the group could be asked for, zero while it may not.
	completeSince time.Time
	// wasGathering says that the group was seen to lack something since it last was complete, and
	// completed is when it was so after that; zero where it was never seen to lack anything.
	wasGathering bool
	completedAt  time.Time
	// roomSince is the first in a row of the refusals that room could cure; zero while the
	// group is not refused for want of room, or lacks members.
	roomSince time.Time
	// restoredSince is what since was for a scheduler before this one, and known says
	// that this one has refused the group as well, so that it knows better. Answered says that it
	// has refused it for any reason, so that its PodGroup tells of that.
	restoredSince  time.Time
	roomSinceKnown bool
	refusedHere    bool
	// waitsForOther says that the last refusal was one that room does not cure, while since stays.
	waitsForOther bool
}

// yieldState is whether a group leaves its turn to the next, since no nodes could be reserved for it.
type yieldState struct {
	// yieldReason is why it does; empty is that it does not. Way has the nodes that could be reserved
	// but for pods that do not end. Whether it is to yield was looked at at the time looked, and is
	// to be again at nextAttempt. Retry says that this was asked for and has not been done.
	yieldReason              string
	blockedNodes             *NodeBloomFilter
	lastAttempt, nextAttempt time.Time
	// hastened says that something has it look soon, which is when pause is over.
	hastened   bool
	pause      time.Duration
	attemptDue bool
}

// members are the pods of a group.
type members map[types.UID]*member

// ordered lists the members for which keep holds, the oldest first.
func (s members) ordered(keep func(*member) bool) []*member {
	var ms []*member
	for _, m := range s {
		if keep(m) {
			ms = append(ms, m)
		}
	}
	slices.SortFunc(ms, older)
	return ms
}

// first returns the oldest member for which keep holds, or nil.
func (s members) first(keep func(*member) bool) *member {
	var first *member
	for _, m := range s {
		if keep(m) && (first == nil || older(m, first) < 0) {
			first = m
		}
	}
	return first
}

func older(a, b *member) int {
	return cmp.Or(
		a.waitingSince().Compare(b.waitingSince()),
		a.pod.CreationTimestamp.Compare(b.pod.CreationTimestamp.Time),
		cmp.Compare(a.pod.Name, b.pod.Name),
	)
}

func (s members) count(keep func(*member) bool) int {
	n := 0
	for _, m := range s {
		if keep(m) {
			n++
		}
	}
	return n
}
