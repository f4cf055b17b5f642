package gang

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
)

// A PodGroup is what the API object of that kind says of a group.
type PodGroup struct {
	UID       types.UID
	MinMember int32
	// Created orders groups of one priority.
	Created time.Time
	// Timeout bounds the time from a match until minMember are reserved; 0 leaves
	// it to the caller.
	Timeout time.Duration
	// Ended says that no more pods are to come.
	Ended bool
	// Policy is what MatchPolicyAnnotation says.
	Policy string
	// Topology is what the annotations of topology say.
	Topology group.TopologyAnnotations
	// Exclusivity is what the status says of the nodes of the group's pods, as it was at ExclusivitySince.
	Exclusivity      Exclusivity
	ExclusivitySince time.Time
	// Placed is how many pods of the group had nodes when its status last told so; 0 is unknown,
	// or that it has not been placed.
	Placed int
}

// A Exclusivity is what a PodGroup's status says of the nodes of its pods.
type Exclusivity int

const (
	// ExclusivityUnknown is that the status does not say.
	ExclusivityUnknown Exclusivity = iota
	// Exclusive is that the group was given whole nodes.
	Exclusive
	// Shared is that it shares its nodes, whatever its annotations say now.
	Shared
)
