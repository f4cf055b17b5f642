// Package podgroup creates the PodGroups of workloads and of labelled pods that ask
// for the Fluence scheduler, and keeps the status of every PodGroup with such pods.
//
// A PodGroup has the top owners of its members as owner references, and the garbage
// collector deletes it with the last of them. A PodGroup for bare pods is deleted EmptyDelay
// after the last pod. A group that has lost members gets the condition Incomplete. If its
// policy is Restart, its pods are evicted, so that it starts again as a whole.
//
// Pure functions decide what to write. Their input is an observation: the PodGroup, its pods, the
// owners of the pods, and the time. A reconcile does not read each pod, but sets of pods that are
// alike, from an index that the events of pods keep (podIndex).
//
// A group whose pods run within CountDelay after they got their nodes costs two writes: the object, and
// a status that says that it runs. If they run later, one more status says how many have nodes. A group
// that is refused, or has no nodes within FirstStatusDelay, costs two more: its first status, and an
// event. A group that lacks some of its pods for seconds costs one more status. A group that stops half way, or that gets owners later, costs more.
//
// A PodGroup that a user made keeps its metadata and spec, and is never removed. On a PodGroup
// that this controller made, a minMember that a user has set is kept: see minMemberManager.
package podgroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
)

// FieldManager is the field manager of all writes, and the reporting controller of all events.
const FieldManager = "fluence-controller"

// Marks of the PodGroups that this controller made.
const (
	// ManagedByLabel is a label with the value ManagedByValue.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedByValue = "fluence"
	// SchedulerAnnotation names the scheduler that the group's pods ask for. A controller of
	// another scheduler does not see these pods, and must not take the group for an empty one.
	SchedulerAnnotation = group.SchedulerNameAnnotation
)

// Config has the settings that an administrator can change. Start from DefaultConfig.
type Config struct {
	// SchedulerName is the spec.schedulerName of the pods. Defaults to "fluence".
	SchedulerName string
	// EmptyDelay is the time for which a PodGroup that this controller made for bare pods is kept
	// after its last pod is gone. Defaults to 60s.
	EmptyDelay time.Duration
	// CountDelay is the time for which the first minor change of the status is held: a change that
	// affects only the numbers of pods, or that only sets the phase to Scheduling. While such changes
	// go on, the time doubles with each write, up to StatusDelay. Defaults to 1s.
	CountDelay time.Duration
	// StatusDelay is the longest time for which minor changes of the status are held. It is at least
	// CountDelay. Defaults to 10s.
	StatusDelay time.Duration
	// FirstStatusDelay is the time for which the first status of a group is held while it says no more
	// than the CRD's default, together with the events Created and Complete. A group that has some of its
	// pods and lacks others gets its status after some seconds. Defaults to 2m.
	FirstStatusDelay time.Duration
	// IncompleteTimeout is the time for which a group may have some pods on nodes, but fewer than
	// its minimum. Then the condition Incomplete is set and the policy of the group applies. An
	// annotation of the PodGroup or of its pods overrides it. It is at least a second. Defaults to
	// 5m.
	IncompleteTimeout time.Duration
	// EnforceDuration makes the controller end pods that have held their nodes for longer than their group's
	// group.DurationAnnotation says. Defaults to false.
	EnforceDuration bool
	// Queued reports whether an owner that the scheduler has suspended waits in a queue, which lets it go when it is its turn.
	// Nil means that none does.
	Queued func(owner *unstructured.Unstructured) bool
	// Admitted reports whether the job of a group or of a pod that is in no group has nodes from a queue. Then the time limit in the
	// queue counts for its pods, and Kubernetes keeps it. Nil means that none has.
	Admitted func(ctx context.Context, key types.NamespacedName) bool
	// CRDPoll is the time between two checks whether a missing CRD is installed. Defaults to 2s.
	CRDPoll time.Duration
	// Timeout bounds the calls to the API server for one group. Defaults to 30s.
	Timeout time.Duration
	// Workers is the number of groups that are reconciled at a time, each with one request in
	// flight. At 10 ms a write, eight workers create the PodGroups of 500 Jobs in less than a second.
	// Defaults to 8.
	Workers int
}

// DefaultConfig returns the configuration with all defaults.
func DefaultConfig() Config {
	return Config{
		SchedulerName:     "fluence",
		EmptyDelay:        time.Minute,
		CountDelay:        time.Second,
		StatusDelay:       10 * time.Second,
		FirstStatusDelay:  2 * time.Minute,
		IncompleteTimeout: 5 * time.Minute,
		CRDPoll:           2 * time.Second,
		Timeout:           30 * time.Second,
		Workers:           8,
	}
}

func (c Config) validate() error {
	switch {
	case c.SchedulerName == "":
		return errors.New("schedulerName: must not be empty")
	case c.SchedulerName == corev1.DefaultSchedulerName:
		return fmt.Errorf("schedulerName: %q: must be another name, because otherwise every Job would become a group", c.SchedulerName)
	case c.EmptyDelay <= 0:
		return fmt.Errorf("emptyDelay: %v: must be positive", c.EmptyDelay)
	case c.CountDelay <= 0:
		return fmt.Errorf("countDelay: %v: must be positive", c.CountDelay)
	case c.StatusDelay < c.CountDelay:
		return fmt.Errorf("statusDelay: %v: must be at least countDelay, %v", c.StatusDelay, c.CountDelay)
	case c.FirstStatusDelay <= 0:
		return fmt.Errorf("firstStatusDelay: %v: must be positive", c.FirstStatusDelay)
	case c.IncompleteTimeout < time.Second:
		return fmt.Errorf("incompleteTimeout: %v: must be at least 1s", c.IncompleteTimeout)
	case c.CRDPoll <= 0:
		return fmt.Errorf("crdPoll: %v: must be positive", c.CRDPoll)
	case c.Timeout <= 0:
		return fmt.Errorf("timeout: %v: must be positive", c.Timeout)
	case c.Workers <= 0:
		return fmt.Errorf("workers: %d: must be positive", c.Workers)
	}
	return nil
}
