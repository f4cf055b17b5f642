package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flux-k8s/fluence/test/perf/cluster/contender"
	"github.com/flux-k8s/fluence/test/perf/cluster/report"
	"github.com/flux-k8s/fluence/test/perf/cluster/trial"
)

// rackNodes is the number of nodes in a rack.
const rackNodes = 32

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
	// It has no name if the row needs none.
	bracket    contender.Spec
	contenders []entry
	// arrivals come in the runs of schedulers.
	arrivals []trial.Arrival
	// bracketPart is the part of the pods that the bracket
	// binds. Zero means all.
	bracketPart float64
	// inOrder makes every repetition begin with the first contender,
	// because later ones need what an earlier one found.
	inOrder bool
	// rack requires that each gang is in one rack, and gives the nodes racks.
	rack bool
	// room makes the backlog wait until there is room for this part of it. Zero
	// means that there is room from the start.
	room float64
	// low is the number of pods of priority 0 on each node, which have to make room.
	low int
	// seconds makes gangs come in a stream for so long, in place of a backlog.
	seconds int
	// args are arguments of the plugin Fluence that the row needs.
	args map[string]any
	// patience is how long processes may take to become quiet. Zero means as usual.
	patience time.Duration
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
	// part is the part of the row's pods that its backlog has. Zero means all.
	part float64
	// rateOf is the contender whose highest rate determines
	// the stream's. It is empty if its own does.
	rateOf string
}

// A turn is one run of a row.
type turn struct {
	entry
	repetition int
	bracket    bool
}

// turns returns all runs of a row in their order. Each repetition
// begins with another contender, so that none always comes first.
func (r row) turns() []turn {
	var out []turn
	for n := 1; n <= r.repetitions; n++ {
		next := r.repetition(n)
		if n > 1 && r.bracket.Name != "" {
			next = next[1:] // the bracket after one repetition is the bracket before the next
		}
		out = append(out, next...)
	}
	return out
}

// repetition returns the runs of a repetition, with a bracket before it and one after it.
func (r row) repetition(n int) []turn {
	var out []turn
	bracket := func(n int) {
		if r.bracket.Name != "" {
			out = append(out, turn{entry: entry{Spec: r.bracket, part: r.bracketPart}, repetition: n, bracket: true})
		}
	}
	bracket(n - 1)
	for i := range r.contenders {
		e := r.contenders[i]
		if !r.inOrder {
			e = r.contenders[(i+n-1)%len(r.contenders)]
		}
		if e.repetitions == 0 || n <= e.repetitions {
			out = append(out, turn{entry: e, repetition: n})
		}
	}
	bracket(n)
	return out
}

// podsOf returns the number of a part of the row's pods. Zero means all.
func (r row) podsOf(part float64) int {
	if part == 0 {
		return r.pods
	}
	return int(math.Round(part * float64(r.pods)))
}

// plan returns the plan of a turn. A client that only binds has a backlog
// in every row, and neither arrivals nor a stream, which it would not bind.
func (r row) plan(t turn) trial.Plan {
	p := trial.Plan{Contender: t.Spec, Pods: r.podsOf(t.part), Size: r.size, CPU: resource.MustParse(r.cpu), Rack: r.rack, Limit: r.limit}
	if t.Binds() {
		return p
	}
	p.Arrivals, p.Low = r.arrivals, r.low
	if r.room > 0 {
		p.Room = r.podsOf(r.room)
	}
	if r.seconds > 0 {
		p.Stream = &trial.Stream{Share: streamShare, RateOf: t.rateOf, For: time.Duration(r.seconds) * time.Second, Seed: uint64(t.repetition)}
	}
	return p
}

// streamShare is the rate of a stream, as a share of the highest one.
const streamShare = 0.8

// parameters returns the parameters of the row. args are further arguments of the plugin.
func (r row) parameters(args map[string]any) report.Parameters {
	p := report.Parameters{Nodes: r.nodes, Pods: r.pods, Size: r.size, CPU: r.cpu, Seconds: r.seconds, Rack: r.rack, Low: r.low, Args: map[string]any{}}
	if r.room > 0 {
		p.Room = r.podsOf(r.room)
	}
	maps.Copy(p.Args, r.args)
	maps.Copy(p.Args, args)
	return p
}

// changes are changes of a row by flags. A zero field changes nothing.
type changes struct {
	nodes, pods, repetitions, seconds int
	// only are the names of the contenders to keep.
	only []string
}

// any reports whether there is a change.
func (c changes) any() bool {
	return c.nodes != 0 || c.pods != 0 || c.repetitions != 0 || c.seconds != 0 || len(c.only) > 0
}

// with returns the row with changes. It limits a gang to the size of the backlog.
func (r row) with(c changes) (row, error) {
	if c.seconds > 0 && r.seconds == 0 {
		return r, fmt.Errorf("-seconds: row %s has no stream", r.Name)
	}
	for _, n := range []struct {
		flag  string
		value int
		of    *int
	}{{"nodes", c.nodes, &r.nodes}, {"pods", c.pods, &r.pods}, {"repetitions", c.repetitions, &r.repetitions}, {"seconds", c.seconds, &r.seconds}} {
		if n.value < 0 {
			return r, fmt.Errorf("-%s: %d is negative", n.flag, n.value)
		}
		if n.value > 0 {
			*n.of = n.value
		}
	}
	r.size = min(r.size, r.pods)
	for _, n := range r.counts() {
		if n == 0 || n%r.size != 0 {
			return r, fmt.Errorf("-pods: %d is no multiple of %d, the size of a gang in row %s", n, r.size, r.Name)
		}
	}
	cpu := resource.MustParse(r.cpu)
	all := r.pods
	if r.room > 0 {
		all = 0 // they wait, and the room for them is made
	}
	for _, a := range r.arrivals {
		all += a.Pods
	}
	if room := r.nodes * int(trial.NodeCPU*1000/cpu.MilliValue()); all > room {
		return r, fmt.Errorf("-pods: %d pods of %s CPU do not fit on %d nodes, which have room for %d", all, r.cpu, r.nodes, room)
	}
	return r.keep(c.only)
}

// counts returns the numbers of pods in the row's runs.
func (r row) counts() []int {
	out := []int{r.pods, r.podsOf(r.bracketPart), r.podsOf(r.room)}
	for _, e := range r.contenders {
		out = append(out, r.podsOf(e.part))
	}
	return out
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
