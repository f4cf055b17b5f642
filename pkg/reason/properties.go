package reason

import (
	"maps"
	"slices"
)

// Properties are what follows for a group from the reason that it was given.
type Properties struct {
	// Waits: a group that is not placed may wait with this reason, so that metrics count groups
	// and refusals by it.
	Waits bool
	// KeepsWaitingTime: a group that waits with it has waited for room all the while, as far as its
	// PodGroup says. A scheduler that is started anew goes on counting. In a scheduler that runs
	// the Cure of the refusal (package gang) says so.
	KeepsWaitingTime bool
	// LacksRoom: a node more could help, so that each pod of the group says so: autoscalers
	// go by that.
	LacksRoom bool
}

// properties has an entry for each reason.
var properties = map[string]Properties{
	Placed:             {},
	Gathering:          {Waits: true},
	NoPodGroup:         {Waits: true},
	OwnerNotSeen:       {Waits: true},
	NotSeenYet:         {Waits: true},
	InvalidGroupSize:   {Waits: true},
	InvalidMatchPolicy: {Waits: true},
	InvalidTopology:    {Waits: true},
	NotAllowed:         {Waits: true},
	NoRoom:             {Waits: true, KeepsWaitingTime: true, LacksRoom: true},
	NeverFits:          {Waits: true, KeepsWaitingTime: true, LacksRoom: true},
	NodesRuledOut:      {Waits: true, KeepsWaitingTime: true},
	NodeRefused:        {Waits: true, KeepsWaitingTime: true},
	NotReserved:        {Waits: true, KeepsWaitingTime: true},
	Binding:            {Waits: true, KeepsWaitingTime: true},
	MatcherUnavailable: {Waits: true, KeepsWaitingTime: true},
	TooHard:            {Waits: true, KeepsWaitingTime: true},
	Throttled:          {Waits: true, KeepsWaitingTime: true},
	MatchError:         {Waits: true, KeepsWaitingTime: true},
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

// PropertiesOf returns the facts of a reason; of one that is not Fluence's they are zero.
func PropertiesOf(reason string) Properties { return properties[reason] }

// All lists the reasons, sorted.
func All() []string { return slices.Sorted(maps.Keys(properties)) }

// Waiting lists those with which a group may wait, sorted.
func Waiting() []string {
	return slices.DeleteFunc(All(), func(r string) bool { return !properties[r].Waits })
}
