package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flux-k8s/fluence/test/perf/cluster/contender"
	"github.com/flux-k8s/fluence/test/perf/cluster/report"
	"github.com/flux-k8s/fluence/test/perf/cluster/trial"
)

// nodeCPU is the number of CPUs of each node.
const nodeCPU = 8

// A row is one benchmark: contenders that bind the same backlog in turns.
type row struct {
	report.Row
	// what is a short description of the row.
	what string
	// nodes is the number of nodes. pods is the number
	// of pods. size is the number of pods in a gang.
	nodes, pods, size int
	// cpu is the request of a pod.
	cpu string
	// repetitions is how often the contenders take turns.
	repetitions int
	// bracket runs before the first repetition and after each. It shows
	// whether the machine was as fast after a repetition as before.
	bracket    contender.Spec
	contenders []entry
	// arrivals come in the runs of schedulers.
	arrivals []trial.Arrival
	// limit bounds one run.
	limit time.Duration
	// recorded keeps the results for the page, unless a flag changes the row.
	recorded bool
}

// An entry is a contender of a row.
type entry struct {
	contender.Spec
	// repetitions is the number of repetitions in which
	// it takes part, from the first on. Zero means all.
	repetitions int
}

// A turn is one run of a row.
type turn struct {
	contender.Spec
	repetition int
	bracket    bool
}

// turns returns all runs of a row in their order. Each repetition
// begins with another contender, so that none always comes first.
func (r row) turns() []turn {
	var out []turn
	for n := 1; n <= r.repetitions; n++ {
		next := r.repetition(n)
		if n > 1 {
			next = next[1:] // the bracket after one repetition is the bracket before the next
		}
		out = append(out, next...)
	}
	return out
}

// repetition returns the runs of a repetition, with a bracket before it and one after it.
func (r row) repetition(n int) []turn {
	out := []turn{{Spec: r.bracket, repetition: n - 1, bracket: true}}
	for i := range r.contenders {
		e := r.contenders[(i+n-1)%len(r.contenders)]
		if e.repetitions == 0 || n <= e.repetitions {
			out = append(out, turn{Spec: e.Spec, repetition: n})
		}
	}
	return append(out, turn{Spec: r.bracket, repetition: n, bracket: true})
}

// plan returns the plan of a turn. It has no arrivals for
// a client that only binds, which would not bind them.
func (r row) plan(t turn) trial.Plan {
	p := trial.Plan{Contender: t.Spec, Pods: r.pods, Size: r.size, CPU: resource.MustParse(r.cpu), Limit: r.limit}
	if !t.Binds() {
		p.Arrivals = r.arrivals
	}
	return p
}

// changes are changes of a row by flags. A zero field changes nothing.
type changes struct {
	nodes, pods, repetitions int
	// only are the names of the contenders to keep.
	only []string
}

// any reports whether there is a change.
func (c changes) any() bool {
	return c.nodes != 0 || c.pods != 0 || c.repetitions != 0 || len(c.only) > 0
}

// with returns the row with changes. It limits a gang to the size of the backlog.
func (r row) with(c changes) (row, error) {
	for _, n := range []struct {
		flag  string
		value int
		of    *int
	}{{"nodes", c.nodes, &r.nodes}, {"pods", c.pods, &r.pods}, {"repetitions", c.repetitions, &r.repetitions}} {
		if n.value < 0 {
			return r, fmt.Errorf("-%s: %d is negative", n.flag, n.value)
		}
		if n.value > 0 {
			*n.of = n.value
		}
	}
	r.size = min(r.size, r.pods)
	if r.pods%r.size != 0 {
		return r, fmt.Errorf("-pods: %d is no multiple of %d, the size of a gang in row %s", r.pods, r.size, r.Name)
	}
	cpu := resource.MustParse(r.cpu)
	all := r.pods
	for _, a := range r.arrivals {
		all += a.Pods
	}
	if room := r.nodes * int(nodeCPU*1000/cpu.MilliValue()); all > room {
		return r, fmt.Errorf("-pods: %d pods of %s CPU do not fit on %d nodes, which have room for %d", all, r.cpu, r.nodes, room)
	}
	return r.keep(c.only)
}

// keep returns the row with the named contenders alone. The bracket stays.
func (r row) keep(only []string) (row, error) {
	if len(only) == 0 {
		return r, nil
	}
	var kept []entry
	for _, name := range only {
		i := slices.IndexFunc(r.contenders, func(e entry) bool { return e.Name == name })
		if i < 0 {
			return r, fmt.Errorf("-only: row %s has no contender %q; it has %s", r.Name, name, strings.Join(r.names(), ", "))
		}
		kept = append(kept, r.contenders[i])
	}
	r.contenders = kept
	return r, nil
}

func (r row) names() []string {
	var names []string
	for _, e := range r.contenders {
		names = append(names, e.Name)
	}
	return names
}
