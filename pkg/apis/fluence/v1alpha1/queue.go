package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A QueuePolicy says which jobs of a queue may start before others. The words are those of Flux's qmanager.
//
// +kubebuilder:validation:Enum=fcfs;easy
type QueuePolicy string

const (
	// FCFS starts jobs in their order. No job passes another.
	FCFS QueuePolicy = "fcfs"
	// EASY promises the first job room, and lets later jobs start before it that do not delay it.
	EASY QueuePolicy = "easy"
)

// A Queue is an order in which jobs wait for nodes.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=queues,singular=queue,scope=Cluster,shortName=fq
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Policy",JSONPath=".spec.policy",type=string
// +kubebuilder:printcolumn:name="Enabled",JSONPath=".spec.enabled",type=boolean
// +kubebuilder:printcolumn:name="Started",JSONPath=".spec.started",type=boolean
// +kubebuilder:printcolumn:name="Pending",JSONPath=".status.pending",type=integer
// +kubebuilder:printcolumn:name="Running",JSONPath=".status.running",type=integer
// +kubebuilder:printcolumn:name="Ready",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",type=string
// +kubebuilder:printcolumn:name="Age",JSONPath=".metadata.creationTimestamp",type=date
type Queue struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says who may use the queue, and in which order and within which limits it starts jobs.
	// +optional
	Spec QueueSpec `json:"spec,omitempty"`
	// Status says how many jobs are in the queue.
	// +optional
	Status QueueStatus `json:"status,omitempty"`
}

// QueueSpec says who may use a queue, and in which order and within which limits it starts jobs.
type QueueSpec struct {
	// Policy says which jobs may start before others.
	// +optional
	// +kubebuilder:default=easy
	Policy QueuePolicy `json:"policy,omitempty"`

	// Priority orders queues: of two jobs of the same priority, the job of the queue with the higher number goes first.
	// +optional
	Priority int32 `json:"priority,omitempty"`

	// Requires selects the nodes of the queue by their labels. Without it the queue has all nodes. The nodes of two
	// queues must be the same or have none in common.
	// +optional
	Requires *metav1.LabelSelector `json:"requires,omitempty"`

	// NamespaceSelector selects the namespaces whose jobs may use the queue. Without it none may. An empty selector
	// selects all.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// DefaultFor selects the namespaces whose Jobs go into this queue if they name none. If several queues
	// select a namespace, the oldest queue counts.
	// +optional
	DefaultFor *metav1.LabelSelector `json:"defaultFor,omitempty"`

	// Enabled says whether the queue takes new jobs (flux queue enable).
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`

	// Started says whether jobs of the queue start (flux queue start). Jobs that run go on.
	// +optional
	// +kubebuilder:default=true
	Started *bool `json:"started,omitempty"`

	// Defaults count for jobs that say nothing themselves.
	// +optional
	Defaults QueueDefaults `json:"defaults,omitempty"`

	// Limits bound the jobs of the queue.
	// +optional
	Limits QueueLimits `json:"limits,omitempty"`

	// Grace is how long after the end of a job its room counts as free at the latest. It is at least the time that its pods take to end.
	// +optional
	// +kubebuilder:default="30s"
	Grace *metav1.Duration `json:"grace,omitempty"`
}

// QueueDefaults count for jobs that say nothing themselves.
type QueueDefaults struct {
	// Duration is the time limit of a job, as a Flux Standard Duration (Flux RFC 23).
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Duration string `json:"duration,omitempty"`
}

// QueueLimits bound the jobs of a queue. A limit that is not set does not bound.
type QueueLimits struct {
	// Duration is the longest time limit of a job, as a Flux Standard Duration (Flux RFC 23). With it, a job must have a time limit.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Duration string `json:"duration,omitempty"`

	// JobSize bounds one job (Flux RFC 33, policy.limits.job-size).
	// +optional
	JobSize JobSizeLimits `json:"jobSize,omitempty"`

	// Pending is how many jobs may wait. More than that are not taken. The default is 10,000.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:default=10000
	Pending *int32 `json:"pending,omitempty"`

	// Running is how many jobs may run at a time.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Running *int32 `json:"running,omitempty"`

	// PerNamespace bounds the jobs of each namespace.
	// +optional
	PerNamespace NamespaceLimits `json:"perNamespace,omitempty"`

	// Requests bounds the sum of what the jobs that run request, by resource.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
}

// NamespaceLimits bound the jobs of one namespace in a queue.
type NamespaceLimits struct {
	// Pending is how many jobs may wait.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Pending *int32 `json:"pending,omitempty"`

	// Running is how many jobs may run at a time.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Running *int32 `json:"running,omitempty"`
}

// JobSizeLimits bound one job.
type JobSizeLimits struct {
	// Max is the largest job.
	// +optional
	Max JobSize `json:"max,omitempty"`
}

// JobSize is the size of a job.
type JobSize struct {
	// Pods is the number of pods that run at a time.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Pods *int32 `json:"pods,omitempty"`

	// Requests is the sum of what these pods request, by resource.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
}

// QueueStatus says how many jobs are in a queue. The scheduler writes it.
type QueueStatus struct {
	// Pending is the number of jobs that wait.
	// +optional
	Pending int32 `json:"pending"`

	// Running is the number of jobs that have nodes.
	// +optional
	Running int32 `json:"running"`

	// Used is the sum of what the jobs that have nodes request, by resource.
	// +optional
	Used corev1.ResourceList `json:"used,omitempty"`

	// Head is the job that starts next.
	// +optional
	Head *QueueHead `json:"head,omitempty"`

	// Conditions has Ready: whether the queue can start jobs, and why not.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// QueueHead is the job of a queue that starts next.
type QueueHead struct {
	// Namespace and Name are those of the FluxJob.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`

	// At is when it is promised room. It is empty if it is not promised any.
	// +optional
	At *metav1.Time `json:"at,omitempty"`
}

// QueueList is a list of queues.
//
// +kubebuilder:object:root=true
type QueueList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Queue `json:"items"`
}
