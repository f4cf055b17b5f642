package queue

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A Change is what a decision changes for a job.
type Change int

const (
	// Started means: the matcher has granted the job its resources. The core counts it as running.
	Started Change = iota
	// Promised means: the job is promised room, or its promise has another time or number of nodes.
	Promised
	// Unpromised means: the job's promise has ended, and the job waits on.
	Unpromised
)

// A Decision is one change that a pass has made.
type Decision struct {
	Key    types.NamespacedName
	Change Change
	// Promise is the promise from now on. It is zero if the job has none.
	Promise Promise
	// Before is the promise that the job had until now. It is zero if it had none.
	Before Promise
	// By is the job that comes before this one, and because of which the promise ended or moved later. It is zero if that
	// was not the reason: then the job was refused, and Restore has found the reason.
	By types.NamespacedName
}

// A Reason says why a job waits.
type Reason string

const (
	// Held means that the user does not want it to start.
	Held Reason = "Held"
	// Unplaceable means that it was refused too often on the nodes that it was admitted to.
	Unplaceable Reason = "Unplaceable"
	// NoQueue means that there is no such queue.
	NoQueue Reason = "NoQueue"
	// QueueStopped means that no job of the queue may start.
	QueueStopped Reason = "QueueStopped"
	// NeverFits means that the nodes are too few or too small, even if all other jobs had ended.
	NeverFits Reason = "NeverFits"
	// NodesDown means that nodes that it needs are down.
	NodesDown Reason = "NodesDown"
	// NodesExcluded means that nodes that it needs have refused its pods.
	NodesExcluded Reason = "NodesExcluded"
	// LimitReached means that a limit of the queue would be exceeded. State.Limit says which.
	LimitReached Reason = "LimitReached"
	// HasPromise means that it is promised room. State.Promise says from when on.
	HasPromise Reason = "Promised"
	// NoRoom means that it was refused for room, or one before it with the same request was.
	NoRoom Reason = "NoRoom"
	// NotItsTurn means that jobs before it are considered first.
	NotItsTurn Reason = "NotItsTurn"
	// NoAnswer means that the matcher did not answer.
	NoAnswer Reason = "NoAnswer"
)

// A State says where a waiting job stands, and why it waits.
type State struct {
	Reason Reason
	// Promise is what the job is promised. It is zero if it has no promise.
	Promise Promise
	// Limit is the limit that the job would exceed now. It is zero if there is none.
	Limit LimitState
	// Message is the matcher's last answer to a job of this class.
	Message string
}

// Names of limits.
const (
	LimitRunning          = "running"
	LimitNamespaceRunning = "perNamespace.running"
	LimitRequests         = "requests"
)

// A LimitState is one limit of a queue, in numbers. The limit is reached: Used, Promised and Wanted are more than Max.
type LimitState struct {
	// Name is one of the names of limits. Resource is the resource that is limited, if Name is LimitRequests.
	Name, Resource string
	// Max is the limit. Used is what jobs that run have of it, and Wanted is what the job would add. Promised is what
	// is kept for the job that is promised room: it comes before this job, and would start while this one runs.
	Max, Used, Promised, Wanted int64
}

// A Summary is the state of a queue in numbers.
type Summary struct {
	// Waiting is the number of jobs that wait, Running of those that were admitted.
	Waiting, Running int
	// Used is the sum of Job.Requests of the jobs that run.
	Used map[string]int64
	// Oldest is the earliest creation of a job that waits. It is the zero time if none waits.
	Oldest time.Time
	// First is the first job that was refused for room. Promise is what it is promised.
	First   types.NamespacedName
	Promise Promise
}
