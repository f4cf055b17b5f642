// Package contender starts and ends those that a benchmark compares: schedulers, and
// clients that only bind.
package contender

import (
	"fmt"

	"github.com/flux-k8s/fluence/test/perf/cluster/backlog"
)

// A sort is what a contender consists of.
type sort int

const (
	binder sort = iota
	kubeScheduler
	fluence
)

// A Spec says who binds.
type Spec struct {
	// Name is what tables call it.
	Name string
	// Groups has the pods of a gang ask for a PodGroup; otherwise each is on its own.
	Groups bool

	sort sort
	// gates turns the cluster's feature gates on in kube-scheduler too.
	gates bool
	// workers, watches and events are those of the program binder.
	workers, watches int
	events           bool
}

// Workers is how many binds a client that only binds has in flight where nothing else is
// said.
const Workers = 32

// Ceiling is a client that posts bindings with so many workers, and nothing else.
func Ceiling(workers int) Spec {
	return Spec{Name: ceilingName("ceiling", workers), sort: binder, workers: workers}
}

// CeilingLike is the same client with two idle watches of all pods, such as a scheduler
// and its controller have, and with or without an event for each bind.
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

// Stock is kube-scheduler as shipped, each pod on its own.
func Stock() Spec { return Spec{Name: "stock", sort: kubeScheduler} }

// Native is kube-scheduler with the feature gates of native PodGroups.
func Native() Spec { return Spec{Name: "native", sort: kubeScheduler, gates: true, Groups: true} }

// Fluence is Fluence as the chart installs it, with PodGroups.
func Fluence() Spec { return Spec{Name: "fluence", sort: fluence, Groups: true} }

// FluenceAlone is Fluence for pods on their own.
func FluenceAlone() Spec { return Spec{Name: "fluence", sort: fluence} }

// Scheduler is whom pods have to ask for this contender to bind them.
func (s Spec) Scheduler() backlog.Scheduler {
	if s.sort == fluence {
		return backlog.Fluence
	}
	return backlog.Default
}

// Binds reports whether it is a client that only binds.
func (s Spec) Binds() bool { return s.sort == binder }

// Workers is how many binds such a client has in flight; 0 for others.
func (s Spec) Workers() int { return s.workers }
