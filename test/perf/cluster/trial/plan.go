// Package trial makes one run of a benchmark: a backlog, one contender that binds it, and
// the figures of that.
package trial

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flux-k8s/fluence/test/perf/cluster/backlog"
	"github.com/flux-k8s/fluence/test/perf/cluster/contender"
)

// A Plan is what one run consists of.
type Plan struct {
	Contender contender.Spec
	// Pods make the backlog, in gangs of Size, which must divide Pods. A contender that
	// schedules pods on their own has no gangs.
	Pods, Size int
	// CPU is what each pod asks for.
	CPU resource.Quantity
	// Arrivals come one after the other while the backlog is being bound.
	Arrivals []Arrival
	// Limit bounds the time from the contender's start until all pods are bound.
	Limit time.Duration
}

// An Arrival is a gang that comes while others are being bound.
type Arrival struct {
	Name string
	Pods int
	// Urgent gives it a priority above that of the backlog.
	Urgent bool
	// After is the share of the backlog that has to be bound before it comes. It never
	// comes before the one ahead of it is bound.
	After float64
}

// size is that of a gang of the backlog.
func (p Plan) size() int {
	if p.Contender.Groups || p.Contender.Binds() {
		return p.Size
	}
	return 1
}

// gangs are the backlog.
func (p Plan) gangs() []backlog.Gang {
	return backlog.Gangs("backlog", p.Pods, p.size(), p.Contender.Groups)
}

// gang is an arrival. A lone pod is in no group.
func (p Plan) gang(a Arrival) backlog.Gang {
	g := backlog.Gangs(a.Name, a.Pods, a.Pods, p.Contender.Groups && a.Pods > 1)[0]
	g.Urgent = a.Urgent
	return g
}

// total is how many pods are to be bound, arrivals included.
func (p Plan) total() int {
	n := p.Pods
	for _, a := range p.Arrivals {
		n += a.Pods
	}
	return n
}
