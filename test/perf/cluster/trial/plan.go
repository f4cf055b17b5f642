// Package trial makes one run of a benchmark: a backlog,
// one contender that binds it, and the figures of the run.
package trial

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flux-k8s/fluence/test/perf/cluster/backlog"
	"github.com/flux-k8s/fluence/test/perf/cluster/contender"
)

// A Plan describes one run.
type Plan struct {
	Contender contender.Spec
	// Pods is the number of pods in the backlog. Size is the number of pods in a gang,
	// and must divide Pods. A contender that schedules each pod alone has no gangs.
	Pods, Size int
	// CPU is the request of each pod.
	CPU resource.Quantity
	// Arrivals come one after the other while the backlog is being bound.
	Arrivals []Arrival
	// Limit bounds the time from the contender's start until all pods are bound.
	Limit time.Duration
}

// An Arrival is a gang that comes while the backlog is being bound.
type Arrival struct {
	Name string
	Pods int
	// Urgent gives the gang a priority above the backlog's.
	Urgent bool
	// After is the share of the backlog that has to be bound before the
	// gang comes. It never comes before the previous arrival is bound.
	After float64
}

// size returns the number of pods in a gang of the backlog.
func (p Plan) size() int {
	if p.Contender.Groups || p.Contender.Binds() {
		return p.Size
	}
	return 1
}

// gangs returns the gangs of the backlog.
func (p Plan) gangs() []backlog.Gang {
	return backlog.Gangs("backlog", p.Pods, p.size(), p.Contender.Groups)
}

// gang returns the gang of an arrival. A lone pod has no group.
func (p Plan) gang(a Arrival) backlog.Gang {
	g := backlog.Gangs(a.Name, a.Pods, a.Pods, p.Contender.Groups && a.Pods > 1)[0]
	g.Urgent = a.Urgent
	return g
}

// total returns the number of all pods, arrivals included.
func (p Plan) total() int {
	n := p.Pods
	for _, a := range p.Arrivals {
		n += a.Pods
	}
	return n
}
