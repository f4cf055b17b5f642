package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/hostlist"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/test/trials"
)

// A topologyInstance is an instance with limits and a topology. It is small enough to try every layout.
type topologyInstance struct {
	nodes    []instanceNode
	shapes   []instanceShape
	limits   []jobspec.Limit
	topology *jobspec.Topology
}

type instanceNode struct {
	size, held [2]int64
	rack, zone int // rack is -1 for a node outside of racks
	down       bool
}

type instanceShape struct {
	need     [2]int64
	count    jobspec.Count
	limits   []int // indexes of the instance's limits
	perRack  int64 // 0 means no maximum
	ruledOut int   // a node, or -1 for none
}

func randomTopologyInstance(r *rand.Rand, ranges bool) topologyInstance {
	var x topologyInstance
	racks := 2 + r.IntN(2)
	size := 2 + r.Int64N(5)
	for range 2 + r.IntN(5) {
		n := instanceNode{rack: r.IntN(racks), down: r.IntN(10) == 0}
		n.zone = n.rack % 2
		if r.IntN(12) == 0 {
			n.rack = -1
		}
		n.size = [2]int64{max(1, size-r.Int64N(3)), 2 + r.Int64N(6)}
		for k := range n.size {
			n.held[k] = max(0, r.Int64N(n.size[k]+3)-3)
		}
		x.nodes = append(x.nodes, n)
	}
	for range r.IntN(4) {
		x.limits = append(x.limits, randomLimit(r, len(x.limits), len(x.nodes)))
	}
	shapes := 1 + r.IntN(3)
	for range shapes {
		s := instanceShape{ruledOut: -1, need: [2]int64{1 + r.Int64N(3), r.Int64N(3)}}
		least := 1 + r.Int64N(int64(12/(shapes*shapes)))
		s.count = jobspec.Exactly(least)
		if ranges && r.IntN(2) == 0 {
			s.count = jobspec.Between(least, least+r.Int64N(5))
		}
		for l := range x.limits {
			if r.IntN(2) == 0 {
				s.limits = append(s.limits, l)
			}
		}
		if r.IntN(6) == 0 {
			s.perRack = 1 + r.Int64N(3)
		}
		if r.IntN(6) == 0 {
			s.ruledOut = r.IntN(len(x.nodes))
		}
		x.shapes = append(x.shapes, s)
	}
	x.topology = randomTopology(r)
	return x
}

func randomLimit(r *rand.Rand, nth, nodes int) jobspec.Limit {
	l := jobspec.Limit{Name: fmt.Sprintf("l%d", nth), Most: max(0, r.Int64N(8)-1)}
	if level := []string{"node", "rack", "zone", "row", "", "", "", ""}[r.IntN(8)]; level != "" {
		l.Level = level
		return l
	}
	lists := make([][]string, 1+r.IntN(2))
	for i := range nodes {
		if k := r.IntN(2 * len(lists)); i == 0 || k < len(lists) {
			k %= len(lists)
			lists[k] = append(lists[k], puzzleName(i))
		}
	}
	for _, names := range lists {
		if len(names) > 0 {
			l.Hosts = append(l.Hosts, hostlist.Encode(names))
		}
	}
	return l
}

func isIn(name, list string) bool {
	names, _ := hostlist.Parse(list)
	return slices.Contains(slices.Collect(names.Names()), name)
}

func randomTopology(r *rand.Rand) *jobspec.Topology {
	levels := []string{"zone", "rack", "rack", "node"}
	level := func() string { return levels[r.IntN(len(levels))] }
	switch r.IntN(8) {
	case 0:
		return nil
	case 1:
		return &jobspec.Topology{Required: level()}
	case 2, 3:
		return &jobspec.Topology{Preferred: []string{level()}}
	case 4:
		return &jobspec.Topology{Preferred: []string{"zone", "rack", "node"}[r.IntN(2):]}
	case 5:
		return &jobspec.Topology{Balanced: level()}
	case 6:
		return &jobspec.Topology{Required: "zone", Preferred: []string{level()}}
	}
	return &jobspec.Topology{Required: "zone", Balanced: level()}
}

// pose loads the instance into an engine, and makes the request.
func (x topologyInstance) pose(t *testing.T, e *engine.Engine) (*match.Allocation, error) {
	t.Helper()
	d := &driver{e: e}
	var graphs []*resource.Graph
	var held []match.Slot
	// The node far makes sure that the graph has every level.
	graphs = append(graphs, matchtest.Node("far", [][2]string{{"zone", "z9"}, {"rack", "r9"}}))
	for i, n := range x.nodes {
		levels := [][2]string{{"zone", fmt.Sprintf("z%d", n.zone)}, {"rack", fmt.Sprintf("r%d", n.rack)}}
		if n.rack < 0 {
			levels = levels[:1]
		}
		g := matchtest.Node(puzzleName(i), levels, amountPools(n.size)...)
		if n.down {
			matchtest.WithStatus(g, resource.Down)
		}
		graphs = append(graphs, g)
		held = append(held, matchtest.Held(fmt.Sprint(i), puzzleName(i), amountPools(n.held)...))
	}
	d.load(t, graphs...)
	if err := d.e.Update(t.Context(), d.epoch, match.Job{ID: 99, Slots: held}); err != nil {
		t.Fatalf("Update() = %v", err)
	}
	return d.e.Match(t.Context(), d.request(1, x.jobspec()))
}

func (x topologyInstance) jobspec() *jobspec.Jobspec {
	js := matchtest.Jobspec()
	for i, s := range x.shapes {
		label := fmt.Sprint(i)
		need := amountPools(s.need)
		if s.need[1] == 0 {
			need = need[:1]
		}
		js.Resources = append(js.Resources, matchtest.Slot(label, s.count, need...))
		narrow := jobspec.SlotAttributes{Topology: x.topology}
		for _, l := range s.limits {
			narrow.Limits = append(narrow.Limits, x.limits[l])
		}
		if s.perRack > 0 {
			narrow.MaxPerLevel = map[string]int64{"rack": s.perRack}
		}
		if s.ruledOut >= 0 {
			narrow.Constraints = matchtest.Not(matchtest.Hosts(puzzleName(s.ruledOut)))
		}
		matchtest.Constrain(js, label, narrow)
	}
	return js
}

// at returns the domain of a node on a level, or -1 if there is none.
func (x topologyInstance) at(level string, node int) int {
	switch level {
	case "zone":
		return x.nodes[node].zone
	case "rack":
		return x.nodes[node].rack
	case "node":
		return node
	}
	return -1
}

// slotsByShapeAndNode has the number of slots of each shape on each node.
type slotsByShapeAndNode [][]int64

// violation names what a layout violates. A wrong amount or limit stays wrong if slots are added.
func (x topologyInstance) violation(l slotsByShapeAndNode, view modelView) string {
	for i, n := range x.nodes {
		free := n.size
		if !view.empty {
			free = [2]int64{max(0, n.size[0]-n.held[0]), max(0, n.size[1]-n.held[1])}
		}
		for s, shape := range x.shapes {
			if l[s][i] > 0 && (view.up && n.down || shape.ruledOut == i) {
				return fmt.Sprintf("%d may not stand on %d", s, i)
			}
			free[0] -= l[s][i] * shape.need[0]
			free[1] -= l[s][i] * shape.need[1]
		}
		if free[0] < 0 || free[1] < 0 {
			return fmt.Sprintf("node %d is overbooked", i)
		}
	}
	count := func(level string, shapes func(int) bool, hosts []string) map[int]int64 {
		sums := make(map[int]int64)
		for s := range x.shapes {
			for i := range x.nodes {
				in := x.at(level, i)
				if level == "" {
					in = slices.IndexFunc(hosts, func(list string) bool { return isIn(puzzleName(i), list) })
				}
				if shapes(s) && in >= 0 {
					sums[in] += l[s][i]
				}
			}
		}
		return sums
	}
	for k, limit := range x.limits {
		for in, n := range count(limit.Level, func(s int) bool { return slices.Contains(x.shapes[s].limits, k) }, limit.Hosts) {
			if n > limit.Most {
				return fmt.Sprintf("limit %s is broken in %d", limit.Name, in)
			}
		}
	}
	for s, shape := range x.shapes {
		for in, n := range count("rack", func(other int) bool { return other == s }, nil) {
			if shape.perRack > 0 && n > shape.perRack {
				return fmt.Sprintf("%d slots of %d in rack %d", n, s, in)
			}
		}
	}
	return ""
}

// cost returns the number of domains that a layout uses, by level, and whether the topology allows
// the layout.
func (x topologyInstance) cost(l slotsByShapeAndNode) (cost []int, allowed bool) {
	if x.topology == nil {
		return nil, true
	}
	used := func(level string) map[int]int64 {
		sums := make(map[int]int64)
		for s := range x.shapes {
			for i, n := range l[s] {
				if n > 0 {
					sums[x.at(level, i)] += n
				}
			}
		}
		return sums
	}
	if level := x.topology.Required; level != "" {
		in := used(level)
		if _, none := in[-1]; len(in) > 1 || none {
			return nil, false
		}
	}
	for _, level := range x.topology.Preferred {
		cost = append(cost, len(used(level)))
	}
	if level := x.topology.Balanced; level != "" {
		in := used(level)
		least, most := int64(1<<30), int64(0)
		for d, n := range in {
			if d < 0 {
				return nil, false
			}
			least, most = min(least, n), max(most, n)
		}
		if most > least+1 {
			return nil, false
		}
		cost = append(cost, len(in))
	}
	return cost, true
}

// best tries all layouts of these numbers of slots. It returns the lowest cost, and whether there
// is a layout.
func (x topologyInstance) best(counts []int64, view modelView) (best []int, found bool) {
	l := make(slotsByShapeAndNode, len(x.shapes))
	for s := range l {
		l[s] = make([]int64, len(x.nodes))
	}
	var try func(s, i int, left int64)
	try = func(s, i int, left int64) {
		switch {
		case s == len(x.shapes):
			if cost, ok := x.cost(l); ok && (!found || slices.Compare(cost, best) < 0) {
				best, found = cost, true
			}
			return
		case left == 0 && s+1 < len(x.shapes):
			try(s+1, 0, counts[s+1])
			return
		case left == 0:
			try(s+1, 0, 0)
			return
		case i == len(x.nodes):
			return
		}
		for n := int64(0); n <= left; n++ {
			l[s][i] = n
			if x.violation(l, view) != "" {
				break
			}
			try(s, i+1, left-n)
		}
		l[s][i] = 0
	}
	try(0, 0, counts[0])
	return best, found
}

// most returns the maximum numbers of slots: for the first shape as many as leave the others their
// minimum, and so on.
func (x topologyInstance) most(view modelView) []int64 {
	counts := x.least()
	for s, shape := range x.shapes {
		for n := shape.count.Max; n > shape.count.Min; n-- {
			counts[s] = n
			if _, ok := x.best(counts, view); ok {
				break
			}
			counts[s] = shape.count.Min
		}
	}
	return counts
}

func (x topologyInstance) least() []int64 {
	var counts []int64
	for _, s := range x.shapes {
		counts = append(counts, s.count.Min)
	}
	return counts
}

// read converts an allocation to a layout.
func (x topologyInstance) read(t *testing.T, a *match.Allocation) slotsByShapeAndNode {
	t.Helper()
	l := make(slotsByShapeAndNode, len(x.shapes))
	for s := range l {
		l[s] = make([]int64, len(x.nodes))
	}
	for _, slot := range a.Slots {
		var shape, node int
		if _, err := fmt.Sscan(slot.Label+" "+slot.Node[1:], &shape, &node); err != nil {
			t.Fatal(err)
		}
		l[shape][node]++
	}
	return l
}

// TestTopologyAgainstEveryLayout compares the engine with a simple exhaustive search. There is an
// allocation if and only if there is a layout, and the allocation has the lowest number of domains.
func TestTopologyAgainstEveryLayout(t *testing.T) {
	now, ever := modelView{up: true, now: true}, modelView{empty: true}
	verdicts := make(map[string]int)
	for seed := range trials.Seeds(3000) {
		x := randomTopologyInstance(rand.New(rand.NewPCG(seed, 7)), seed%3 == 0)
		a, err := x.pose(t, newEngine(t))
		cost, fits := x.best(x.least(), now)
		var refusal *match.Refusal
		switch {
		case err == nil && !fits:
			t.Errorf("seed %d, %+v: placed %s, though there is no way", seed, x, written(a.Slots))
		case err == nil:
			verdicts["placed"]++
			l, counts := x.read(t, a), x.most(now)
			if broken := x.violation(l, now); broken != "" {
				t.Errorf("seed %d, %+v: placed %s: %s", seed, x, written(a.Slots), broken)
			}
			for s := range l {
				n := int64(0)
				for _, on := range l[s] {
					n += on
				}
				if n != counts[s] && (x.topology != nil || n < x.shapes[s].count.Min) {
					t.Errorf("seed %d, %+v: placed %s: %d of %d, want %d", seed, x, written(a.Slots), n, s, counts[s])
				}
			}
			if x.topology != nil {
				cost, _ = x.best(counts, now)
			}
			if got, allowed := x.cost(l); !allowed || slices.Compare(got, cost) != 0 && x.topology != nil {
				t.Errorf("seed %d, %+v: placed %s at the cost of %v (%v), want %v", seed, x, written(a.Slots), got, allowed, cost)
			}
		case !errors.As(err, &refusal):
			t.Fatalf("seed %d, %+v: Match() = %v", seed, x, err)
		default:
			verdicts[fmt.Sprintf("%v %s", refusal.Err, refusal.Reason.Code)]++
			if fits {
				t.Errorf("seed %d, %+v: Match() = %v, though there is a way", seed, x, err)
			}
			_, could := x.best(x.least(), ever)
			if never := errors.Is(err, match.ErrUnsatisfiable); never == could || refusal.Reason.Code == match.NotFound {
				t.Errorf("seed %d, %+v: Match() = %v, want never %v", seed, x, err, !could)
			}
			if r := refusal.Reason; r.Found >= r.Wanted {
				t.Errorf("seed %d, %+v: found %d of %d and refused", seed, x, r.Found, r.Wanted)
			}
		}
	}
	if len(verdicts) < 5 {
		t.Errorf("the stands came to no more than %v", verdicts)
	}
	t.Logf("verdicts: %v", verdicts)
}
