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
	// Rack requires that the pods of each gang are in one rack.
	Rack bool
	// Room makes the backlog wait: all nodes are full until each gang was refused once and all
	// processes are quiet. Then nodes are added that have room for so many pods, and the run ends
	// when so many are bound. If Room is zero, there is room from the start. Only Fluence can wait.
	Room int
	// Low is the number of pods of priority 0 on each node when the contender has started and is quiet. Then the gangs
	// come, with a higher priority, and have to evict some. It is zero if there are no such pods.
	Low int
	// Stream makes gangs of Size pods come in place of the backlog, if it is not nil.
	Stream *Stream
	// Limit bounds the time from the contender's start until all pods are bound.
	Limit time.Duration
}

// NodeCPU is the number of CPUs of each node.
const NodeCPU = 8

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
	gangs := backlog.Gangs("backlog", p.Pods, p.size(), p.Contender.Groups)
	for i := range gangs {
		gangs[i].Rack, gangs[i].Native, gangs[i].Urgent = p.Rack, p.Contender.NativeGroups, p.Low > 0
	}
	return gangs
}

// backlog returns the gangs that are created before the contender starts.
func (p Plan) backlog() []backlog.Gang {
	if p.Stream != nil || p.Low > 0 {
		return nil
	}
	return p.gangs()
}

// gang returns the gang of an arrival. A lone pod has no group.
func (p Plan) gang(a Arrival) backlog.Gang {
	g := backlog.Gangs(a.Name, a.Pods, a.Pods, p.Contender.Groups && a.Pods > 1)[0]
	g.Urgent, g.Native = a.Urgent, p.Contender.NativeGroups
	return g
}

// total returns the number of pods to be bound, arrivals included.
func (p Plan) total() int {
	if p.Room > 0 {
		return p.Room
	}
	n := p.Pods
	for _, a := range p.Arrivals {
		n += a.Pods
	}
	return n
}
