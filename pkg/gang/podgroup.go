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
	// Policy is the value of MatchPolicyAnnotation.
	Policy string
	// Topology holds the values of the topology annotations.
	Topology group.TopologyAnnotations
	// Exclusivity is what the status says about the nodes of the group's pods.
	Exclusivity Exclusivity
	// ExclusivitySince is since when the status has said that.
	ExclusivitySince time.Time
	// Templates describes the pods that the group's owner makes. It is nil if the owner makes all of
	// them at once, or if nothing is known of them.
	Templates *Templates
	// Seats is what the status records of the seats of the group.
	Seats RecordedSeats
	// Placed is how many pods had nodes when the status last reported it. 0
	// means that the group has not been placed, or that nothing is known.
	Placed int
}

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
