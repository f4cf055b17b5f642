// Package podgroup makes the PodGroups of workloads and of labelled pods that ask
// for the Fluence scheduler, and keeps the status of every PodGroup with such pods.
//
// A PodGroup refers to the objects at the top of those that control its members,
// and goes with the last of them. One that was made for bare pods goes a while
// after these. A group that has lost members is told so and, if it asks for that,
// evicted, so that it starts again as a whole.
//
// What to write is decided by pure functions from what is seen: the PodGroup,
// what controls its pods, the pods and the time. From a group's creation until it
// runs that is three writes: the object, its first status and the phase Running;
// only a group that comes to a halt half way, or whose owners come one after the
// other, gets more.
//
// A PodGroup that somebody else made keeps its metadata and spec as they are and
// is never removed. Of one that this controller made, minMember stays what a user
// has set it to: see minMemberManager.
package podgroup

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// FieldManager is the name under which all fields are written, and the one that
// events are reported by.
const FieldManager = "fluence-controller"

// What marks the PodGroups of this controller.
const (
	// ManagedByLabel is a label with the value ManagedByValue.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedByValue = "fluence"
	// SchedulerAnnotation names the scheduler that the group's pods ask for: a
	// controller for another scheduler sees none of them, and must not take the
	// group for an empty one.
	SchedulerAnnotation = "fluence.flux-framework.org/scheduler-name"
)

// Config is what an operator may choose. Start from DefaultConfig.
type Config struct {
	// SchedulerName is what pods ask for in spec.schedulerName. Defaults to
	// "fluence".
	SchedulerName string
	// EmptyDelay is how long after the last pod of a group its PodGroup is
	// removed, if this controller made it for pods of nobody's. Defaults to 60s.
	EmptyDelay time.Duration
	// CountDelay is how long a status may stay as it is that is out of date in
	// numbers of pods only, or in that pods are being bound. Defaults to 10s.
	CountDelay time.Duration
	// IncompleteTimeout is how long a group that has pods on nodes may have fewer
	// than its minimum there before that is told, and its policy applies. A PodGroup
	// and its pods may say another. At least a second. Defaults to 5m.
	IncompleteTimeout time.Duration
	// CRDPoll is the time between two looks for a CRD that is not installed.
	// Defaults to 2s.
	CRDPoll time.Duration
	// Timeout bounds the calls to the API server for one group. Defaults to 30s.
	Timeout time.Duration
	// Workers is how many groups are seen to at a time, each with one request in flight.
	// A group that comes takes two writes: at 10 ms for a write, eight workers make the
	// PodGroups of 500 Jobs in little more than a second. Defaults to 8.
	Workers int
}

// DefaultConfig returns the configuration of an operator who chooses nothing.
func DefaultConfig() Config {
	return Config{
		SchedulerName:     "fluence",
		EmptyDelay:        time.Minute,
		CountDelay:        10 * time.Second,
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
		return errors.New("schedulerName: must not be that of the default scheduler, or every Job would become a group")
	case c.EmptyDelay <= 0:
		return fmt.Errorf("emptyDelay: %v: must be positive", c.EmptyDelay)
	case c.CountDelay <= 0:
		return fmt.Errorf("countDelay: %v: must be positive", c.CountDelay)
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
