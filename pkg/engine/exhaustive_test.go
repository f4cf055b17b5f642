package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/test/trials"
)

// A puzzle is an instance that is small enough to try every placement.
type puzzle struct {
	nodes  []puzzleNode
	shapes []puzzleShape
	// holder is the holder of the request, or empty.
	holder string
	// whole reports whether the request wants whole nodes.
	whole bool
}

type puzzleNode struct {
	size, held [2]int64
	rack       int
	down       bool
	// owner is the holder of what is held, or empty.
	owner string
	// shared reports whether what is held is Shared.
	shared bool
}

type puzzleShape struct {
	need  [2]int64
	count int64
	// ruledOut is a node that is excluded for good.
	// ruledOutNow is a node that is excluded for the present.
	ruledOut, ruledOutNow int
	// perRack is the maximum number of slots in a rack. Zero means no maximum.
	perRack int64
}

var puzzleKinds = [2]string{"core", "memory"}

func randomPuzzle(r *rand.Rand) puzzle {
	var p puzzle
	alike := r.IntN(2) == 0
	for i := range 1 + r.IntN(4) {
		n := puzzleNode{rack: r.IntN(2), down: r.IntN(6) == 0}
		for k := range n.size {
			n.size[k] = r.Int64N(9)
			n.held[k] = max(0, r.Int64N(2+n.size[k])-4)
		}
		if alike && i > 0 {
			n.size, n.held = p.nodes[0].size, p.nodes[0].held
		}
		switch r.IntN(6) {
		case 0:
			n.owner = "x"
		case 1:
			n.owner = "y"
		case 2, 3:
			n.shared = true
		}
		p.nodes = append(p.nodes, n)
	}
	for range 1 + r.IntN(3) {
		s := puzzleShape{count: 1 + r.Int64N(2), ruledOut: -1, ruledOutNow: -1}
		s.need = [2]int64{r.Int64N(5), r.Int64N(5)}
		if s.need == [2]int64{} {
			s.need[0] = 1
		}
		if r.IntN(4) == 0 {
			s.ruledOut = r.IntN(len(p.nodes))
		}
		if r.IntN(4) == 0 {
			s.ruledOutNow = r.IntN(len(p.nodes))
		}
		if r.IntN(5) == 0 {
			s.perRack = 1
		}
		p.shapes = append(p.shapes, s)
	}
	p.whole = r.IntN(3) == 0
	if p.whole || r.IntN(4) == 0 {
		p.holder = "x"
	}
	return p
}

func puzzleName(node int) string { return fmt.Sprintf("n%d", node) }

// pose loads the puzzle into an engine and makes the request.
func (p puzzle) pose(t *testing.T) (*match.Allocation, error) {
	t.Helper()
	a, _, err := p.timed(t, newEngine(t))
	return a, err
}

// timed poses the puzzle and returns the time of the match.
func (p puzzle) timed(t *testing.T, e *engine.Engine) (*match.Allocation, time.Duration, error) {
	t.Helper()
	d := &driver{e: e}
	var graphs []*resource.Graph
	var held []match.Slot
	for i, n := range p.nodes {
		g := matchtest.Node(puzzleName(i), [][2]string{{"rack", fmt.Sprintf("r%d", n.rack)}}, amountPools(n.size)...)
		if n.down {
			matchtest.WithStatus(g, resource.Down)
		}
		graphs = append(graphs, g)
		slot := matchtest.Held(fmt.Sprint(i), puzzleName(i), amountPools(n.held)...)
		slot.Holder, slot.Shared = n.owner, n.shared
		held = append(held, slot)
	}
	d.load(t, graphs...)
	if err := d.e.Update(t.Context(), d.epoch, match.Job{ID: 99, Slots: held}); err != nil {
		t.Fatalf("Update() = %v", err)
	}
	js := matchtest.Jobspec()
	for i, s := range p.shapes {
		label := fmt.Sprint(i)
		var need []matchtest.Pool
		for _, pool := range amountPools(s.need) {
			if pool.Amount > 0 {
				need = append(need, pool)
			}
		}
		js.Resources = append(js.Resources, matchtest.Slot(label, jobspec.Exactly(s.count), need...))
		var narrow jobspec.SlotAttributes
		if s.ruledOut >= 0 {
			narrow.Constraints = matchtest.Not(matchtest.Hosts(puzzleName(s.ruledOut)))
		}
		if s.ruledOutNow >= 0 {
			narrow.ConstraintsNow = matchtest.Not(matchtest.Hosts(puzzleName(s.ruledOutNow)))
		}
		if s.perRack > 0 {
			narrow.MaxPerLevel = map[string]int64{"rack": s.perRack}
		}
		matchtest.Constrain(js, label, narrow)
	}
	r := d.request(1, js)
	r.Holder = p.holder
	if p.whole {
		r.Policy = match.PolicyLonodex
	}
	begin := time.Now()
	a, err := d.e.Match(t.Context(), r)
	return a, time.Since(begin), err
}

func amountPools(amounts [2]int64) []matchtest.Pool {
	var out []matchtest.Pool
	for k, n := range amounts {
		out = append(out, matchtest.Pool{Type: puzzleKinds[k], Amount: n})
	}
	return out
}

// conflict reports whether another holder has a node as a whole, and otherwise whether others use it
// while whole nodes are wanted.
func (p puzzle) conflict(n puzzleNode) (whole, inUse bool) {
	whole = n.owner != "" && n.owner != p.holder
	return whole, p.whole && !whole && n.owner == "" && !n.shared
}

// A modelView selects what counts when a puzzle is tried.
type modelView struct{ empty, up, now bool }

// fits tries every node for every slot. The slots of one shape are equal, so each slot begins at
// the node of the one before.
func (p puzzle) fits(view modelView) bool {
	left := make([][2]int64, len(p.nodes))
	for i, n := range p.nodes {
		left[i] = n.size
		if !view.empty || n.shared {
			left[i][0], left[i][1] = max(0, n.size[0]-n.held[0]), max(0, n.size[1]-n.held[1])
		}
	}
	racks := make(map[[2]int]int64)
	var try func(shape int, nth int64, from int) bool
	try = func(shape int, nth int64, from int) bool {
		if shape == len(p.shapes) {
			return true
		}
		s := p.shapes[shape]
		if nth == s.count {
			return try(shape+1, 0, 0)
		}
		for i := from; i < len(p.nodes); i++ {
			n := p.nodes[i]
			rack := [2]int{shape, n.rack}
			if whole, inUse := p.conflict(n); !view.empty && (whole || inUse) {
				continue
			}
			if view.up && n.down || i == s.ruledOut || view.now && i == s.ruledOutNow ||
				left[i][0] < s.need[0] || left[i][1] < s.need[1] || s.perRack > 0 && racks[rack] == s.perRack {
				continue
			}
			left[i][0] -= s.need[0]
			left[i][1] -= s.need[1]
			racks[rack]++
			if try(shape, nth+1, i) {
				return true
			}
			left[i][0] += s.need[0]
			left[i][1] += s.need[1]
			racks[rack]--
		}
		return false
	}
	return try(0, 0, 0)
}

// most returns the number of slots of the first shape that fit.
func (p puzzle) most(view modelView) int64 {
	alone := p
	alone.shapes = slices.Clone(p.shapes[:1])
	for n := int64(0); ; n++ {
		alone.shapes[0].count = n + 1
		if !alone.fits(view) {
			return n
		}
	}
}

// countConflicts counts the nodes that the first shape could use if others did not have them. It returns
// 0 unless the verdict is about the present.
func (p puzzle) countConflicts(no *match.Refusal) (whole, inUse int64) {
	if no.Reason.Code != match.TooFew || !errors.Is(no, match.ErrBusy) {
		return 0, 0
	}
	for i, n := range p.nodes {
		if n.down || i == p.shapes[0].ruledOut || i == p.shapes[0].ruledOutNow {
			continue
		}
		switch w, u := p.conflict(n); {
		case w:
			whole++
		case u:
			inUse++
		}
	}
	return whole, inUse
}

// check checks a placement against the puzzle.
func (p puzzle) check(a *match.Allocation) error {
	used := make(map[string][2]int64)
	counts := make(map[string]int64)
	for _, slot := range a.Slots {
		var shape, node int
		if _, err := fmt.Sscan(slot.Label+" "+slot.Node[1:], &shape, &node); err != nil {
			return err
		}
		s, n := p.shapes[shape], p.nodes[node]
		if n.down || node == s.ruledOut || node == s.ruledOutNow {
			return fmt.Errorf("slot %s of %s may not stand on %s", slot.Key, slot.Label, slot.Node)
		}
		if whole, inUse := p.conflict(n); whole || inUse || p.whole != (slot.Holder != "") || slot.Shared {
			return fmt.Errorf("slot %s of %q stands on %s, which is others' %v, in use %v", slot.Key, slot.Holder, slot.Node, whole, inUse)
		}
		held, u := matchtest.Amounts(slot.R), used[slot.Node]
		for k, kind := range puzzleKinds {
			if held[kind] != s.need[k] {
				return fmt.Errorf("slot %s of %s holds %v", slot.Key, slot.Label, held)
			}
			u[k] += s.need[k]
			if s.need[k] > 0 && u[k] > n.size[k]-n.held[k] {
				return fmt.Errorf("node %s is overbooked", slot.Node)
			}
		}
		used[slot.Node] = u
		counts[slot.Label]++
		rack := fmt.Sprintf("%s in %d", slot.Label, n.rack)
		if counts[rack]++; s.perRack > 0 && counts[rack] > s.perRack {
			return fmt.Errorf("%d slots of %s", counts[rack], rack)
		}
	}
	for i, s := range p.shapes {
		if counts[fmt.Sprint(i)] != s.count {
			return fmt.Errorf("%d slots of %d, want %d", counts[fmt.Sprint(i)], i, s.count)
		}
	}
	return nil
}

// TestAgainstBruteForce compares the engine with a simple exhaustive search.
func TestAgainstBruteForce(t *testing.T) {
	verdicts := make(map[string]int)
	for seed := range trials.Seeds(4000) {
		p := randomPuzzle(rand.New(rand.NewPCG(seed, 1)))
		a, err := p.pose(t)
		var refusal *match.Refusal
		switch {
		case err == nil:
			verdicts["placed"]++
			if bad := p.check(a); bad != nil {
				t.Errorf("seed %d, %+v: placed %s: %v", seed, p, written(a.Slots), bad)
			}
			continue
		case !errors.As(err, &refusal):
			t.Fatalf("seed %d, %+v: Match() = %v", seed, p, err)
		}
		r := refusal.Reason
		verdicts[fmt.Sprintf("%v %s", refusal.Err, r.Code)]++
		if p.fits(modelView{up: true, now: true}) {
			t.Errorf("seed %d, %+v: Match() = %v, though there is a placement", seed, p, err)
		}
		if r.Code == match.NotFound {
			t.Errorf("seed %d, %+v: Match() = %v, of so few nodes", seed, p, err)
		}
		if never, want := errors.Is(err, match.ErrUnsatisfiable), !p.fits(modelView{empty: true}); never != want {
			t.Errorf("seed %d, %+v: Match() = %v, want never %v", seed, p, err, want)
		}
		if want := p.fits(modelView{empty: true, up: true}); r.WaitingHelps != want {
			t.Errorf("seed %d, %+v: Match() = %v, waiting helps %v, want %v", seed, p, err, r.WaitingHelps, want)
		}
		view := modelView{up: true, now: true}
		if errors.Is(err, match.ErrUnsatisfiable) {
			view = modelView{empty: true}
		}
		if want := p.most(view); len(p.shapes) == 1 && r.Found != want {
			t.Errorf("seed %d, %+v: Match() = %v, want %d found", seed, p, err, want)
		}
		if whole, inUse := p.countConflicts(refusal); len(p.shapes) == 1 && (r.OtherHolder != whole || r.InUse != inUse) {
			t.Errorf("seed %d, %+v: Match() = %v, want %d others' and %d in use", seed, p, err, whole, inUse)
		}
		if r.Found >= r.Wanted {
			t.Errorf("seed %d, %+v: found %d of %d and refused", seed, p, r.Found, r.Wanted)
		}
	}
	if len(verdicts) < 6 {
		t.Errorf("the puzzles came to no more than %v", verdicts)
	}
	t.Logf("verdicts: %v", verdicts)
}
