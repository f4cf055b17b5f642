package v1alpha1

import "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

// The labels of a group's pods.
const (
	// PodGroupLabel puts a pod into the PodGroup of this name in its namespace.
	PodGroupLabel = v1alpha1.PodGroupLabel
	// GroupSizeLabel is how many pods the group wants to start with.
	GroupSizeLabel = "fluence.group-size"
	// GroupMinLabel is how many pods the group can start with; the size if absent.
	GroupMinLabel = "fluence.group-min"
)

// A PodGroupPhase is how far a group has come.
type PodGroupPhase = v1alpha1.PodGroupPhase

// The phases of a group.
const (
	// PodGroupPending: no pod of the group has a node.
	PodGroupPending = v1alpha1.PodGroupPending
	// PodGroupScheduling: pods have nodes, but fewer than minMember run.
	PodGroupScheduling = v1alpha1.PodGroupScheduling
	// PodGroupRunning: minMember pods run or have succeeded.
	PodGroupRunning = v1alpha1.PodGroupRunning
	// PodGroupUnknown: pods of a group that ran are gone or without a node, so
	// that fewer than minMember have one.
	PodGroupUnknown = v1alpha1.PodGroupUnknown
	// PodGroupFinished: the group's work is done.
	PodGroupFinished = v1alpha1.PodGroupFinished
	// PodGroupFailed: so many pods have failed that minMember cannot run.
	PodGroupFailed = v1alpha1.PodGroupFailed
	// PodGroupIdle: no pod is on a node, and the group's owners want none, such as a Deployment
	// that is scaled to 0. Fluence adds this phase.
	PodGroupIdle v1alpha1.PodGroupPhase = "Idle"
	// PodGroupSuspended: no pod is on a node, and the group's owners are suspended. Fluence adds
	// this phase.
	PodGroupSuspended v1alpha1.PodGroupPhase = "Suspended"
)
