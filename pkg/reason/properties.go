package reason

import (
	"maps"
	"slices"
)

// Properties are what follows for a group from its reason.
type Properties struct {
	// Waits is true if a group that is not placed may wait with this
	// reason. Metrics count groups and refusals by these reasons.
	Waits bool
	// KeepsWaitingTime is true if a group with this reason goes on waiting for room. A
	// scheduler that is started anew reads the reason in the PodGroup, and goes on counting
	// the time. In a scheduler that runs, WaitsFor of the refusal (package gang) decides.
	KeepsWaitingTime bool
	// LacksRoom is true if one more node could help. Then each pod
	// of the group reports it, because autoscalers act on that.
	LacksRoom bool
	// Passing is true if the reason normally ends by itself in a group that is about to start. Then
	// the condition alone says so at first, and an event follows only if the reason lasts.
	Passing bool
	// Invalid is true if the group asks for what it cannot have until somebody corrects it. Then the reason is
	// reported at once, because it does not end by itself.
	Invalid bool
	// Intended is true if the group's author has asked for what the reason says, by a suspension or by a priority.
	// Then its event is no warning.
	Intended bool
}

// properties has an entry for each reason.
var properties = map[string]Properties{
	Placed:             {},
	Expecting:          {},
	Gathering:          {Waits: true, Passing: true},
	Suspended:          {Waits: true, Intended: true},
	NoPodGroup:         {Waits: true},
	NoMinimum:          {Waits: true, Passing: true},
	OwnerNotSeen:       {Waits: true},
	NotSeenYet:         {Waits: true},
	InvalidGroupSize:   {Waits: true, Invalid: true},
	InvalidMatchPolicy: {Waits: true, Invalid: true},
	InvalidTopology:    {Waits: true, Invalid: true},
	NotAllowed:         {Waits: true, Invalid: true},
	InvalidPriority:    {Waits: true, Invalid: true},
	NotSupported:       {Waits: true, Invalid: true},
	NoRoom:             {Waits: true, KeepsWaitingTime: true, LacksRoom: true},
	Preempting:         {Waits: true, KeepsWaitingTime: true, Intended: true},
	Preempted:          {Waits: true, KeepsWaitingTime: true},
	NeverFits:          {Waits: true, KeepsWaitingTime: true, LacksRoom: true},
	NodesRuledOut:      {Waits: true, KeepsWaitingTime: true},
	NodeRefused:        {Waits: true, KeepsWaitingTime: true},
	NotReserved:        {Waits: true, KeepsWaitingTime: true},
	Binding:            {Waits: true, KeepsWaitingTime: true, Passing: true},
	MatcherUnavailable: {Waits: true, KeepsWaitingTime: true},
	TooHard:            {Waits: true, KeepsWaitingTime: true},
	Throttled:          {Waits: true, KeepsWaitingTime: true},
	MatchError:         {Waits: true, KeepsWaitingTime: true},
	Queued:             {Waits: true, Intended: true},
	Matched:            {},
	AskedTooLate:       {},
	ValidGroupSize:     {},
	InvalidAnnotation:  {Waits: true, Invalid: true},
	MembersFailed:      {},
	Succeeded:          {},
	MembersMissing:     {Waits: true},
	ExpectedMissing:    {Waits: true},
	SeatsTaken:         {},
	Complete:           {},
	NotStarted:         {},
	Restarting:         {},
	DurationExceeded:   {},
	Resumed:            {},
	Created:            {},
	Finished:           {},
	Failed:             {},
	RejectedByKubelet:  {},
	NodesReserved:      {},
	InvalidGroupName:   {},
	TwoGroups:          {},
	OtherScheduler:     {},
	SizesDiffer:        {},
	UnknownAnnotation:  {},
	SizeUnknown:        {},
	MemberLost:         {},
	Recovered:          {},
	AllPlaced:          {},
	OwnerUnreadable:    {},
}

// PropertiesOf returns the properties of a reason. They are zero if the reason is not Fluence's.
func PropertiesOf(reason string) Properties { return properties[reason] }

// All returns all reasons, sorted.
func All() []string { return slices.Sorted(maps.Keys(properties)) }

// Waiting returns the reasons with which a group may wait, sorted.
func Waiting() []string {
	return slices.DeleteFunc(All(), func(r string) bool { return !properties[r].Waits })
}
