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

// FluxJobSpec says what a job asks for. The controller writes all of it from the workload, but Duration, Held and
// Priority only when it makes the FluxJob, or when the workload changes: users may edit these.
type FluxJobSpec struct {
	// Queue is the name of the Queue.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Queue string `json:"queue"`

	// Workload is the object whose pods the job has.
	Workload WorkloadReference `json:"workload"`

	// Jobspec is the request for resources (Flux RFC 14, version 9999 with pools of amounts), as YAML. It has one slot for each
	// pod that runs at a time, and names no nodes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Jobspec string `json:"jobspec"`

	// Pods is the number of pods that run at a time.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Pods int32 `json:"pods"`

	// Requests is what one pod requests, by resource.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`

	// Nodes says which nodes the pods may be on, as their template does.
	// +optional
	Nodes NodeRules `json:"nodes,omitempty"`

	// Priority is the priority of the pods' PriorityClass.
	// +optional
	// +kubebuilder:validation:Minimum=-2147483648
	// +kubebuilder:validation:Maximum=1000000000
	Priority int32 `json:"priority,omitempty"`

	// Duration is the time limit of the job, as a Flux Standard Duration (Flux RFC 23). It counts from the start. Without it
	// the default of the queue counts; inf is no limit.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Duration string `json:"duration,omitempty"`

	// Held keeps the job from starting (scontrol hold).
	// +optional
	Held bool `json:"held,omitempty"`
}

// A WorkloadReference names the object whose pods a job has, in the job's namespace.
type WorkloadReference struct {
	// +kubebuilder:validation:MaxLength=253
	APIVersion string `json:"apiVersion"`
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
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

	// CreationTime is when the FluxJob was made, to the microsecond. It orders jobs that metadata.creationTimestamp does not.
	// +optional
	CreationTime *metav1.MicroTime `json:"creationTime,omitempty"`

	// Promise is the room that the job will have.
	// +optional
	Promise *JobPromise `json:"promise,omitempty"`

	// Allocation is the room that the job has, from before its pods exist.
	// +optional
	Allocation *JobAllocation `json:"allocation,omitempty"`

	// Started is when the workload was let go with its allocation, and Ended is when it ended.
	// +optional
	Started *metav1.Time `json:"started,omitempty"`
	// +optional
	Ended *metav1.Time `json:"ended,omitempty"`

	// Result is how the job ended.
	// +optional
	Result JobResult `json:"result,omitempty"`

	// Requeues counts how often the job lost an allocation before it had started.
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
	// At is from when.
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
	// Attempt counts the allocations of the job. It makes the matcher's job of each a different one.
	Attempt int64 `json:"attempt"`
	// At is since when.
	At metav1.MicroTime `json:"at"`
	// End is when the room is free again, with the grace of the queue. It is empty if that is not known.
	// +optional
	End *metav1.Time `json:"end,omitempty"`
	// Seats are the nodes, in lists of nodes with the same number of pods.
	// +listType=atomic
	Seats []Seats `json:"seats"`
}

// Seats are nodes with the same number of pods each.
type Seats struct {
	// Hosts are the names of the nodes, as a hostlist (Flux RFC 29).
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
