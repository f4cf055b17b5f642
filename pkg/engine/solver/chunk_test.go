package solver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/test/trials"
)

// randomLayout returns a layout of several chunks of random nodes, and of two shapes.
func randomLayout(r *rand.Rand) *Layout {
	const nodes, needs = 3*chunkNodes + 5, 3
	p := &Problem{Up: make([]bool, nodes), Exclusivities: make([]Exclusivity, nodes), Needs: make([]Need, needs)}
	for at := range nodes {
		p.Order = append(p.Order, int32(at))
		p.Up[at] = r.IntN(10) > 0
		p.Exclusivities[at].Holders = int32(max(0, r.IntN(20)-18))
	}
	r.Shuffle(nodes, func(i, j int) { p.Order[i], p.Order[j] = p.Order[j], p.Order[i] })
	for k := range p.Needs {
		for range 1 + r.IntN(2) {
			p.Needs[k].Columns = append(p.Needs[k].Columns, &Column{Capacity: make([]int64, nodes), Free: make([]int64, nodes)})
		}
		for at := range nodes {
			c := p.Needs[k].Columns[r.IntN(len(p.Needs[k].Columns))]
			c.Capacity[at] = r.Int64N(30)
			c.Free[at] = r.Int64N(c.Capacity[at] + 1)
		}
	}
	for range 2 {
		s := Shape{AmountPerSlot: make([]int64, needs)}
		for k := range needs {
			if k == 0 || r.IntN(2) == 0 {
				s.AmountPerSlot[k] = 1 + r.Int64N(8)
				s.NeedsInOrder = append(s.NeedsInOrder, k)
			}
		}
		p.Shapes = append(p.Shapes, s)
	}
	w := &Workspace{}
	w.Begin(context.Background(), 1<<30)
	return New(w, p)
}

// TestChunksCountAndMeasureAsIfSlotsWerePlaced compares what is counted and measured without
// placing slots with what is left after they are placed.
func TestChunksCountAndMeasureAsIfSlotsWerePlaced(t *testing.T) {
	for seed := range trials.Seeds(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			b := randomLayout(r)
			for _, v := range []View{ViewNow, ViewUp, ViewEver} {
				b.start(v)
				b.fill(0, r.Int64N(300))
				want := 1 + r.Int64N(400)
				count := newChunk(b, 1).count(want)
				measured := b.Survey().measure(1, count)
				if placed := b.fill(1, want); placed != count {
					t.Fatalf("%d slots are counted, and %d placed, of %d", count, placed, want)
				}
				after := b.Survey().measure(1, 0)
				if diff := cmp.Diff(after, measured); diff != "" {
					t.Fatalf("measured without placing %d slots, and after (-): %s", count, diff)
				}
				if diff := cmp.Diff(b.measureOneByOne(1), after); diff != "" {
					t.Fatalf("measured node by node (-) and in chunks: %s", diff)
				}
			}
		})
	}
}

// measureOneByOne is a simple form of measure.
func (b *Layout) measureOneByOne(s int) Measurement {
	var f Measurement
	for _, k := range b.shapes[s].NeedsInOrder {
		f.Needs = append(f.Needs, NeedMeasurement{Need: k, Wanted: b.shapes[s].AmountPerSlot[k]})
	}
	for i := range b.order {
		if !b.isUsable(s, i) {
			continue
		}
		f.Usable++
		fits := true
		for j := range f.Needs {
			m := &f.Needs[j]
			have := b.row(i)[m.Need]
			if m.Max = max(m.Max, have); have < m.Wanted {
				m.Nodes++
				m.MaxShort = max(m.MaxShort, have)
				fits = false
			}
		}
		f.Fit = f.Fit || fits
	}
	return f
}
