// Package fluxjob makes a FluxJob for each Job and each pod that waits in a queue, keeps the workload from starting before
// its turn, lets it go once it has an allocation, and tells how it ended.
//
// The scheduler decides who starts when. It writes status.allocation. This controller reads objects, never a matcher.
// A pure function decides the next write from what is there (decide), and the reconciler carries it out and looks again.
// So it does not matter between which two writes the controller ends: the next one goes on from what it finds.
//
//	fluxjob.go     What can an administrator set?
//	workload.go    What do a Job and a pod say of themselves?
//	end.go         How has a workload ended?
//	spec.go        What does a workload ask for, as the spec of a FluxJob?
//	among.go       Which rules have the pods of a Job for each other?
//	said.go        What has the workload said itself, and what has a user set in its FluxJob?
//	deadline.go    For how long may a workload run?
//	valid.go       Can a job run as it is?
//	counted.go     May a Job that runs already count in a queue?
//	observation.go What is known of one workload?
//	status.go      Which status follows what the controller does?
//	decide.go      What is written next?
//	patch.go       How is a workload suspended, and let go?
//	cache.go       What is kept of each object?
//	queues.go      Which queues are there, and which one is a namespace's default?
//	entry.go       How does a new object enter its queue?
//	served.go      May the controller watch what it needs?
//	metrics.go     What is counted?
//	reconcile.go   How is a decision carried out?
//	announce.go    When does an event tell that a workload waits?
//	setup.go       Which events lead to a reconcile?
package fluxjob

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// FieldManager is the field manager of all writes, and the reporting controller of all events.
const FieldManager = "fluence-controller"

// Config has the settings that an administrator can change. Start from DefaultConfig.
type Config struct {
	// SchedulerName is the spec.schedulerName of the pods. Defaults to "fluence".
	SchedulerName string
	// Poll is the time between two checks whether the CRDs of Queue and FluxJob are installed. Defaults to 5s.
	Poll time.Duration
	// Timeout bounds the calls to the API server for one workload. Defaults to 30s.
	Timeout time.Duration
	// Workers is the number of workloads that are reconciled at a time, each with one request in flight. Defaults to 8.
	Workers int
}

// DefaultConfig returns the configuration with all defaults.
func DefaultConfig() Config {
	return Config{SchedulerName: "fluence", Poll: 5 * time.Second, Timeout: 30 * time.Second, Workers: 8}
}

func (c Config) validate() error {
	switch {
	case c.SchedulerName == "":
		return errors.New("schedulerName: must not be empty")
	case c.SchedulerName == corev1.DefaultSchedulerName:
		return fmt.Errorf("schedulerName: %q: must be another name, because otherwise every Job could wait in a queue", c.SchedulerName)
	case c.Poll <= 0:
		return fmt.Errorf("poll: %v: must be positive", c.Poll)
	case c.Timeout <= 0:
		return fmt.Errorf("timeout: %v: must be positive", c.Timeout)
	case c.Workers <= 0:
		return fmt.Errorf("workers: %d: must be positive", c.Workers)
	}
	return nil
}
