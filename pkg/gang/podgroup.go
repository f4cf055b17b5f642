package gang

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
)

// A PodGroup is what this package needs from the API object of that kind.
type PodGroup struct {
	UID       types.UID
	MinMember int32
	// Created is the creation time. It orders groups of one priority.
	Created time.Time
	// Timeout limits the time from a match until minMember
	// pods are reserved. 0 means the default of the caller.
	Timeout time.Duration
	// Ended is true if no more pods are to come.
	Ended bool
	Absence
	// Policy is the value of MatchPolicyAnnotation.
	Policy string
	// Topology holds the values of the topology annotations.
	Topology group.TopologyAnnotations
	// PreemptionDelay is the value of group.PreemptionDelayAnnotation.
	PreemptionDelay string
	// Duration is the value of group.DurationAnnotation.
	Duration string
	// Exclusivity is what the status says about the nodes of the group's pods.
	Exclusivity Exclusivity
	// ExclusivitySince is since when the status has said that.
	ExclusivitySince time.Time
	Stages
	Native
	// Placed is how many pods had nodes when the status last reported it. 0
	// means that the group has not been placed, or that nothing is known.
	Placed int
}

// Native is what only native PodGroups say.
type Native struct {
	// Basic is true for a native PodGroup whose policy is basic. MinMember is
	// then the minimum that the controller has found, and 0 if it has not yet.
	Basic bool
	// Priority is the priority that all pods of a native PodGroup must have.
	Priority int32
	// Domain is a node label that is no level: the nodes of all
	// pods have to have the same value of it. It is empty if there is none.
	Domain string
	// Fault is why no pod of the group may start, whatever the pods are. It is zero if there is none.
	Fault Fault
}

// Stages is what is known of the pods that the owner of a group makes only after others.
type Stages struct {
	// Templates describes the pods that the group's owner makes. It is nil if the owner makes all of
	// them at once, or if nothing is known of them.
	Templates *Templates
	// Seats is what the status records of the seats of the group.
	Seats RecordedSeats
	// ExpectedMissing is the message of the status on pods that did not come while they had seats.
	// It is empty if there is none.
	ExpectedMissing string
	// SeatsTaken is the message of the status on seats that were lost and are looked for. It is empty if there are none.
	SeatsTaken string
	// StagesTogether is the value of group.StagesAnnotation.
	StagesTogether string
	// Expect holds the annotations about seats.
	Expect group.ExpectAnnotations
}

// An Absence is why pods that a group lacks are not made.
type Absence struct {
	// Suspended is true if the objects that make the pods are suspended.
	Suspended bool
	// WhyNotExpected says why the pods are not made, in words fit for a user. It is empty if they are to come.
	WhyNotExpected string
	// EndedAs is what to report of a group that has ended without nodes. It is zero if the status says it, or if
	// the group has had nodes or has not ended.
	EndedAs Fault
}

// A Fault is a field of a PodGroup that is invalid or not supported: a
// reason of package reason, and a message that names field and value.
type Fault struct{ Reason, Message string }

// An Exclusivity says whether a group has its nodes for itself.
type Exclusivity int

const (
	// ExclusivityUnknown means that nothing is known.
	ExclusivityUnknown Exclusivity = iota
	// Exclusive means that the group was given whole nodes.
	Exclusive
	// Shared means that the group shares its nodes, whatever its annotations say now.
	Shared
)
