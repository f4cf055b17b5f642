package v1alpha1

// A JobPhase says how far a job has come.
//
// +kubebuilder:validation:Enum=Requested;Waiting;Ready;Running;Finished
type JobPhase string

const (
	// Requested: the scheduler has not read the job yet.
	Requested JobPhase = "Requested"
	// Waiting: the job waits in its queue.
	Waiting JobPhase = "Waiting"
	// Ready: the job has an allocation, and its workload is about to be let go.
	Ready JobPhase = "Ready"
	// Running: the workload was let go.
	Running JobPhase = "Running"
	// Finished: the workload has ended or is gone.
	Finished JobPhase = "Finished"
)

// A JobResult is how a job ended.
//
// +kubebuilder:validation:Enum=Succeeded;Failed;WalltimeExceeded;Cancelled
type JobResult string

// The results of jobs.
const (
	Succeeded        JobResult = "Succeeded"
	Failed           JobResult = "Failed"
	WalltimeExceeded JobResult = "WalltimeExceeded"
	// Cancelled: the workload was deleted, or left the queue.
	Cancelled JobResult = "Cancelled"
)

// Types of the conditions of a FluxJob.
const (
	// ConditionValid is False if the job cannot run as it is. The controller writes it.
	ConditionValid = "Valid"
	// ConditionAdmitted is True if the job has an allocation, and False with the reason why it waits. The scheduler writes it.
	ConditionAdmitted = "Admitted"
	// ConditionReleased is True if the workload was let go. The controller writes it.
	ConditionReleased = "Released"
	// ConditionFinished is True if the workload has ended or is gone. The controller writes it.
	ConditionFinished = "Finished"
	// ConditionReady is the condition of a Queue.
	ConditionReady = "Ready"
)

// Reasons of the condition Admitted.
const (
	ReasonAdmitted     = "Admitted"
	ReasonNotItsTurn   = "NotItsTurn"
	ReasonNoRoom       = "NoRoom"
	ReasonPromised     = "Promised"
	ReasonLimitReached = "LimitReached"
	ReasonQueueStopped = "QueueStopped"
	ReasonHeld         = "Held"
	ReasonNoQueue      = "NoQueue"
	ReasonNotAllowed   = "NotAllowed"
	ReasonNeverFits    = "NeverFits"
	ReasonUnplaceable  = "Unplaceable"
	ReasonNodesDown    = "NodesDown"
	ReasonNoMatcher    = "MatcherUnavailable"
	ReasonRequeued     = "Requeued"
	ReasonPreempted    = "Preempted"
)

// Reasons of the condition Valid.
const (
	ReasonValid             = "Valid"
	ReasonInvalidJobspec    = "InvalidJobspec"
	ReasonInvalidDuration   = "InvalidDuration"
	ReasonDurationOverLimit = "DurationOverLimit"
	ReasonNoDuration        = "NoDuration"
	ReasonTooLarge          = "TooLarge"
	ReasonWouldDelay        = "WouldDelay"
	ReasonNoPriorityClass   = "NoPriorityClass"
)

// QueueLabel is a label of a Job, of its pod template or of a pod. Its value is the name of a Queue.
const QueueLabel = GroupName + "/queue"

// QueueGate is the scheduling gate of pods that wait in a queue without a Job.
const QueueGate = GroupName + "/queue"

// SuspendedAnnotation is an annotation of a Job that Fluence has suspended until its turn, and of a pod with QueueGate. Its
// value is that of group.Queued.
const SuspendedAnnotation = GroupName + "/queued"
