// Package reason has the reasons of a PodGroup's conditions, and of events about a PodGroup.
// docs/reasons.md explains each of them to users.
//
//	reason.go      Which reasons are there?
//	properties.go  What follows for a group from its reason?
//	plural.go      How does a message count things?
//	time.go        How does a message say a time?
package reason

// Reasons of the condition Scheduled.
const (
	// Placed: the pods have nodes.
	Placed = "Placed"
	// Expecting: the pods have nodes, and seats are held for pods that their owner makes later.
	Expecting = "Expecting"
	// Gathering: fewer pods exist than have to start together.
	Gathering = "Gathering"
	// NoPodGroup: the PodGroup that the pods wait for does not exist. It is reported on a pod.
	NoPodGroup = "NoPodGroup"
	// NoMinimum: it is not known yet how many pods of a native PodGroup start together.
	NoMinimum = "NoMinimum"
	// OwnerNotSeen: the owner of the pod has not been seen, so that the pod's group is not known.
	OwnerNotSeen = "OwnerNotSeen"
	// NotSeenYet: the plugin has not seen the pod yet.
	NotSeenYet = "NotSeenYet"
	// InvalidGroupSize: a size label is wrong. It is also a reason of the condition Valid.
	InvalidGroupSize = "InvalidGroupSize"
	// InvalidMatchPolicy: the annotation names no policy, or one that the matcher does not offer.
	InvalidMatchPolicy = "InvalidMatchPolicy"
	// InvalidTopology: a topology annotation names an unknown level, or two contradict each other.
	InvalidTopology = "InvalidTopology"
	// NotAllowed: an annotation asks for whole nodes in a namespace that may not have them.
	NotAllowed = "NotAllowed"
	// InvalidPriority: a pod does not have the priority of its native PodGroup, or its preemption policy.
	InvalidPriority = "InvalidPriority"
	// NotSupported: the group is a native PodGroup that asks for what Fluence does not have.
	NotSupported = "NotSupported"
	// NoRoom: the group fits the cluster, but not what is free now.
	NoRoom = "NoRoom"
	// Preempting: the group waits for pods to end that are evicted for it. It is also the reason of the
	// condition PodScheduled of its pods.
	Preempting = "Preempting"
	// NeverFits: the group would not fit even if all nodes were empty.
	NeverFits = "NeverFits"
	// NodesRuledOut: the scheduler's filters reject a pod on all nodes, or rejected each match.
	NodesRuledOut = "NodesRuledOut"
	// NodeRefused: the scheduler's filters, or the
	// check before the bind, rejected an assigned node.
	NodeRefused = "NodeRefused"
	// NotReserved: a member could not be reserved or permitted in time.
	NotReserved = "NotReserved"
	// Binding: the pods of the group have nodes and wait to be bound, or
	// the group waits to be placed until pods of earlier groups are bound.
	Binding = "Binding"
	// MatcherUnavailable: the matcher does not answer, or its graph is being loaded.
	MatcherUnavailable = "MatcherUnavailable"
	// TooHard: to find nodes for the group takes more work than one group may take.
	TooHard = "TooHard"
	// Throttled: the group's namespace has used up its share of the scheduler's time.
	Throttled = "Throttled"
	// MatchError: the matcher rejects the request as invalid, or breaks on it.
	MatchError = "MatchError"
	// Queued: the group waits for its turn in a queue of jobs.
	Queued = "Queued"
)

// Reasons of the condition WholeNodes.
const (
	// Matched: the group was given whole nodes.
	Matched = "Matched"
	// AskedTooLate: an annotation that asks for whole nodes came after the match.
	AskedTooLate = "AskedTooLate"
)

// Reasons of the condition Valid. The reasons with which it is False are also reasons of events.
const (
	// ValidGroupSize: the size labels are valid.
	ValidGroupSize = "ValidGroupSize"
	// InvalidAnnotation: an annotation for incomplete groups is wrong, or one that has to be true or
	// false, or the duration. With the latter two it is a reason of the condition Scheduled.
	InvalidAnnotation = "InvalidAnnotation"
)

// Reasons of the condition MembersExpected, with which it is False. Suspended is also a reason of the
// condition Scheduled.
const (
	// Suspended: the owners of the group are suspended, so that they make no pods.
	Suspended = "Suspended"
	// MembersFailed: pods of the group have failed, and others were not made for them.
	MembersFailed = "MembersFailed"
)

// Reasons of the condition Finished. Another one is Failed. If an owner of the group says why it has
// failed, its reason is the reason of the condition.
const (
	// Succeeded: the pods of the group have succeeded.
	Succeeded = "Succeeded"
)

// Reasons of the condition Incomplete, and of events.
const (
	// MembersMissing: the group has started, and has fewer pods on nodes than its minimum.
	MembersMissing = "MembersMissing"
	// ExpectedMissing: pods that the group's owner was to make after others did not come while room was
	// held for them. It is also a reason of the condition SeatsHeld.
	ExpectedMissing = "ExpectedMissing"
	// Complete: as a condition: the group has enough pods on nodes again; as an event: enough pods to start exist.
	Complete = "Complete"
	// NotStarted: no member is on a node any more, so that the next members start together.
	NotStarted = "NotStarted"
	// Restarting: the remaining pods of an incomplete group are evicted. The condition
	// is written before the first eviction, so that another process can go on with it.
	Restarting = "Restarting"
)

// Reasons of the condition SeatsHeld.
const (
	// SeatsTaken: other pods have taken the room that was held for pods to come.
	SeatsTaken = "SeatsTaken"
)

// Reasons of the condition Preempted, and of events.
const (
	// Preempted: pods of the group are evicted for a group of higher priority, or were.
	Preempted = "Preempted"
)

// Reasons of events alone.
const (
	// Created: the controller has made the PodGroup.
	Created = "Created"
	// Finished: the pods of the group have succeeded.
	Finished = "Finished"
	// Failed: a pod of the group has failed, and with it the group.
	Failed = "Failed"
	// RejectedByKubelet: the kubelet of a pod's node rejected it.
	RejectedByKubelet = "RejectedByKubelet"
	// NodesReserved: nodes that others could have had are reserved for the group from now on.
	NodesReserved = "NodesReserved"
	// TwoGroups: a pod names a native PodGroup, and a label names another group. The label does not count.
	TwoGroups = "TwoGroups"
	// InvalidGroupName: the group label of a pod cannot be the name of a PodGroup.
	InvalidGroupName = "InvalidGroupName"
	// OtherScheduler: the group needs more pods than its owners make for this scheduler,
	// and other pods of these owners ask for another scheduler.
	OtherScheduler = "OtherScheduler"
	// SizesDiffer: the pod templates of an object have different size labels, or one has none.
	SizesDiffer = "SizesDiffer"
	// UnknownAnnotation: labels or annotations with Fluence's prefixes have no effect where they are.
	UnknownAnnotation = "UnknownAnnotation"
	// SizeUnknown: a label puts several owners into one group, and no label says its size.
	SizeUnknown = "SizeUnknown"
	// MemberLost: a pod of a started group has failed or is gone, and fewer pods than its minimum are on nodes.
	MemberLost = "MemberLost"
	// Recovered: a group that had lost members has enough pods on nodes again.
	Recovered = "Recovered"
	// AllPlaced: all pods of a group that started with fewer have nodes.
	AllPlaced = "AllPlaced"
	// DurationExceeded: the controller has ended a pod or a Job that held its nodes for longer than its duration.
	DurationExceeded = "DurationExceeded"
	// Resumed: an owner of the group was resumed after it was suspended for a group of higher priority.
	Resumed = "Resumed"
	// OwnerUnreadable: the controller cannot read the owner of the
	// pods, so that it does not know how many pods there are to be.
	OwnerUnreadable = "OwnerUnreadable"
)
