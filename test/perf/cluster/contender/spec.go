// Package contender starts and stops what a benchmark
// compares: schedulers, and clients that only bind.
package contender

import (
	"fmt"

	"github.com/flux-k8s/fluence/test/perf/cluster/backlog"
)

// A sort is a sort of contender.
type sort int

const (
	binder sort = iota
	kubeScheduler
	fluence
)

// A Spec describes a contender.
type Spec struct {
	// Name is its name in tables.
	Name string
	// Groups gives the pods of a gang a PodGroup. Without it each pod is scheduled alone.
	Groups bool
	// NativeGroups makes the PodGroups of Fluence those of the API group scheduling.k8s.io, which
	// kube-scheduler always has.
	NativeGroups bool

	sort sort
	// gates enables the cluster's feature gates in kube-scheduler too.
	gates bool
	// workers and watches are options of the program binder.
	workers, watches int
	// events makes the contender post an event with each bind. It is an option
	// of the program binder too. kube-scheduler does so in any case.
	events bool
}

// Workers is the default number of binds in flight of a client that only binds.
const Workers = 32

// Ceiling returns a client that only binds, with a number of workers.
func Ceiling(workers int) Spec {
	return Spec{Name: ceilingName("ceiling", workers), sort: binder, workers: workers}
}

// CeilingLike returns the same client with two idle watches of all pods, because a
// scheduler and its controller have them, and with or without an event for each bind.
func CeilingLike(workers int, events bool) Spec {
	name := "ceiling-like"
	if events {
		name += "-events"
	}
	return Spec{Name: ceilingName(name, workers), sort: binder, workers: workers, watches: 2, events: events}
}

func ceilingName(name string, workers int) string {
	if workers == Workers {
		return name
	}
	return fmt.Sprintf("%s-%d", name, workers)
}

// Stock returns kube-scheduler as shipped, with each pod scheduled alone.
func Stock() Spec { return Spec{Name: "stock", sort: kubeScheduler} }

// Native returns kube-scheduler with the feature gates of native PodGroups.
func Native() Spec { return Spec{Name: "native", sort: kubeScheduler, gates: true, Groups: true} }

// Fluence returns Fluence as the chart installs it, with PodGroups.
func Fluence() Spec { return Spec{Name: "fluence", sort: fluence, Groups: true} }

// FluenceEvents returns Fluence with PodGroups and podEvents: always,
// so that a pod's event is sent with its bind.
func FluenceEvents() Spec {
	return Spec{Name: "fluence-events", sort: fluence, Groups: true, events: true}
}

// FluenceNative returns Fluence with PodGroups of the API group scheduling.k8s.io.
func FluenceNative() Spec {
	return Spec{Name: "fluence-native", sort: fluence, Groups: true, NativeGroups: true}
}

// FluenceAlone returns Fluence with each pod scheduled alone.
func FluenceAlone() Spec { return Spec{Name: "fluence", sort: fluence} }

// As returns the same contender with another name in tables.
func (s Spec) As(name string) Spec {
	s.Name = name
	return s
}

// Scheduler returns the schedulerName of the pods that this contender binds.
func (s Spec) Scheduler() backlog.Scheduler {
	if s.sort == fluence {
		return backlog.Fluence
	}
	return backlog.Default
}

// Binds reports whether the contender is a client that only binds.
func (s Spec) Binds() bool { return s.sort == binder }

// Workers returns the number of binds that such a
// client has in flight. It returns 0 for a scheduler.
func (s Spec) Workers() int { return s.workers }
