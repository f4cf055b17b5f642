package v1alpha1

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// A PodGroup is a set of pods that start together or not at all.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=podgroups,singular=podgroup,shortName={fpg,pg,pgs}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Min",JSONPath=".spec.minMember",type=integer,description="How many pods the group starts with at the least."
// +kubebuilder:printcolumn:name="Size",JSONPath=".status.desired",type=integer,description="How many pods the group wants."
// +kubebuilder:printcolumn:name="Bound",JSONPath=".status.scheduled",type=integer,description="How many pods are on nodes and have not ended."
// +kubebuilder:printcolumn:name="Phase",JSONPath=".status.phase",type=string,description="How far the group has come."
// +kubebuilder:printcolumn:name="Reason",JSONPath=".status.conditions[?(@.type==\"Scheduled\")].reason",type=string,description="What the scheduler says of the group."
// +kubebuilder:printcolumn:name="Running",JSONPath=".status.running",type=integer,priority=1,description="How many pods run."
// +kubebuilder:printcolumn:name="Succeeded",JSONPath=".status.succeeded",type=integer,priority=1,description="How many pods have succeeded."
// +kubebuilder:printcolumn:name="Failed",JSONPath=".status.failed",type=integer,priority=1,description="How many pods have failed."
// +kubebuilder:printcolumn:name="Age",JSONPath=".metadata.creationTimestamp",type=date,description="How long ago the PodGroup was made."
type PodGroup struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what the group needs.
	// +optional
	Spec PodGroupSpec `json:"spec,omitempty"`
	// Status says how far the group has come. The default is what the controller would write
	// of a new group, so that it need not.
	// +optional
	// +kubebuilder:default={phase: Pending, scheduled: 0, running: 0, succeeded: 0, failed: 0}
	Status PodGroupStatus `json:"status,omitempty"`
}

// PodGroupSpec is what the group needs: the fields of scheduler-plugins and those that Fluence adds.
type PodGroupSpec struct {
	// MinMember is how many pods of the group start together: none of them starts before so many exist
	// and have nodes. The default is 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MinMember int32 `json:"minMember,omitempty"`

	// MinResources is kept for clients of scheduler-plugins. Fluence does not read it, but the requests of
	// the pods.
	// +optional
	MinResources corev1.ResourceList `json:"minResources,omitempty"`

	// ScheduleTimeoutSeconds is how many seconds the pods that start together may take to pass Reserve,
	// after they got nodes. Then the group gives back its nodes. It is at most 900. If it is not set, the
	// argument scheduleTimeout of the scheduler counts.
	// +optional
	ScheduleTimeoutSeconds *int32 `json:"scheduleTimeoutSeconds,omitempty"`

	// Templates are the pods that the group's owner makes, if it makes some of them only after
	// others. MinMember is then the number of the pods that are coming in the first stage.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	Templates []PodsOfTemplate `json:"templates,omitempty"`
}

// PodsOfTemplate are the pods that an owner makes from one pod template.
type PodsOfTemplate struct {
	// Name is the name of the template.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// Coming is how many pods the owner makes without waiting for others of the stage.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Coming int32 `json:"coming,omitempty"`

	// Expected is how many pods the owner makes after others of the stage have nodes or are
	// ready. They are matched with the others, and room is held for them.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Expected int32 `json:"expected,omitempty"`

	// After is what has to become of the others before the expected pods are made.
	// +optional
	// +kubebuilder:validation:Enum=Bound;Ready
	After string `json:"after,omitempty"`

	// Leader is the template of the pod in whose topology domain the expected pods have to be.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Leader string `json:"leader,omitempty"`

	// Stage is the number of the stage, counted from 0. The pods of a stage are made when those of
	// the stages before have ended.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=127
	Stage int32 `json:"stage,omitempty"`

	// Pod has the labels of the pod template, and the fields of its spec by which a pod is placed.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Pod *runtime.RawExtension `json:"pod,omitempty"`
}

// PodGroupStatus is how far the group has come: the fields of scheduler-plugins
// and those that Fluence adds.
type PodGroupStatus struct {
	// Phase is how far the group has come: Pending, Scheduling, Running, Unknown, Idle, Suspended,
	// Finished or Failed.
	// +optional
	Phase PodGroupPhase `json:"phase,omitempty"`

	// OccupiedBy is the namespace and the name of an owner of the group's pods.
	// +optional
	OccupiedBy string `json:"occupiedBy,omitempty"`

	// Running is the number of pods that run.
	// +optional
	Running int32 `json:"running,omitempty"`

	// Succeeded is the number of pods that have succeeded.
	// +optional
	Succeeded int32 `json:"succeeded,omitempty"`

	// Failed is the number of pods that have failed.
	// +optional
	Failed int32 `json:"failed,omitempty"`

	// ScheduleStartTime is kept for clients of scheduler-plugins. Fluence does not use it.
	// +optional
	ScheduleStartTime metav1.Time `json:"scheduleStartTime,omitempty"`

	// Scheduled is the number of pods that have a node and have not ended.
	// +optional
	Scheduled int32 `json:"scheduled,omitempty"`

	// Desired is the number of pods that the group wants: the size that its labels or owners name, or
	// the pods that exist and have not ended while none is known, and at least minMember. It is 0 while
	// its owners want no pods.
	// +optional
	Desired int32 `json:"desired,omitempty"`

	// CreationTime is when the group came to be, with exactly six digits of a
	// second: groups of one priority start in this order. It is set once and
	// never changed.
	//
	// The pattern is there because clients cannot decode a MicroTime with fewer
	// digits, nor any list that holds one.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}(Z|[+-]\d{2}:\d{2})$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is set once and never changed"
	CreationTime *metav1.MicroTime `json:"creationTime,omitempty"`

	// Seats is how many pods of each template have a seat or a node, by template and node. It is
	// written before the first pod is bound, if pods are expected, and whenever seats are given
	// back or moved. It is removed when no seat is left.
	// +optional
	Seats map[string]map[string]int32 `json:"seats,omitempty"`

	// Conditions are what is known of the group, by type. Each type belongs to
	// one writer.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PodGroupList is a list of PodGroups.
//
// +kubebuilder:object:root=true
type PodGroupList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PodGroup `json:"items"`
}

// ConditionSeatsHeld is a condition of the scheduler, which the controller reads. It is False
// if pods that the group's owner makes after others have no seats any more, and absent otherwise.
const ConditionSeatsHeld = "SeatsHeld"

// ConditionMembersExpected is a condition of the controller, which the scheduler reads. It is
// False while a group that has not started lacks pods that nobody makes for now: its owners are
// suspended, or its pods have failed. It is absent otherwise.
const ConditionMembersExpected = "MembersExpected"

// CreationTimeAnnotation has the time at which the controller made the PodGroup, in
// the form of status.creationTime, which the controller writes with its first status.
const CreationTimeAnnotation = "fluence.flux-framework.org/creation-time"

// maxCreationLag is how long after its owner a PodGroup may be created for its annotation to count.
// In a burst of Jobs the controller needs seconds for all their PodGroups.
const maxCreationLag = 10 * time.Second

// CreationTime returns when the group came to be: status.creationTime or,
// where that is not set, because the CRD lacks it or the group is new, the time
// in CreationTimeAnnotation. Users may write annotations, so the result is at most maxCreationLag
// before the second that metadata.creationTimestamp names, and not after that second.
func CreationTime(pg *PodGroup) metav1.MicroTime {
	if t := pg.Status.CreationTime; t != nil && !t.IsZero() {
		return *t
	}
	second := pg.CreationTimestamp.Time
	said, err := time.Parse(metav1.RFC3339Micro, pg.Annotations[CreationTimeAnnotation])
	if err != nil {
		return metav1.NewMicroTime(second)
	}
	if first := second.Add(-maxCreationLag); said.Before(first) {
		said = first
	}
	if last := second.Add(time.Second - time.Microsecond); said.After(last) {
		said = last
	}
	return metav1.NewMicroTime(said)
}
