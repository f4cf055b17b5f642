package v1alpha1

// A JobPhase says how far a job has come.
//
// +kubebuilder:validation:Enum=Requested;Waiting;Ready;Running;Finished
type JobPhase string

const (
	// Requested means: the scheduler has not read the job yet.
	Requested JobPhase = "Requested"
	// Waiting means: the job waits in its queue.
	Waiting JobPhase = "Waiting"
	// Ready means: the job has an allocation, and its workload is about to be let go.
	Ready JobPhase = "Ready"
	// Running means: the workload was let go.
	Running JobPhase = "Running"
	// Finished means: the workload has ended or is gone.
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
	// Cancelled means: the workload was deleted, or left the queue.
	Cancelled JobResult = "Cancelled"
)

// Types of the conditions of a FluxJob, and of a Queue.
const (
	// ConditionValid is False if the job cannot run as it is. The controller writes it. While the job runs, the scheduler does.
	ConditionValid = "Valid"
	// ConditionAdmitted is True if the job has an allocation, and False with the reason why it waits. The scheduler writes it.
	ConditionAdmitted = "Admitted"
	// ConditionReleased is True if the workload was let go. The controller writes it.
	ConditionReleased = "Released"
	// ConditionFinished is True if the workload has ended or is gone, with the result as its reason. The controller writes it.
	ConditionFinished = "Finished"
	// ConditionReady is True if jobs of a Queue may start. The scheduler writes it.
	ConditionReady = "Ready"
	// ConditionDefaultOverlaps is True while Jobs of namespaces that defaultFor of a Queue selects go into an older queue. Otherwise
	// there is none. The scheduler writes it.
	ConditionDefaultOverlaps = "DefaultOverlaps"
)

// Reasons of the condition Admitted of a FluxJob.
const (
	// Admitted: the job has an allocation.
	ReasonAdmitted = "Admitted"
	// NotItsTurn: other jobs of the queue come first.
	ReasonNotItsTurn = "NotItsTurn"
	// NoRoom: the resources that the job needs are not free.
	ReasonNoRoom = "NoRoom"
	// Promised: the job is promised room at a time to come.
	ReasonPromised = "Promised"
	// LimitReached: with the job, its queue or its namespace would be over a limit.
	ReasonLimitReached = "LimitReached"
	// QueueStopped: the queue starts no jobs now.
	ReasonQueueStopped = "QueueStopped"
	// Held: somebody has held the job.
	ReasonHeld = "Held"
	// NoQueue: there is no queue with the name that the job gives.
	ReasonNoQueue = "NoQueue"
	// NotAllowed: the namespace may not use the queue, the queue takes no new jobs, or the workload is none that a queue takes.
	ReasonNotAllowed = "NotAllowed"
	// NeverFits: the job does not fit into the nodes of the queue, even if they are empty.
	ReasonNeverFits = "NeverFits"
	// Unplaceable: the job had room, but its pods could not be on these nodes.
	ReasonUnplaceable = "Unplaceable"
	// NodesDown: the job needs nodes that are down or cordoned.
	ReasonNodesDown = "NodesDown"
	// MatcherUnavailable: the matcher does not answer.
	ReasonNoMatcher = "MatcherUnavailable"
	// Requeued: the job has lost its allocation, and waits again.
	ReasonRequeued = "Requeued"
	// Preempted: the job has lost its allocation to one of higher priority, and waits again.
	ReasonPreempted = "Preempted"
)

// Reasons of the condition Valid of a FluxJob.
const (
	// Valid: the job can run.
	ReasonValid = "Valid"
	// InvalidJobspec: the pods ask for what cannot be asked for.
	ReasonInvalidJobspec = "InvalidJobspec"
	// InvalidDuration: the time limit is no duration.
	ReasonInvalidDuration = "InvalidDuration"
	// DurationOverLimit: the time limit is longer than the queue allows.
	ReasonDurationOverLimit = "DurationOverLimit"
	// NoDuration: the queue wants a time limit, and the job has none.
	ReasonNoDuration = "NoDuration"
	// TooLarge: the job is larger than the queue allows.
	ReasonTooLarge = "TooLarge"
	// WouldDelay: a running job cannot have the longer time limit, because others are promised its room.
	ReasonWouldDelay = "WouldDelay"
	// NoPriorityClass: there is no PriorityClass with the name that the pods give.
	ReasonNoPriorityClass = "NoPriorityClass"
)

// Reasons of the condition Released of a FluxJob.
const (
	// Released: the workload was let go.
	ReasonReleased = "Released"
	// RunsAlready: the Job had pods on nodes before it was in the queue.
	ReasonRunsAlready = "RunsAlready"
	// SuspendedByUser: a user has suspended the Job after it was let go.
	ReasonSuspendedByUser = "SuspendedByUser"
	// TakenBack: the workload waits again.
	ReasonTakenBack = "TakenBack"
	// WriteRefused: the API server refuses the change of the workload, such as by a quota or a policy. The message is its own.
	ReasonWriteRefused = "WriteRefused"
)

// Reasons of the condition Ready of a Queue.
const (
	// Ready: jobs of the queue may start.
	ReasonReady = "Ready"
	// InvalidSpec: a field of the queue is wrong.
	ReasonInvalidSpec = "InvalidSpec"
	// NoneMayRun: a limit lets no job run, or no namespace may use the queue.
	ReasonNoneMayRun = "NoneMayRun"
	// NoNodes: no node has the labels that the queue requires.
	ReasonNoNodes = "NoNodes"
	// NodesOverlap: the queue has some of the nodes of another one, and not all.
	ReasonNodesOverlap = "NodesOverlap"
	// EngineCannotReserve: the engine cannot promise room, which the policy needs.
	ReasonCannotReserve = "EngineCannotReserve"
)

// Reasons of the condition DefaultOverlaps of a Queue.
const (
	// DefaultTaken: an older queue is the default of some namespaces too. The message names both.
	ReasonDefaultTaken = "DefaultTaken"
)

// QueueLabel is a label of a Job, of its pod template or of a pod. Its value is the name of a Queue.
const QueueLabel = GroupName + "/queue"

// QueueGate is the scheduling gate of pods that wait in a queue without a Job.
const QueueGate = GroupName + "/queue"

// QueuedAnnotation is an annotation of a Job that Fluence has suspended until its turn, and of a pod with QueueGate. Its
// value is that of group.Queued.
const QueuedAnnotation = GroupName + "/queued"
