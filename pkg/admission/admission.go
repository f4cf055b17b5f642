// Package admission lets the jobs of queues start: it reads Queues and FluxJobs, asks the matcher for their room in the
// order that package queue decides, and writes what they are given or promised onto the FluxJobs.
//
// It runs in the scheduler that leads. Kubernetes is its only store: FluxJobs, Jobs and pods say after a restart what was
// admitted and promised. A job that is admitted has its room in the matcher's graph from before its pods exist. As the pods
// come, the plugin takes over slot by slot.
//
//	admission.go   what does a driver need?
//	slots.go       which slots has an allocation, and when are they free again?
//	node_rules.go  which nodes may pods be on, by what the nodes say themselves?
//	classes.go     what do jobs ask for?
//	job.go         what is known of a job?
//	jobs.go        which jobs are there, and what do they have?
//	fleet.go       which nodes may the jobs of a queue use now?
//	queues.go      what does a Queue say, and can it start jobs?
//	defaults.go    of which namespaces is an older queue the default too?
//	limits.go      which limit of its queue keeps a job?
//	smaller.go     which requests are refused without a question, because a smaller one was?
//	asker.go       what is asked of the matcher for a job, and what follows from its answer?
//	restore.go     can a promise be kept that was replaced?
//	messages.go    what is a user told of a job that waits?
//	metrics.go     which metrics are there?
//	api.go         what is written onto FluxJobs and Queues?
//	writer.go      in which order are they written, and what if that fails?
//	tell.go        when are they written?
//	happened.go    what has happened since the loop last looked?
//	place.go       does a job wait in its queue, run, or neither?
//	allowance.go   for how long may the engine be used?
//	loop.go        when do jobs ask?
//	asks_first.go  for which room have they not asked yet?
//	rooms.go       which room of a job is left for pods that are still to come?
//	overdue.go     whose room is past its end, and ended by nobody else?
//	extend.go      what follows from a time limit that was edited?
//	watch.go       how are Queues and FluxJobs read, and what if they cannot be?
//	driver.go      what does the driver offer to the plugin?
package admission

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/inventory"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
)

// Config is what a Driver needs. A field is required unless its comment names a default. The functions return at once.
//
// Groups.Rules is called with the lock of the jobs held, and must not call the Driver. All other functions are called without a
// lock, and may call the methods of the Driver.
//
// Three methods must be called without the locks of groups: Refused calls Groups.Placed, GiveUpRestoring calls Groups.Changed, and
// Preempt asks the API server. The other methods may be called with a lock held, unless Groups.Rules takes that lock.
type Config struct {
	// API is a client of Queues and FluxJobs (v1alpha1.RESTClientFor), without a limit of requests a second: the Driver bounds its
	// requests in flight.
	API     rest.Interface
	Cluster Cluster
	Groups  Groups
	Engine  match.Engine
	// Epoch returns the epoch in which the engine's graph is loaded, and 0 if it is not.
	Epoch    func() match.Epoch
	Recorder events.EventRecorder
	// Leading reports whether this scheduler leads. It may be slow.
	Leading func() bool
	// MaxBypass is for how long the first job of a queue may be refused without a promise before those after it leave the
	// nodes that it could use. Zero is for ever.
	MaxBypass time.Duration
	// Timeout bounds one call of the engine. Defaults to inventory.DefaultTimeout.
	Timeout time.Duration
	// Now defaults to time.Now.
	Now func() time.Time
}

// Groups is what the rest of the scheduler knows of groups, and what it has to know.
type Groups struct {
	// Rules reads spec.placement of a FluxJob, which has the keys of annotations. It returns the match policy and the topology. Its
	// error is fit for the user. Rules is called with a lock held.
	Rules func(namespace string, placement map[string]string) (policy string, topology *jobspec.Topology, err error)
	// Claims returns what groups that are in no queue have before a job of this rank.
	Claims func(rank gang.Rank) Claims
	// Placed returns the node of each pod of a group that has a node or an assignment, and has not ended.
	Placed func(group types.NamespacedName) []string
	// Names returns, for a message to users of the namespace of reader, who ends so that most room is free (match.Reason.Blocker),
	// and to whom room is promised and from when (match.Reason.Promised). Both may be empty.
	Names func(r match.Reason, reader types.NamespacedName) (blocker, promised string)
	// FirstPromise returns the reservation of a group that is in no queue that begins first on some of these nodes. It returns 0 if there
	// is none.
	FirstPromise func(nodes map[string]struct{}) (of match.JobID, from time.Time)
	// Changed is called with groups of which Status has another answer.
	Changed func(groups ...types.NamespacedName)
	// RoomFreed is called after the Driver has freed room in the matcher.
	RoomFreed func()
	// Asked is called after jobs have asked for the room on nodes that Unasked has returned.
	Asked func()
	// EndChanged is called with a group whose End has changed.
	EndChanged func(group types.NamespacedName)
}

// A Cluster is what a Driver reads of the cluster besides Queues and FluxJobs. The caller runs the informers. The Driver adds
// event handlers.
type Cluster struct {
	Nodes      cache.SharedIndexInformer
	Namespaces cache.SharedIndexInformer
	// Jobs may be trimmed. Of a Job, spec.parallelism, spec.completions, spec.suspend, status.succeeded and
	// status.conditions are read.
	Jobs cache.SharedIndexInformer
	Pods cache.SharedIndexInformer
	// PodsByJob is the name of the index of Pods by the UID of the Job that controls a pod.
	PodsByJob string
}

// Claims are what groups that are in no queue have before a job.
type Claims struct {
	// Ignored are the reservations of groups after the job.
	Ignored []match.JobID
	// Nodes are kept for a group before the job.
	Nodes []string
	// Expected are slots that others are about to take.
	Expected []match.Slot
}

// A Takeover is the room of a job that its pods have not taken yet.
type Takeover struct {
	// Job holds the room in the matcher's graph. A match with it as match.Request.Replaces takes the room over.
	Job match.JobID
	// Slots are the keys and the nodes of the room, in the order in which they are to be taken. There are none if all pods
	// that the allocation is for have nodes, or if the rest of it was lost: then those in place of lost ones may be anywhere in the queue.
	Slots []Slot
	// Pods is how many pods the job may have on nodes at a time: its size when it was admitted.
	Pods int
	// Queue is the name of the queue, and Requires selects its nodes. It is nil for all nodes.
	Queue    string
	Requires labels.Selector
	// Unsettled is true if the room is being brought up to date: there may be more Slots soon. Groups.Changed is called with the
	// group after that.
	Unsettled bool
}

// A Slot is the room for one pod.
type Slot struct{ Key, Node string }

// An Owner is a job to which a reservation belongs.
type Owner struct {
	Job types.NamespacedName
	// Workload is what the job is of, such as "Job ns/solver".
	Workload string
	Priority int32
}

// validate sets the defaults. It fails if a field is missing or wrong.
func (c *Config) validate() error {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"API", c.API != nil}, {"Engine", c.Engine != nil}, {"Epoch", c.Epoch != nil}, {"Recorder", c.Recorder != nil}, {"Leading", c.Leading != nil},
		{"Cluster.Nodes", c.Cluster.Nodes != nil}, {"Cluster.Namespaces", c.Cluster.Namespaces != nil}, {"Cluster.Jobs", c.Cluster.Jobs != nil},
		{"Cluster.Pods", c.Cluster.Pods != nil}, {"Groups.Rules", c.Groups.Rules != nil}, {"Groups.Claims", c.Groups.Claims != nil},
		{"Groups.Placed", c.Groups.Placed != nil}, {"Groups.Names", c.Groups.Names != nil}, {"Groups.FirstPromise", c.Groups.FirstPromise != nil},
		{"Groups.Changed", c.Groups.Changed != nil}, {"Groups.EndChanged", c.Groups.EndChanged != nil},
		{"Groups.RoomFreed", c.Groups.RoomFreed != nil}, {"Groups.Asked", c.Groups.Asked != nil},
	} {
		if !f.set {
			return fmt.Errorf("admission: %s: must be set", f.name)
		}
	}
	if c.Timeout < 0 || c.MaxBypass < 0 {
		return fmt.Errorf("admission: Timeout %s and MaxBypass %s: must not be negative", c.Timeout, c.MaxBypass)
	}
	c.Timeout = cmp.Or(c.Timeout, inventory.DefaultTimeout)
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}
