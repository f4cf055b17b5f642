package reason

import (
	"maps"
	"slices"
)

// Facts are what follows for a group from the reason that it was given.
type Facts struct {
	// Waits: a group that is not placed may wait with this reason, so that metrics count groups
	// and refusals by it.
	Waits bool
	// KeepsTurn: a group that waits with it has waited for room all the while, as far as its
	// PodGroup says. A scheduler that is started anew goes on counting. In a scheduler that runs
	// the Cure of the refusal (package gang) says so.
	KeepsTurn bool
	// LacksRoom: a node more could help, so that each pod of the group says so: autoscalers
	// go by that.
	LacksRoom bool
}

// facts has an entry for each reason.
var facts = map[string]Facts{
	Placed:             {},
	Gathering:          {Waits: true},
	NoPodGroup:         {Waits: true},
	OwnerNotSeen:       {Waits: true},
	NotSeenYet:         {Waits: true},
	InvalidGroupSize:   {Waits: true},
	InvalidMatchPolicy: {Waits: true},
	InvalidTopology:    {Waits: true},
	NotAllowed:         {Waits: true},
	NoRoom:             {Waits: true, KeepsTurn: true, LacksRoom: true},
	NeverFits:          {Waits: true, KeepsTurn: true, LacksRoom: true},
	NodesRuledOut:      {Waits: true, KeepsTurn: true},
	NodeRefused:        {Waits: true, KeepsTurn: true},
	NotReserved:        {Waits: true, KeepsTurn: true},
	Binding:            {Waits: true, KeepsTurn: true},
	MatcherUnavailable: {Waits: true, KeepsTurn: true},
	TooHard:            {Waits: true, KeepsTurn: true},
	Throttled:          {Waits: true, KeepsTurn: true},
	MatchError:         {Waits: true, KeepsTurn: true},
	Matched:            {},
	AskedTooLate:       {},
	ValidGroupSize:     {},
	InvalidAnnotation:  {},
	MembersMissing:     {Waits: true},
	Complete:           {},
	NotStarted:         {},
	Restarting:         {},
	Created:            {},
	Finished:           {},
	Failed:             {},
	RejectedByKubelet:  {},
	NodesReserved:      {},
	InvalidGroupName:   {},
	OwnerUnreadable:    {},
}

// Of returns the facts of a reason; of one that is not Fluence's they are zero.
func Of(reason string) Facts { return facts[reason] }

// All lists the reasons, sorted.
func All() []string { return slices.Sorted(maps.Keys(facts)) }

// Waiting lists those with which a group may wait, sorted.
func Waiting() []string {
	return slices.DeleteFunc(All(), func(r string) bool { return !facts[r].Waits })
}
