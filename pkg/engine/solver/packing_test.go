package solver

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flux-k8s/fluence/test/trials"
)

// randomPacking draws classes of nodes with patterns. In half of the cases
// the request is exact: it wants just the slots of one pattern per node.
func randomPacking(r *rand.Rand) *packing {
	width := 2 + r.IntN(3)
	p := &packing{Layout: &Layout{Workspace: &Workspace{}}, width: width, want: make([]int64, width), countBudget: 1 << 30, allListed: true, rand: r}
	p.Begin(context.Background(), 1<<40)
	exact := r.IntN(2) == 0
	for range 1 + r.IntN(4) {
		k := nodeClass{nodes: make([]int, 1+r.IntN(2))}
		for range 1 + r.IntN(6) {
			for range width {
				k.patterns = append(k.patterns, int32(r.IntN(4)))
			}
		}
		p.classes = append(p.classes, k)
		p.used = append(p.used, make([]int32, len(k.patterns)/width))
		for range k.nodes {
			for s, n := range p.pattern(len(p.classes)-1, r.IntN(len(p.used[len(p.used)-1]))) {
				p.want[s] += int64(n)
			}
		}
	}
	for s := range p.want {
		if !exact {
			p.want[s] += int64(r.IntN(3)) - 1
		}
		p.want[s] = max(1, p.want[s])
	}
	p.short = slices.Clone(p.want)
	return p
}

// hasSolutionByBruteForce reports whether some choice of one pattern
// per node has all wanted slots. It tries every choice.
func (p *packing) hasSolutionByBruteForce(k, nth int, left []int64) bool {
	switch {
	case k == len(p.classes):
		return slices.Max(left) <= 0
	case nth == len(p.classes[k].nodes):
		return p.hasSolutionByBruteForce(k+1, 0, left)
	}
	for q := range p.used[k] {
		rest := slices.Clone(left)
		for s, n := range p.pattern(k, q) {
			rest[s] -= int64(n)
		}
		if p.hasSolutionByBruteForce(k, nth+1, rest) {
			return true
		}
	}
	return false
}

// isValidSolution reports whether every node has one pattern,
// and all patterns together have the wanted slots.
func (p *packing) isValidSolution() bool {
	left := slices.Clone(p.want)
	for k := range p.classes {
		nodes := 0
		for q, n := range p.used[k] {
			nodes += int(n)
			for s, count := range p.pattern(k, q) {
				left[s] -= int64(n) * int64(count)
			}
		}
		if nodes != len(p.classes[k].nodes) {
			return false
		}
	}
	return slices.Max(left) <= 0
}

// TestBranchAndBoundAndDualBoundsAreRight compares each algorithm by itself with the trying
// of all choices. Branch and bound must find a solution exactly if there is
// one, also in several turns and while prices change. The dual bound must not
// exclude a solution that exists. Tabu search must find only valid solutions.
func TestBranchAndBoundAndDualBoundsAreRight(t *testing.T) {
	ways, none, priced, exchanged := 0, 0, 0, 0
	for seed := range trials.Seeds(20_000) {
		p := randomPacking(rand.New(rand.NewPCG(seed, 5)))
		way := p.hasSolutionByBruteForce(0, 0, p.want)
		first := make([]float64, p.width)
		for s := range first {
			first[s] = 1
		}
		m := p.newDualBound(first)
		tour := (*branchAndBound)(nil)
		found, proven := false, false
		for turn := 1; !found && !proven; turn *= 2 {
			if m.run(1) {
				if priced++; way {
					t.Fatalf("seed %d: by prices there is no way, though there is one", seed)
				}
			}
			if tour == nil {
				tour = p.newBranchAndBound()
			}
			found, proven = tour.run(turn)
		}
		if found != way || found && !p.isValidSolution() {
			t.Fatalf("seed %d: a tour found %v, of %+v, want %v", seed, found, p.used, way)
		}
		for k := range p.used {
			clear(p.used[k])
		}
		p.startGreedily()
		if p.newTabuSearch().run(20_000) {
			if exchanged++; !way || !p.isValidSolution() {
				t.Fatalf("seed %d: exchanges found %+v, want a way %v", seed, p.used, way)
			}
		}
		if way {
			ways++
		} else {
			none++
		}
	}
	t.Logf("a way %d, found by exchanges %d; none %d, by prices in %d turns", ways, exchanged, none, priced)
	if n := trials.Count(20_000); 10*ways < n || 10*none < n || 40*priced < n || exchanged < ways*9/10 {
		t.Error("the packings show too little")
	}
}
