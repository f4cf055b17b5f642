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

// nodeCPU is how many CPUs each node has.
const nodeCPU = 8

// A row is one benchmark: contenders that bind the same backlog in turns.
type row struct {
	report.Row
	// what says in a few words what the row shows.
	what string
	// nodes and pods are how many; size is that of a gang, and cpu what a pod asks for.
	nodes, pods, size int
	cpu               string
	// repetitions is how often the contenders take turns.
	repetitions int
	// bracket runs before the first repetition and after each, to tell whether the
	// machine was as fast after a repetition as before.
	bracket    contender.Spec
	contenders []entry
	// arrivals come in the runs of contenders that schedule.
	arrivals []trial.Arrival
	// limit bounds one run.
	limit time.Duration
	// recorded says that the results are kept for the page unless told otherwise.
	recorded bool
}

// An entry is a contender of a row.
type entry struct {
	contender.Spec
	// repetitions is in how many it takes part, from the first on; 0 is all.
	repetitions int
}

// A turn is one run of a row.
type turn struct {
	contender.Spec
	repetition int
	bracket    bool
}

// turns are all runs of a row in their order. Each repetition begins with the next of the
// contenders, so that none always comes first.
func (r row) turns() []turn {
	var out []turn
	for n := 1; n <= r.repetitions; n++ {
		next := r.repetition(n)
		if n > 1 {
			next = next[1:] // the bracket behind one stands before the next
		}
		out = append(out, next...)
	}
	return out
}

// repetition are the runs of one, with a bracket before it and one after it.
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

// plan is what a turn consists of. Nobody answers what comes to clients that only bind.
func (r row) plan(t turn) trial.Plan {
	p := trial.Plan{Contender: t.Spec, Pods: r.pods, Size: r.size, CPU: resource.MustParse(r.cpu), Limit: r.limit}
	if !t.Binds() {
		p.Arrivals = r.arrivals
	}
	return p
}

// changes are what flags change in a row; what is zero is left as it is.
type changes struct {
	nodes, pods, repetitions int
	// only are the contenders to keep, by name.
	only []string
}

// any reports whether anything is changed.
func (c changes) any() bool {
	return c.nodes != 0 || c.pods != 0 || c.repetitions != 0 || len(c.only) > 0
}

// with returns the row with changes. A gang is never larger than the backlog.
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

// keep leaves only the named contenders in, and the bracket.
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
