// Package reason lists the words that a PodGroup gives for how it stands: the reasons of its
// conditions and of events about it. docs/reasons.md explains each of them to users.
//
//	reason.go  which reasons are there?
//	properties.go   what follows for a group from the reason that it was given?
//	plural.go   how does a message count things?
package reason

// Reasons of the condition Scheduled.
const (
	// Placed: the pods have nodes.
	Placed = "Placed"
	// Gathering: fewer pods exist than start together.
	Gathering = "Gathering"
	// NoPodGroup: the PodGroup that the pods wait for does not exist. It is told on a pod.
	NoPodGroup = "NoPodGroup"
	// OwnerNotSeen: what controls the pod has not been seen, so that its group is not known.
	OwnerNotSeen = "OwnerNotSeen"
	// NotSeenYet: the plugin has not been told of the pod.
	NotSeenYet = "NotSeenYet"
	// InvalidGroupSize: a size label is wrong. It is a reason of the condition Valid too.
	InvalidGroupSize = "InvalidGroupSize"
	// InvalidMatchPolicy: the annotation names no policy.
	InvalidMatchPolicy = "InvalidMatchPolicy"
	// InvalidTopology: a topology annotation names no level, or two contradict each other.
	InvalidTopology = "InvalidTopology"
	// NotAllowed: an annotation asks for whole nodes in a namespace that may not have them.
	NotAllowed = "NotAllowed"
	// NoRoom: the group fits the cluster, and not what is free now.
	NoRoom = "NoRoom"
	// NeverFits: the group would not fit if all nodes were empty.
	NeverFits = "NeverFits"
	// NodesRuledOut: the scheduler's filters refuse a pod on all nodes, or refused each match.
	NodesRuledOut = "NodesRuledOut"
	// NodeRefused: the scheduler's filters, or the look before the bind, refused a matched node.
	NodeRefused = "NodeRefused"
	// NotReserved: a member could not be reserved or permitted in time.
	NotReserved = "NotReserved"
	// Binding: the group has nodes, or is about to ask for them, and waits until the API server
	// has taken the binds of its pods or of those before it.
	Binding = "Binding"
	// MatcherUnavailable: the matcher does not answer, or its graph is being loaded.
	MatcherUnavailable = "MatcherUnavailable"
	// TooHard: to find nodes for the group takes more work than one group may have.
	TooHard = "TooHard"
	// Throttled: the group's namespace has used up its share of the scheduler's time.
	Throttled = "Throttled"
	// MatchError: the matcher refuses the request as such, or breaks on it.
	MatchError = "MatchError"
)

// Reasons of the condition WholeNodes.
const (
	// Matched: the group was given whole nodes.
	Matched = "Matched"
	// AskedTooLate: an annotation that asks for whole nodes came after the match.
	AskedTooLate = "AskedTooLate"
)

// Reasons of the condition Valid. Those that are told when it is False are also those of events.
const (
	// ValidGroupSize: the labels are in order.
	ValidGroupSize = "ValidGroupSize"
	// InvalidAnnotation: an annotation about members that are lost is wrong.
	InvalidAnnotation = "InvalidAnnotation"
)

// Reasons of the condition Incomplete, and of events.
const (
	// MembersMissing: the group has started, and has fewer pods on nodes than its minimum.
	MembersMissing = "MembersMissing"
	// Complete: the members are there again.
	Complete = "Complete"
	// NotStarted: no member is on a node any more, so that the next ones start together.
	NotStarted = "NotStarted"
	// Restarting: what runs of an incomplete group is evicted. The condition is written before
	// the first eviction, so that another process goes on with it.
	Restarting = "Restarting"
)

// Reasons of events alone.
const (
	// Created: the controller has made the PodGroup.
	Created = "Created"
	// Finished: the group's pods have succeeded.
	Finished = "Finished"
	// Failed: a pod of the group has failed, and with it the group.
	Failed = "Failed"
	// RejectedByKubelet: the kubelet of a pod's node rejected it.
	RejectedByKubelet = "RejectedByKubelet"
	// NodesReserved: nodes that others had are reserved for the group from now on.
	NodesReserved = "NodesReserved"
	// InvalidGroupName: the group label of a pod cannot be the name of a PodGroup.
	InvalidGroupName = "InvalidGroupName"
	// OwnerUnreadable: the controller cannot read what controls the pods, so that it does not
	// know how many they are.
	OwnerUnreadable = "OwnerUnreadable"
)
