package v1alpha1

import (
	"cmp"

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

// A TimeLimit is a Flux Standard Duration (Flux RFC 23) such as 30m, 2h or 1.5d: more than 0, and at most 36500d. The word
// inf is no limit.
//
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^(?i)inf(inity)?$') || self.matches('^([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?0*[0-9]{1,2})?(ms|s|m|h|d)?$') && [double(self.find('^[0-9.eE+-]+')) * (self.endsWith('ms') ? 0.001 : self.endsWith('m') ? 60.0 : self.endsWith('h') ? 3600.0 : self.endsWith('d') ? 86400.0 : 1.0)].all(s, s > 0.0 && s <= 3153600000.0)",message="must be a Flux Standard Duration such as 30m, 2h or 1.5d, more than 0 and at most 36500d; inf is no limit"
type TimeLimit = string

// A Queue is an order in which jobs wait for nodes.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=queues,singular=queue,scope=Cluster,shortName=fq
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Policy",JSONPath=".spec.policy",type=string
// +kubebuilder:printcolumn:name="Priority",JSONPath=".spec.priority",type=integer,priority=1
// +kubebuilder:printcolumn:name="Enabled",JSONPath=".spec.enabled",type=boolean
// +kubebuilder:printcolumn:name="Started",JSONPath=".spec.started",type=boolean
// +kubebuilder:printcolumn:name="Pending",JSONPath=".status.pending",type=integer
// +kubebuilder:printcolumn:name="Running",JSONPath=".status.running",type=integer
// +kubebuilder:printcolumn:name="Ready",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",type=string
// +kubebuilder:printcolumn:name="Message",JSONPath=".status.conditions[?(@.type==\"Ready\")].message",type=string,priority=1
// +kubebuilder:printcolumn:name="Age",JSONPath=".metadata.creationTimestamp",type=date
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",messageExpression="'metadata.name: \"' + self.metadata.name + '\": must be at most 63 characters, because it is the value of the label fluence.flux-framework.org/queue'"
type Queue struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says who may use the queue, and in which order and within which limits it starts jobs.
	Spec QueueSpec `json:"spec"`
	// Status says how many jobs are in the queue.
	// +optional
	Status QueueStatus `json:"status,omitempty"`
}

// QueueSpec says who may use a queue, and in which order and within which limits it starts jobs.
//
// +kubebuilder:validation:XValidation:rule="!has(self.defaults) || !has(self.defaults.duration) || !has(self.limits) || !has(self.limits.duration) || [[self.defaults.duration, self.limits.duration].map(d, d.matches('^[0-9.]+([eE][+-]?0*[0-9]{1,2})?(ms|s|m|h|d)?$') ? double(d.find('^[0-9.eE+-]+')) * (d.endsWith('ms') ? 0.001 : d.endsWith('m') ? 60.0 : d.endsWith('h') ? 3600.0 : d.endsWith('d') ? 86400.0 : 1.0) : 1e300)].all(s, s[0] <= s[1])",fieldPath=".defaults.duration",messageExpression="'\"' + self.defaults.duration + '\": must not be more than spec.limits.duration, \"' + self.limits.duration + '\"'"
type QueueSpec struct {
	// Policy says which jobs may start before others: with fcfs none, with easy those that do not delay the first.
	// +optional
	// +kubebuilder:default=easy
	Policy QueuePolicy `json:"policy,omitempty"`

	// Priority orders queues that have the same nodes: jobs of the queue with the higher number go first.
	// +optional
	// +kubebuilder:validation:Minimum=-1000000000
	// +kubebuilder:validation:Maximum=1000000000
	Priority int32 `json:"priority,omitempty"`

	// Requires selects the nodes of the queue by their labels. Without it the queue has all nodes. The nodes of two
	// queues must be the same or have none in common.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist'] && e.operator in ['In', 'NotIn'] == (has(e.values) && e.values.size() > 0))",message="matchExpressions: an operator must be In or NotIn, with values, or Exists or DoesNotExist, without"
	Requires *metav1.LabelSelector `json:"requires,omitempty"`

	// NamespaceSelector selects the namespaces whose jobs may use the queue. Without it none may. An empty selector
	// selects all.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist'] && e.operator in ['In', 'NotIn'] == (has(e.values) && e.values.size() > 0))",message="matchExpressions: an operator must be In or NotIn, with values, or Exists or DoesNotExist, without"
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// DefaultFor selects the namespaces whose Jobs go into this queue if they name none. Without it there are none. If several
	// queues select a namespace, the oldest queue counts.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist'] && e.operator in ['In', 'NotIn'] == (has(e.values) && e.values.size() > 0))",message="matchExpressions: an operator must be In or NotIn, with values, or Exists or DoesNotExist, without"
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
	// +kubebuilder:default={}
	Limits QueueLimits `json:"limits,omitempty"`

	// Grace is how long after the end of a job its room counts as free, as a Flux Standard Duration (Flux RFC 23) of at most
	// 1d. It should be at least the time that pods take to end.
	// +optional
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?0*[0-9]{1,2})?(ms|s|m|h|d)?$') && double(self.find('^[0-9.eE+-]+')) * (self.endsWith('ms') ? 0.001 : self.endsWith('m') ? 60.0 : self.endsWith('h') ? 3600.0 : self.endsWith('d') ? 86400.0 : 1.0) <= 86400.0",message="must be a Flux Standard Duration such as 30s or 2m, at most 1d"
	Grace string `json:"grace,omitempty"`
}

// QueueDefaults count for jobs that say nothing themselves.
type QueueDefaults struct {
	// Duration is the time limit of a job, as a Flux Standard Duration (Flux RFC 23).
	// +optional
	Duration TimeLimit `json:"duration,omitempty"`
}

// QueueLimits bound the jobs of a queue. A limit that is not set does not bound.
type QueueLimits struct {
	// Duration is the longest time limit of a job, as a Flux Standard Duration (Flux RFC 23). With it, a job must have a
	// time limit, of its own or by default.
	// +optional
	Duration TimeLimit `json:"duration,omitempty"`

	// JobSize bounds one job (Flux RFC 33, policy.limits.job-size).
	// +optional
	JobSize JobSizeLimits `json:"jobSize,omitempty"`

	// Pending is how many jobs may wait. More than that are not taken. Each of them takes memory of the API server.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:default=10000
	Pending *int32 `json:"pending,omitempty"`

	// Running is how many jobs may run at a time.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Running *int32 `json:"running,omitempty"`

	// PerNamespace bounds the jobs of each namespace.
	// +optional
	PerNamespace NamespaceLimits `json:"perNamespace,omitempty"`

	// Requests bounds the sum of what the jobs that run request, by resource.
	// +optional
	// +kubebuilder:validation:MaxProperties=24
	// +kubebuilder:validation:XValidation:rule="self.all(r, !string(self[r]).startsWith('-'))",messageExpression="self.filter(r, string(self[r]).startsWith('-'))[0] + ': must not be negative'"
	Requests corev1.ResourceList `json:"requests,omitempty"`
}

// NamespaceLimits bound the jobs of one namespace in a queue.
type NamespaceLimits struct {
	// Pending is how many jobs may wait.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Pending *int32 `json:"pending,omitempty"`

	// Running is how many jobs may run at a time.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
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
	// +kubebuilder:validation:Maximum=100000
	Pods *int32 `json:"pods,omitempty"`

	// Requests is the sum of what these pods request, by resource.
	// +optional
	// +kubebuilder:validation:MaxProperties=24
	// +kubebuilder:validation:XValidation:rule="self.all(r, !string(self[r]).startsWith('-'))",messageExpression="self.filter(r, string(self[r]).startsWith('-'))[0] + ': must not be negative'"
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

	// Conditions has Ready: whether the queue can start jobs, and why not. It has DefaultOverlaps while Jobs of namespaces that
	// defaultFor selects go into another queue.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// CompareAge orders queues: the older one comes first, and of two that were created in the same second the one of the lesser name.
func CompareAge(a, b *Queue) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// QueueHead is the job of a queue that starts next.
type QueueHead struct {
	// Namespace is that of the FluxJob.
	Namespace string `json:"namespace"`
	// Name is that of the FluxJob.
	Name string `json:"name"`

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
