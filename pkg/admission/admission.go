// Package admission lets the jobs of queues start: it reads Queues and FluxJobs, asks the matcher for their room in the
// order that package queue decides, and writes what they are given or promised onto the FluxJobs.
//
// It runs in the scheduler that leads. Kubernetes is its only store: FluxJobs, Jobs and pods say after a restart what was
// admitted and promised. A job that is admitted has its room in the matcher's graph from before its pods exist. As the pods
// come, the plugin takes over slot by slot.
//
//	admission.go  what does a driver need, and what does it offer?
package admission

import (
	"context"
	"errors"
	"time"


	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/inventory"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
)

// Config is what a Driver needs. All fields must be set, but those that have a default. Functions must not block, and must
// not call the Driver.
type Config struct {
	// API is a client of Queues and FluxJobs (v1alpha1.RESTClientFor).
	API     rest.Interface
	Cluster Cluster
	Engine  match.Engine
	// Epoch returns the epoch in which the engine's graph is loaded, and 0 if it is not.
	Epoch func() match.Epoch
	// Rules returns the match policy and the topology that annotations of a FluxJob ask for. An error is told to the user.
	Rules func(namespace string, annotations map[string]string) (policy string, topology *jobspec.Topology, err error)
	// Claims returns what groups that are in no queue have before a job of this rank.
	Claims func(rank gang.Rank) Claims
	// Placed returns the node of each pod of a group that has a node or an assignment, and has not ended.
	Placed func(group types.NamespacedName) []string
	// Changed is called with groups of which Status has another answer.
	Changed func(groups ...types.NamespacedName)
	// EndChanged is called with a group whose End has changed.
	EndChanged func(group types.NamespacedName)
	Recorder   events.EventRecorder
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
	// that the allocation is for have nodes: further ones may be anywhere.
	Slots []Slot
	// End is when the room is free again. It is the zero time if that is not known.
	End time.Time
}

// A Slot is the room for one pod.
type Slot struct{ Key, Node string }

// An Owner is a job to which a reservation belongs.
type Owner struct {
	Job types.NamespacedName
	// Workload is what the job is of, such as "Job ns/solver".
	Workload string
	// From is when the reservation begins.
	From time.Time
}

// A Driver lets the jobs of queues start. Its methods are safe for concurrent use.
type Driver struct {
	cfg Config
}

// New returns a Driver that does nothing until Run is called. It adds event handlers to the informers.
func New(cfg Config) (*Driver, error) {
	if cfg.API == nil || cfg.Engine == nil {
		return nil, errors.New("admission: API and Engine must be set")
	}
	return &Driver{cfg: cfg}, nil
}

// Run works until ctx ends. It calls listed when all Queues and FluxJobs have been received once, or cannot be listed: the
// matcher's graph is to be loaded after that.
func (d *Driver) Run(ctx context.Context, listed func()) {
	listed()
	<-ctx.Done()
}

// Status says whether the pods of a group must wait for their turn in a queue, and in words fit for a user why. queue is the
// value of a pod's label v1alpha1.QueueLabel, empty without one. Pods that have it wait also while there is no FluxJob, and
// while it is not known whether there is one. Other groups do not wait if there is no FluxJob of their key.
func (d *Driver) Status(group types.NamespacedName, queue string) (held bool, why string) {
	return false, ""
}

// Allocation returns the room of a group that its pods have not taken yet. It returns false if the group is in no queue, or was
// not admitted.
func (d *Driver) Allocation(group types.NamespacedName) (Takeover, bool) { return Takeover{}, false }

// TakenOver records that a match has given slots of a group to its pods.
func (d *Driver) TakenOver(group types.NamespacedName, keys []string) {}

// Recheck is to be called when pods of a group have lost their assignments or have ended: the room may be theirs again.
func (d *Driver) Recheck(groups ...types.NamespacedName) {}

// Refused records that the scheduler's filters have refused nodes of a group's room. A group that has no pods on nodes waits
// again, and gets other nodes. One that has some loses its room on these nodes: its other pods may be anywhere.
func (d *Driver) Refused(group types.NamespacedName, nodes []string, why string) {}

// Preempt makes a group wait again whose pods are about to be evicted, before the first of them is. It does nothing for a group
// that is in no queue. If it fails, nothing may be evicted: it is to be called again.
func (d *Driver) Preempt(ctx context.Context, group types.NamespacedName, why string) error {
	return nil
}

// End returns when the room of a group's pods is free again. It returns false if the group is in no queue or not admitted. The zero
// time with true means that the end is not known.
func (d *Driver) End(group types.NamespacedName) (end time.Time, ok bool) { return time.Time{}, false }

// Promises returns the reservations of jobs after a rank. A group of this rank overlooks them.
func (d *Driver) Promises(rank gang.Rank) []match.JobID { return nil }

// Owner returns the job to which a reservation, or room before its pods have taken it, belongs.
func (d *Driver) Owner(of match.JobID) (Owner, bool) { return Owner{}, false }

// Jobs implements inventory.Source: the room that pods have not taken yet, and the promises.
func (d *Driver) Jobs() []match.Job { return nil }

// Restored reports whether the jobs that were promised room before this scheduler led have been promised it again, or
// have had the time for it. Until then direct groups should not ask.
func (d *Driver) Restored() bool { return true }

// Observe is to be called with each change of the matcher's graph (inventory.Config.OnChange).
func (d *Driver) Observe(c inventory.Change) {}

// RoomFreed is to be called when room has become free that no pod in the cluster held: assignments, claims, reservations.
func (d *Driver) RoomFreed() {}
