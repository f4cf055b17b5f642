package queue

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A Policy says which jobs of a queue may start before others that wait.
type Policy string

const (
	// FCFS is first come, first served: no job starts while one before it is refused for room.
	FCFS Policy = "fcfs"
	// EASY promises room to the first job that is refused for room. Jobs after it start if
	// that does not delay the promise.
	EASY Policy = "easy"
)

// A Queue is an ordered list of jobs that wait for the same nodes.
type Queue struct {
	// Name is unique.
	Name string
	// Policy is FCFS or EASY. Any other is taken as FCFS, which lets nobody pass.
	Policy Policy
	// Priority orders the queues of a partition: the jobs of a higher one come before those of all lower ones.
	Priority int32
	// Started is false while no job of the queue may start.
	Started bool
	Limits  Limits
	// Partition names the nodes of the queue. Queues with the same one have the same nodes, and queues
	// with different ones have no node in common.
	Partition string
}

// Limits bound what runs of a queue at the same time. Jobs count from their admission to their end.
type Limits struct {
	// Running is the maximum number of jobs; 0 is no limit.
	Running int
	// NamespaceRunning is the maximum number of jobs of each namespace; 0 is no limit.
	NamespaceRunning int
	// Requests has the maximum of the sum of Job.Requests for each resource that is limited.
	Requests map[string]int64
}

// A Job is what waits in a queue or runs. The core keeps the maps that it is given: nobody may change them afterwards.
type Job struct {
	Key   types.NamespacedName
	Queue string
	// Priority, Created and Key decide the order of the jobs of a queue. The higher Priority, the earlier
	// Created and the lesser namespace and name come first.
	Priority int32
	Created  time.Time
	// Class is the same for jobs with equal requests and equal rules for nodes, which differ at most in
	// Duration. What a matcher answers to one of them holds for those after it. Pods and Requests
	// are the same in all jobs of a class.
	Class string
	// Pods is the number of pods that run at a time.
	Pods int64
	// Requests are the amounts that all pods of the job request together, by resource, in the unit of Limits.Requests.
	Requests map[string]int64
	// Duration is how long the job runs at most, 0 if that is not known.
	Duration time.Duration
	// Held is set while the user does not want the job to start.
	Held bool
	// Unplaceable is set while the job was refused too often on the nodes that it was admitted to.
	Unplaceable bool
}
