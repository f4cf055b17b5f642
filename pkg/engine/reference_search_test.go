package engine_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/test/trials"
)

// testTime bounds the time of one test.
const testTime = 10 * time.Second

// The maximum size of a puzzle.
const (
	referenceNodes = 6
	referencePods  = 12
)

// A searchState is a state of the search: the next node, the slots that are still to be placed, and the
// slots in each rack of the shapes that are limited there.
type searchState struct {
	node  int
	left  [referencePods]int8
	racks [2][referencePods]int8
}

// A referenceSearch tries, node by node, every number of slots of every shape. It remembers the states that
// failed.
type referenceSearch struct {
	puzzle
	view   modelView
	failed map[searchState]bool
}

// possible reports whether all slots can be placed.
func (p puzzle) possible(view modelView) bool {
	t := referenceSearch{puzzle: p, view: view, failed: make(map[searchState]bool)}
	var s searchState
	for i, shape := range p.shapes {
		s.left[i] = int8(shape.count)
	}
	return t.from(s)
}

func (t *referenceSearch) from(s searchState) bool {
	switch {
	case s.left == [referencePods]int8{}:
		return true
	case s.node == len(t.nodes) || t.failed[s]:
		return false
	}
	n := t.nodes[s.node]
	room := n.size
	if !t.view.empty {
		for k := range room {
			room[k] = max(0, room[k]-n.held[k])
		}
	}
	whole, inUse := t.conflict(n)
	if t.view.up && n.down || !t.view.empty && (whole || inUse) {
		room = [2]int64{}
	}
	next := s
	next.node++
	if t.fill(0, room, next) {
		return true
	}
	t.failed[s] = true
	return false
}

// fill tries every number of slots of the shapes from one on, on the node before the next.
func (t *referenceSearch) fill(shape int, room [2]int64, s searchState) bool {
	if shape == len(t.shapes) {
		return t.from(s)
	}
	if t.fill(shape+1, room, s) {
		return true
	}
	at, want, rack := s.node-1, t.shapes[shape], t.nodes[s.node-1].rack
	if at == want.ruledOut || t.view.now && at == want.ruledOutNow {
		return false
	}
	for s.left[shape] > 0 && (want.perRack == 0 || int64(s.racks[rack][shape]) < want.perRack) {
		s.left[shape]--
		if want.perRack > 0 {
			s.racks[rack][shape]++
		}
		for k, n := range want.need {
			if room[k] -= n; room[k] < 0 {
				return false
			}
		}
		if t.fill(shape+1, room, s) {
			return true
		}
	}
	return false
}

// largePuzzle returns a random puzzle whose nodes are about as full as possible.
func largePuzzle(r *rand.Rand) puzzle {
	var p puzzle
	limited, hindered := r.IntN(3) == 0, r.IntN(2) == 0
	alike := r.IntN(3) == 0
	var all [2]int64
	for i := range 2 + r.IntN(referenceNodes-1) {
		n := puzzleNode{size: [2]int64{4 + r.Int64N(13), 4 + r.Int64N(13)}, rack: r.IntN(2)}
		if alike && i > 0 {
			n.size = p.nodes[0].size
		}
		if hindered {
			n.down = r.IntN(10) == 0
			for k := range n.held {
				n.held[k] = r.Int64N(1 + n.size[k]/2)
			}
		}
		for k := range all {
			all[k] += n.size[k] - n.held[k]
		}
		p.nodes = append(p.nodes, n)
	}
	for range 1 + r.IntN(6) {
		s := puzzleShape{need: [2]int64{r.Int64N(8), r.Int64N(8)}, count: 1, ruledOut: -1, ruledOutNow: -1}
		if s.need == [2]int64{} {
			s.need[r.IntN(2)] = 1
		}
		if hindered && r.IntN(6) == 0 {
			s.ruledOut, s.ruledOutNow = r.IntN(len(p.nodes)), r.IntN(len(p.nodes))
		}
		if limited && r.IntN(2) == 0 {
			s.perRack = 1 + r.Int64N(3)
		}
		p.shapes = append(p.shapes, s)
	}
	p.crowd(r, all)
	return p
}

// crowd adds slots until there is room for about no more.
func (p *puzzle) crowd(r *rand.Rand, all [2]int64) {
	target := 0.6 + 0.4*r.Float64()
	pods := len(p.shapes)
	for ; pods < referencePods; pods++ {
		var want [2]int64
		for _, s := range p.shapes {
			for k := range want {
				want[k] += s.count * s.need[k]
			}
		}
		if float64(want[0]) >= target*float64(all[0]) || float64(want[1]) >= target*float64(all[1]) {
			return
		}
		p.shapes[r.IntN(len(p.shapes))].count++
	}
}

// TestDeadStatesAreRemembered has puzzles with limits that a search solves only if it remembers which states
// failed.
func TestDeadStatesAreRemembered(t *testing.T) {
	for _, seed := range []uint64{432524150} {
		p := largePuzzle(rand.New(rand.NewPCG(seed, 3)))
		a, _, err := p.timed(t, newEngine(t))
		if err != nil {
			t.Errorf("-seed=%d -trials=1: Match() = %v, though there is a way", seed, err)
		} else if bad := p.check(a); bad != nil {
			t.Errorf("-seed=%d -trials=1: placed %s: %v", seed, written(a.Slots), bad)
		}
	}
}

// TestShapesWithLittleRoomAreSearchedFirstToo has two shapes that are limited to one slot in a rack. Each needs
// a slot on the only node of rack 1, which has room for both only if no large slot is there.
func TestShapesWithLittleRoomAreSearchedFirstToo(t *testing.T) {
	p := puzzle{
		nodes: []puzzleNode{
			{size: [2]int64{7, 6}}, {size: [2]int64{6, 6}, rack: 1}, {size: [2]int64{6, 13}},
			{size: [2]int64{5, 14}}, {size: [2]int64{13, 13}}, {size: [2]int64{9, 16}},
		},
		shapes: []puzzleShape{
			{need: [2]int64{1, 0}, count: 2, perRack: 1}, {need: [2]int64{0, 3}, count: 3}, {need: [2]int64{2, 2}, count: 3},
			{need: [2]int64{5, 1}, count: 2}, {need: [2]int64{1, 2}, count: 2, perRack: 1},
		},
	}
	for i := range p.shapes {
		p.shapes[i].ruledOut, p.shapes[i].ruledOutNow = -1, -1
	}
	a, err := p.pose(t)
	if err != nil {
		t.Fatalf("Match() = %v, though there is a way", err)
	}
	if bad := p.check(a); bad != nil {
		t.Errorf("placed %s: %v", written(a.Slots), bad)
	}
}

// TestAgainstReferenceSearch compares the engine with the reference search: what fits is placed, and
// what is refused for good does not fit.
func TestAgainstReferenceSearch(t *testing.T) {
	seed := trials.Seed(t)
	var found, missed, refused, wrong, never, open int
	begin, slowest := time.Now(), time.Duration(0)
	instances := uint64(trials.Count(6000))
	for i := range instances {
		if trials.Usual() && time.Since(begin) > testTime {
			t.Logf("stopped after %d of %d instances", i, instances)
			break
		}
		p := largePuzzle(rand.New(rand.NewPCG(seed+i, 3)))
		a, took, err := p.timed(t, newEngine(t))
		slowest = max(slowest, took)
		var refusal *match.Refusal
		switch way := p.possible(modelView{up: true, now: true}); {
		case err == nil && way:
			found++
			if bad := p.check(a); bad != nil {
				t.Errorf("-seed=%d -trials=1: placed %s: %v", seed+i, written(a.Slots), bad)
			}
			continue
		case err == nil:
			t.Fatalf("-seed=%d -trials=1: placed %s, though there is no way", seed+i, written(a.Slots))
		case !errors.As(err, &refusal):
			t.Fatalf("-seed=%d -trials=1: Match() = %v", seed+i, err)
		case way:
			missed++
			t.Errorf("-seed=%d -trials=1: Match() = %v, though there is a way", seed+i, err)
		default:
			refused++
		}
		switch unsatisfiable, ever := errors.Is(err, match.ErrUnsatisfiable), p.possible(modelView{empty: true}); {
		case unsatisfiable && ever:
			wrong++
			t.Errorf("-seed=%d -trials=1: Match() = %v, though there is a way in the empty graph", seed+i, err)
		case unsatisfiable:
			never++
		case !ever || refusal.Reason.Code == match.NotFound:
			open++
		}
	}
	t.Logf("with a way: found %d, missed %d; with none: refused %d, of these for good %d, for good though they would fit %d, not known to be impossible %d; slowest %v",
		found, missed, refused, never, wrong, open, slowest)
	if found == 0 || never == 0 || refused == never {
		t.Error("the instances show too little")
	}
}
