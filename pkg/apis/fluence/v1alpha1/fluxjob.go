package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A FluxJob is a Job or a pod that waits in a Queue, or has nodes from it. The controller makes it, and names it as the
// PodGroup of the same workload.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=fluxjobs,singular=fluxjob,shortName=fj
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Queue",JSONPath=".spec.queue",type=string
// +kubebuilder:printcolumn:name="Priority",JSONPath=".spec.priority",type=integer
// +kubebuilder:printcolumn:name="Pods",JSONPath=".spec.pods",type=integer
// +kubebuilder:printcolumn:name="Duration",JSONPath=".spec.duration",type=string
// +kubebuilder:printcolumn:name="Phase",JSONPath=".status.phase",type=string
// +kubebuilder:printcolumn:name="Reason",JSONPath=".status.conditions[?(@.type==\"Admitted\")].reason",type=string
// +kubebuilder:printcolumn:name="Starts",JSONPath=".status.promise.at",type=string
// +kubebuilder:printcolumn:name="Ends",JSONPath=".status.allocation.end",type=string,priority=1
// +kubebuilder:printcolumn:name="Result",JSONPath=".status.result",type=string,priority=1
// +kubebuilder:printcolumn:name="Message",JSONPath=".status.conditions[?(@.type==\"Admitted\")].message",type=string,priority=1
// +kubebuilder:printcolumn:name="Age",JSONPath=".metadata.creationTimestamp",type=date
type FluxJob struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what the job asks for.
	Spec FluxJobSpec `json:"spec"`
	// Status says how far the job has come.
	// +optional
	Status FluxJobStatus `json:"status,omitempty"`
}

// FluxJobSpec says what a job asks for. The controller writes it from the workload. Users may edit Duration and Held. Nobody
// may edit the rest: if the workload asks for something else before it has started, the controller makes the FluxJob anew.
//
// +kubebuilder:validation:XValidation:rule="has(self.requests) == has(oldSelf.requests) && (!has(self.requests) || self.requests == oldSelf.requests)",fieldPath=".requests",message="must stay as they are"
// +kubebuilder:validation:XValidation:rule="has(self.nodes) == has(oldSelf.nodes) && (!has(self.nodes) || self.nodes == oldSelf.nodes)",fieldPath=".nodes",message="must stay as they are"
// +kubebuilder:validation:XValidation:rule="has(self.placement) == has(oldSelf.placement) && (!has(self.placement) || self.placement == oldSelf.placement)",fieldPath=".placement",message="must stay as it is"
type FluxJobSpec struct {
	// Queue is the name of the Queue.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",messageExpression="'must stay \"' + oldSelf + '\": a job does not change its queue'"
	Queue string `json:"queue"`

	// Workload is the object whose pods the job has.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",messageExpression="self.kind + ' \"' + self.name + '\" (UID ' + self.uid + '): must stay ' + oldSelf.kind + ' \"' + oldSelf.name + '\" (UID ' + oldSelf.uid + ')'"
	Workload WorkloadReference `json:"workload"`

	// Jobspec is the request for resources (Flux RFC 14, version 9999 with pools of amounts), as YAML. It has one slot for each
	// pod that runs at a time, and names no nodes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="must stay as it is"
	Jobspec string `json:"jobspec"`

	// Pods is the number of pods that run at a time.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="must stay as it is"
	Pods int32 `json:"pods"`

	// Requests is what one pod requests, by resource.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Requests corev1.ResourceList `json:"requests,omitempty"`

	// Nodes says which nodes the pods may be on, as their template does.
	// +optional
	Nodes NodeRules `json:"nodes,omitempty"`

	// Placement has those annotations of the pod template that say how near to each other the pods are placed, and in which order
	// nodes are chosen.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Placement map[string]string `json:"placement,omitempty"`

	// Priority is the priority of the pods' PriorityClass.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=-2147483648
	// +kubebuilder:validation:Maximum=2000001000
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="must stay the priority of the pods"
	Priority int32 `json:"priority"`

	// Duration is the time limit of the job, as a Flux Standard Duration (Flux RFC 23). It counts from the start. Without it
	// the default of the queue counts; inf is no limit.
	// +optional
	Duration TimeLimit `json:"duration,omitempty"`

	// Held keeps the job from starting (scontrol hold).
	// +optional
	Held bool `json:"held,omitempty"`
}

// A WorkloadReference names the object whose pods a job has, in the job's namespace.
//
// +kubebuilder:validation:XValidation:rule="self.apiVersion == 'batch/v1' && self.kind == 'Job' || self.apiVersion == 'v1' && self.kind == 'Pod'",messageExpression="'kind: \"' + self.kind + '\" of \"' + self.apiVersion + '\": must be Job of batch/v1 or Pod of v1'"
type WorkloadReference struct {
	// APIVersion is the group and the version of its kind.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	APIVersion string `json:"apiVersion"`
	// Kind is Job or Pod.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// Name is metadata.name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// UID is metadata.uid of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Type=string
	UID types.UID `json:"uid"`
}

// NodeRules say which nodes pods may be on: the part of a pod template that looks only at nodes.
type NodeRules struct {
	// Selector is spec.nodeSelector.
	// +optional
	Selector map[string]string `json:"selector,omitempty"`

	// Affinity is what spec.affinity.nodeAffinity requires.
	// +optional
	Affinity *corev1.NodeSelector `json:"affinity,omitempty"`

	// Tolerations are spec.tolerations.
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// FluxJobStatus says how far a job has come. The scheduler writes Phase (up to Ready), Promise, Allocation and the conditions
// Admitted and Promised; the controller writes the rest.
type FluxJobStatus struct {
	// Phase says how far the job has come.
	// +optional
	Phase JobPhase `json:"phase,omitempty"`

	// CreationTime is since when the workload waits, to the microsecond. Of two jobs of the same priority the older one goes first.
	// +optional
	CreationTime *metav1.MicroTime `json:"creationTime,omitempty"`

	// Promise is the room that the job will have.
	// +optional
	Promise *JobPromise `json:"promise,omitempty"`

	// Allocation is the room that the job has, from before its pods exist.
	// +optional
	Allocation *JobAllocation `json:"allocation,omitempty"`

	// Started is when the workload was let go with its allocation.
	// +optional
	Started *metav1.Time `json:"started,omitempty"`

	// Ended is when the workload ended.
	// +optional
	Ended *metav1.Time `json:"ended,omitempty"`

	// Result is how the job ended.
	// +optional
	Result JobResult `json:"result,omitempty"`

	// Requeues counts how often the job lost an allocation.
	// +optional
	Requeues int32 `json:"requeues,omitempty"`

	// Conditions has Valid, Admitted, Released and Finished.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// A JobPromise is the room that a job will have.
type JobPromise struct {
	// At is when the room is free for it.
	At metav1.Time `json:"at"`
	// Nodes is the number of nodes.
	Nodes int32 `json:"nodes"`
	// Since is when it was promised first for this time.
	Since metav1.Time `json:"since"`
	// Why says what has moved it later. It is empty if nothing has.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Why string `json:"why,omitempty"`
}

// A JobAllocation is the room that a job has: these numbers of pods on these nodes.
type JobAllocation struct {
	// Attempt counts the allocations of the job, from 1. It makes the matcher's job of each a different one.
	Attempt int64 `json:"attempt"`
	// At is since when the room is held for it.
	At metav1.MicroTime `json:"at"`
	// End is when the room is free again, with the grace of the queue. It is empty if that is not known.
	// +optional
	End *metav1.Time `json:"end,omitempty"`
	// Seats are the nodes, in the order of the matcher's slots.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	Seats []Seats `json:"seats"`
}

// Seats are nodes with the same number of pods each.
type Seats struct {
	// Hosts are the names of the nodes, as a hostlist (Flux RFC 29).
	// +kubebuilder:validation:MinLength=1
	Hosts string `json:"hosts"`
	// Each is the number of pods on each node.
	// +kubebuilder:validation:Minimum=1
	Each int32 `json:"each"`
}

// FluxJobList is a list of jobs.
//
// +kubebuilder:object:root=true
type FluxJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FluxJob `json:"items"`
}
