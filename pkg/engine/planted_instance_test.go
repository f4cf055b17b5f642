package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// How full a planted group makes its nodes: the share of the resource of which it takes the largest
// share.
const (
	plantLeast = 0.80
	plantMost  = 0.95
	// podsPerNode is the maximum number of slots on a node.
	podsPerNode = 110
)

// An amount has cores in thousandths, memory in bytes, and GPUs.
type amount [3]int64

func (a amount) pools() []matchtest.Pool {
	return []matchtest.Pool{matchtest.MilliCores(a[0]), matchtest.Bytes(a[1]), matchtest.GPUs(a[2])}
}

// holds returns the number of each that fit in a.
func (a amount) holds(each amount) int64 {
	n := int64(1) << 40
	for k := range a {
		if each[k] > 0 {
			n = min(n, max(0, a[k])/each[k])
		}
	}
	return n
}

func (a amount) plus(n int64, each amount) amount {
	for k := range a {
		a[k] += n * each[k]
	}
	return a
}

// An instanceSpec describes what kind of instance is planted.
type instanceSpec struct {
	nodes, shapes int
	// foreign reports whether jobs hold something on the nodes before.
	foreign bool
	// racks is the number of racks, with the nodes evenly among them. The group is planted in one of
	// them. Zero means that the group is planted in all nodes.
	racks int
	// zones is the number of zones. The slots of some shapes are limited in each zone to what was
	// planted there. Zero means no zones.
	zones int
}

// A plantedInstance is an instance with a known solution.
type plantedInstance struct {
	instanceSpec
	nodes  []plantedNode
	shapes []plantedShape
	// fill is how full the nodes are, by the resource of which the group takes the largest share.
	fill float64
	// rack is the rack of the group.
	rack int
}

type plantedNode struct {
	size, held amount
	rack       int
	slots      []int // by shape, in the solution
}

type plantedShape struct {
	each  amount
	count int64
	// perZone is the maximum number of slots in a zone. Zero means no maximum.
	perZone int64
}

// zoneOf returns the zone of a node.
func (p *plantedInstance) zoneOf(node int) int { return node % p.zones }

// randomInstanceSpec returns a random spec.
func randomInstanceSpec(r *rand.Rand, racks bool) instanceSpec {
	s := instanceSpec{nodes: 2 + r.IntN(63), shapes: 2 + r.IntN(4), foreign: r.IntN(2) == 0}
	if racks {
		s.racks = 2 + r.IntN(3)
		s.nodes = max(s.nodes, 2*s.racks)
	}
	return s
}

// generate plants an instance. It fills nodes with slots of random shapes, and removes slots until a
// random fill is reached.
func (s instanceSpec) generate(r *rand.Rand) plantedInstance {
	return s.generateTo(r, plantLeast+r.Float64()*(plantMost-plantLeast))
}

func (s instanceSpec) generateTo(r *rand.Rand, target float64) plantedInstance {
	for {
		p := plantedInstance{instanceSpec: s}
		p.fillNodes(r)
		if p.removeToTarget(r, target) {
			p.addZoneLimits(r)
			return p
		}
	}
}

// fillNodes chooses random nodes and shapes, and fills the nodes of the group.
func (p *plantedInstance) fillNodes(r *rand.Rand) {
	kinds := make([]amount, 1+r.IntN(4))
	for i := range kinds {
		kinds[i] = amount{1000 * 8 << r.IntN(4), int64(1+r.IntN(8)) * 32 * matchtest.GiB}
		if i == 0 || r.IntN(2) == 0 {
			kinds[i][2] = int64(2) << r.IntN(3)
		}
	}
	if p.racks > 0 {
		p.rack = r.IntN(p.racks)
	}
	for i := range p.instanceSpec.nodes {
		n := plantedNode{size: kinds[r.IntN(len(kinds))], slots: make([]int, p.instanceSpec.shapes)}
		if p.racks > 0 {
			n.rack = i % p.racks
		}
		if p.foreign && r.IntN(3) > 0 || n.rack != p.rack && r.IntN(2) == 0 {
			for k := range n.held {
				n.held[k] = r.Int64N(1 + n.size[k]*3/4)
			}
		}
		p.nodes = append(p.nodes, n)
	}
	// Shapes have sizes from a whole node down to a small part of one.
	grain := 1 + r.Float64()*float64(int(1)<<r.IntN(5))
	for range p.instanceSpec.shapes {
		p.shapes = append(p.shapes, plantedShape{each: randomShape(r, kinds[r.IntN(len(kinds))], grain)})
	}
	for i := range p.nodes {
		if n := &p.nodes[i]; n.rack == p.rack {
			p.fillUp(r, n)
		}
	}
}

// randomShape returns what a slot takes: about one part in grain of a node.
func randomShape(r *rand.Rand, node amount, grain float64) amount {
	var each amount
	units := amount{250, matchtest.GiB / 4, 1}
	if r.IntN(3) == 0 {
		units = amount{1, 1, 1}
	}
	for k := range each {
		part := float64(node[k]) / (grain * (0.5 + 1.5*r.Float64()))
		each[k] = min(node[k], max(units[k], int64(part)/units[k]*units[k]))
	}
	if r.IntN(2) == 0 {
		each[2] = 0
	}
	return each
}

// fillUp adds slots of random shapes to a node until none fits.
func (p *plantedInstance) fillUp(r *rand.Rand, n *plantedNode) {
	left := n.size.plus(-1, n.held)
	for {
		var fit []int
		for s := range p.shapes {
			if left.holds(p.shapes[s].each) > 0 {
				fit = append(fit, s)
			}
		}
		if len(fit) == 0 {
			return
		}
		s := fit[r.IntN(len(fit))]
		left = left.plus(-1, p.shapes[s].each)
		n.slots[s]++
		p.shapes[s].count++
	}
}

// removeToTarget removes slots until the group fills its nodes to the target. It returns false if the
// instance is of no use: it is not full enough, has too many slots on a node, or has no slots of
// some shape.
func (p *plantedInstance) removeToTarget(r *rand.Rand, target float64) bool {
	for _, n := range p.nodes {
		slots := 0
		for _, count := range n.slots {
			slots += count
		}
		if slots > podsPerNode {
			return false
		}
	}
	if p.fill = p.filled(); p.fill < target {
		return false
	}
	for ; p.fill > target; p.fill = p.filled() {
		n := &p.nodes[r.IntN(len(p.nodes))]
		if s := r.IntN(len(p.shapes)); n.slots[s] > 0 {
			n.slots[s]--
			p.shapes[s].count--
		}
	}
	for _, s := range p.shapes {
		if s.count == 0 {
			return false
		}
	}
	return p.fill >= plantLeast
}

// addZoneLimits limits about half of the shapes to what was planted of them in a zone.
func (p *plantedInstance) addZoneLimits(r *rand.Rand) {
	if p.zones == 0 {
		return
	}
	for s := range p.shapes {
		in := make([]int64, p.zones)
		for i, n := range p.nodes {
			in[p.zoneOf(i)] += int64(n.slots[s])
		}
		if r.IntN(2) == 0 {
			p.shapes[s].perZone = slices.Max(in)
		}
	}
}

// filled returns how full the group makes its nodes.
func (p *plantedInstance) filled() float64 {
	var all, used amount
	for _, n := range p.nodes {
		if n.rack == p.rack {
			all = all.plus(1, n.size).plus(-1, n.held)
			for s, count := range n.slots {
				used = used.plus(int64(count), p.shapes[s].each)
			}
		}
	}
	most := 0.0
	for k := range all {
		if all[k] > 0 {
			most = max(most, float64(used[k])/float64(all[k]))
		}
	}
	return most
}

// graphs returns the nodes as graphs, and the slots that are held there.
func (p *plantedInstance) graphs() (graphs []*resource.Graph, held []match.Slot) {
	for i, n := range p.nodes {
		name := puzzleName(i)
		var levels [][2]string
		if p.racks > 0 {
			levels = [][2]string{{"rack", fmt.Sprintf("r%d", n.rack)}}
		}
		if p.zones > 0 {
			levels = [][2]string{{"zone", fmt.Sprintf("z%d", p.zoneOf(i))}}
		}
		graphs = append(graphs, matchtest.Node(name, levels, n.size.pools()...))
		if n.held != (amount{}) {
			held = append(held, matchtest.Held(name, name, n.held.pools()...))
		}
	}
	return graphs, held
}

// pose loads the instance into an engine and makes the request. It returns the time of the match.
func (p *plantedInstance) pose(t *testing.T) (*match.Allocation, time.Duration, error) {
	t.Helper()
	d := &driver{e: newEngine(t)}
	graphs, held := p.graphs()
	d.load(t, graphs...)
	if err := d.e.Update(t.Context(), d.epoch, match.Job{ID: 99, Slots: held}); err != nil {
		t.Fatalf("Update() = %v", err)
	}
	r := d.request(1, p.jobspec())
	begin := time.Now()
	a, err := d.e.Match(t.Context(), r)
	return a, time.Since(begin), err
}

// jobspec returns the request for the planted group.
func (p *plantedInstance) jobspec() *jobspec.Jobspec {
	js := matchtest.Jobspec()
	for s, shape := range p.shapes {
		var need []matchtest.Pool
		for _, pool := range shape.each.pools() {
			if pool.Amount > 0 {
				need = append(need, pool)
			}
		}
		label := fmt.Sprint(s)
		js.Resources = append(js.Resources, matchtest.Slot(label, jobspec.Exactly(shape.count), need...))
		if p.racks > 0 {
			matchtest.Constrain(js, label, jobspec.SlotAttributes{Topology: &jobspec.Topology{Required: "rack"}})
		}
		if shape.perZone > 0 {
			matchtest.Constrain(js, label, jobspec.SlotAttributes{MaxPerLevel: map[string]int64{"zone": shape.perZone}})
		}
	}
	return js
}

// check checks a placement against the instance.
func (p *plantedInstance) check(a *match.Allocation) error {
	used := make([]amount, len(p.nodes))
	counts := make([]int64, len(p.shapes))
	racks, zones := make(map[int]bool), make(map[[2]int]int64)
	for _, slot := range a.Slots {
		var shape, node int
		if _, err := fmt.Sscan(slot.Label+" "+slot.Node[1:], &shape, &node); err != nil {
			return err
		}
		used[node] = used[node].plus(1, p.shapes[shape].each)
		counts[shape]++
		racks[p.nodes[node].rack] = true
		if most := p.shapes[shape].perZone; most > 0 {
			in := [2]int{shape, p.zoneOf(node)}
			if zones[in]++; zones[in] > most {
				return fmt.Errorf("zone %d has more than %d slots of shape %d", in[1], most, shape)
			}
		}
	}
	for i, n := range p.nodes {
		for k := range used[i] {
			if used[i][k] > 0 && used[i][k] > n.size[k]-n.held[k] {
				return fmt.Errorf("node %d is overbooked: %v of %v are used", i, used[i], n)
			}
		}
	}
	for s, shape := range p.shapes {
		if counts[s] != shape.count {
			return fmt.Errorf("%d slots of shape %d, want %d", counts[s], s, shape.count)
		}
	}
	if len(racks) > 1 {
		return fmt.Errorf("the group stands in %d racks", len(racks))
	}
	return nil
}
