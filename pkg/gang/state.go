package gang

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
)

// A groupState is all that is known of one group.
type groupState struct {
	key types.NamespacedName
	// inPodGroup is true if the key is the key of a PodGroup.
	inPodGroup bool
	// isNative is true if it is the key of a native PodGroup.
	isNative bool
	podGroup *PodGroup
	levels   []group.Level
	tally
	// representative is the UID of the member whose cycle places all
	// members, or all late ones. It is empty if none was chosen.
	representative types.UID

	incarnationState
	derived
	retryState
	classMembership
	groupPositions
	refusalState
	waitTimes
	yieldState
}

// An incarnationState is what is known of a group's incarnation: the life of the group from its
// match until no member has an assignment or a node any more.
type incarnationState struct {
	seatState
	// pastIncarnations is the number of incarnations that have ended.
	pastIncarnations uint64
	// frozenOrderTime is the cached result of orderTime. It stays for the rest of the incarnation.
	// It is zero until orderTime is called with a member that is not gated, because a gated member
	// waits only from the removal of its gate.
	frozenOrderTime time.Time
	// minReserved is how many members have to be reserved before binds may begin.
	minReserved int
	// permitted is true once minReserved members are reserved: they may enter the bind queue.
	permitted bool
	// started is true once a bind of this incarnation was sent.
	// From then on its assignments cannot be revoked together.
	started bool
	// startReported is true once the transition Started was reported.
	startReported bool
	// mayBeBound is true if a bind of this incarnation
	// was made, or if the outcome of a bind is not known.
	mayBeBound bool
	// peakMinimum is the largest minimum that this incarnation has reached. If the
	// minimum is raised above it, the additional pods do not count as missing.
	peakMinimum int
	// reportedPlaced is the number of pods on nodes in the last
	// report of Placed, without the pods that have left since.
	reportedPlaced int
	// reportedRefused is the number of refused late members in that report.
	reportedRefused int
	// exclusivity says whether the nodes of this incarnation are
	// exclusive. It stays as it is while a member is present.
	exclusivity Exclusivity
	// matchedHere is true if a match of this process decided the exclusivity.
	matchedHere bool
	// reportedLateAnnotation is true if the last report named
	// an annotation that came too late for whole nodes.
	reportedLateAnnotation bool
}

// A derived caches what follows from a group's members and PodGroup. Each
// part is found when it is first asked for, and forgotten by recompute.
type derived struct {
	// gatheringKnown is true if gatheringReason and gatheringMessage are known. They are cached,
	// because whyGathering is called under the lock of the scheduler's queue, for each pod.
	gatheringKnown bool
	// youngestNeeded is the cached result of youngestNeededSince: since when the youngest pod
	// that the group needs has waited. It is valid if youngestNeededFor is the UID of the
	// representative. youngestNeededFor is empty if there is no result.
	youngestNeeded                    time.Time
	youngestNeededFor                 types.UID
	gatheringReason, gatheringMessage string
	// siblingLooks has what WaitingSiblings returned for the group since its last change.
	siblingLooks map[waitingText]*siblingLook
	// topology is the result of effectiveTopology. It is nil if it is not known.
	topology *effectiveTopology
}

// A retryState is when, and after which events, a refused group may retry.
// The registry's byRelevantEvents and retries hold the group by these values.
type retryState struct {
	// relevantEvents has the events that may let the group retry earlier.
	relevantEvents eventSet
	// retryAt is when the first of its refusals ends. Zero means
	// never, and then the group is not in the registry's retries.
	retryAt time.Time
	// index is the group's index in the heap of retries.
	index int
	// lastRefusedAttempt is when the group, or one of its members, was last refused
	// after an attempt. It is zero if it never was. See retryPace.
	lastRefusedAttempt time.Time
}

// A groupPositions is the positions of a started group, and the members that wait for them.
type groupPositions struct {
	// positions are the positions of the group's required members. There are
	// fewer than required if the group lost members that this process never saw.
	positions []*position
	// havePositions is false until updatePositions has looked at all members of a started group.
	havePositions bool
	// changedPositions are the positions that came free
	// or were made since updatePositions looked at them.
	changedPositions []*position
	// replacements are the members that wait for a position.
	replacements members
	// search is the number of the present search for positions. With a new number all members
	// are looked at again. searchedAll is the number of the last search that did.
	search, searchedAll int
	// tooFewPositions is true if findReplacements last found fewer positions than required.
	tooFewPositions bool
}

// A waitTimes is since when a group has waited, and for what.
type waitTimes struct {
	// completeSince is since when the group has been
	// complete. It is zero while the group lacks something.
	completeSince time.Time
	// hasLacked is true if the group lacked something at some time since completeAgainAt: it was
	// incomplete, or it was refused for something that its author has to provide.
	hasLacked bool
	// completeAgainAt is when the group last became complete after it had lacked something.
	// It is zero if the group was never seen to lack anything.
	completeAgainAt time.Time
	// roomSince is the time of the first refusal in a row with
	// WaitsForRoom. It is zero while the group does not wait for room.
	roomSince time.Time
	// restoredSince is what roomSince was for the scheduler before this one.
	restoredSince time.Time
	// roomSinceKnown is true once a refusal by this scheduler
	// has decided roomSince. Then restoredSince does not count.
	roomSinceKnown bool
	// refusedHere is true once this scheduler has refused the group for any
	// reason. From then on the PodGroup's status shows this scheduler's refusals.
	refusedHere bool
	// notForRoom is true if the group now waits for something
	// other than room, as its refusals say, but keeps roomSince.
	notForRoom bool
}

// A yieldState says whether a group leaves its turn to
// the next, because no nodes could be reserved for it.
type yieldState struct {
	// yieldReason is why the group yields. It is empty if the group does not yield.
	yieldReason string
	// blockedNodes has the nodes that cannot be reserved while pods that do not end are there.
	blockedNodes *NodeBloomFilter
	// lastReserveAttempt is when the last attempt was made to reserve
	// nodes for the group. nextReserveAttempt is when the next is due.
	lastReserveAttempt, nextReserveAttempt time.Time
	// hastened is true if a change has brought the next attempt forward to the end of pause.
	hastened bool
	// pause is the shortest time between two attempts at present.
	pause time.Duration
	// reserveAttemptDue is true if YieldersDue has returned the group, and no attempt was made since.
	reserveAttemptDue bool
}

// members are the pods of a group.
type members map[types.UID]*member

// ordered returns the members for which keep returns true, the oldest first.
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

// first returns the oldest member for which keep returns true, or nil.
func (s members) first(keep func(*member) bool) *member {
	var first *member
	for _, m := range s {
		if keep(m) && (first == nil || older(m, first) < 0) {
			first = m
		}
	}
	return first
}

// older compares two members: by the start of the wait, by creation, and by name.
func older(a, b *member) int {
	return cmp.Or(
		a.waitingSince().Compare(b.waitingSince()),
		a.pod.CreationTimestamp.Compare(b.pod.CreationTimestamp.Time),
		cmp.Compare(a.pod.Name, b.pod.Name),
	)
}

// countIf returns the number of members for which keep returns true. It looks at all of them.
func (s members) countIf(keep func(*member) bool) int {
	n := 0
	for _, m := range s {
		if keep(m) {
			n++
		}
	}
	return n
}
