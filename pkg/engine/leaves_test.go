package engine_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// sockets returns the node n1 with two sockets. Each socket has two cores and one pool of memory.
func sockets() *resource.Graph {
	g := matchtest.Node("n1", nil)
	node := len(g.Vertices) - 1
	add := func(parent int, kind string, id, size int64) int {
		at := len(g.Vertices)
		g.Vertices = append(g.Vertices, resource.Vertex{Type: kind, ID: id, Rank: resource.NoRank, Size: size})
		g.Edges = append(g.Edges, resource.Edge{Source: parent, Target: at})
		return at
	}
	for i := range int64(2) {
		socket := add(node, "socket", i, 1)
		add(socket, "core", 2*i, 1)
		add(socket, "core", 2*i+1, 1)
		add(socket, "memory", i, 10)
	}
	return g
}

// shares renders a set, vertex by vertex.
func shares(r *resource.Set) []string {
	var out []string
	for _, v := range r.Vertices {
		out = append(out, fmt.Sprintf("%s=%d", v.Path, v.Amount))
	}
	return out
}

var (
	core   = func(n int64) matchtest.Pool { return matchtest.Pool{Type: "core", Amount: n} }
	memory = func(n int64) matchtest.Pool { return matchtest.Pool{Type: "memory", Amount: n} }
)

func TestLeavesOfOneTypeMakeOnePool(t *testing.T) {
	d := &driver{e: newEngine(t)}
	d.load(t, sockets())
	first := d.match(t, 1, matchtest.Slots("a", 1, core(1), memory(4)))
	want := []string{
		"/cluster0/n1/socket0/core0=1", "/cluster0/n1/socket0/memory0=4",
		"/cluster0/n1/socket0=1", "/cluster0/n1=1",
	}
	if diff := cmp.Diff(want, shares(first.Slots[0].R)); diff != "" {
		t.Errorf("the first slot differs (-want +got):\n%s", diff)
	}
	second := d.match(t, 2, matchtest.Slots("a", 1, core(2), memory(10)))
	want = []string{
		"/cluster0/n1/socket0/core1=1", "/cluster0/n1/socket1/core2=1",
		"/cluster0/n1/socket0/memory0=6", "/cluster0/n1/socket1/memory1=4",
		"/cluster0/n1/socket0=1", "/cluster0/n1/socket1=1", "/cluster0/n1=1", "/cluster0=1",
	}
	if diff := cmp.Diff(want, shares(second.R)); diff != "" {
		t.Errorf("the second job differs (-want +got):\n%s", diff)
	}
	third := d.match(t, 3, matchtest.Slots("a", 1, core(1), memory(6)))
	want = []string{"/cluster0/n1/socket1/core3=1", "/cluster0/n1/socket1/memory1=6", "/cluster0/n1/socket1=1", "/cluster0/n1=1"}
	if diff := cmp.Diff(want, shares(third.Slots[0].R)); diff != "" {
		t.Errorf("the third slot differs (-want +got):\n%s", diff)
	}
}

func TestSlotsOfOneJobDoNotShareALeafBeyondItsSize(t *testing.T) {
	for name, op := range map[string]match.Op{
		"allocated": match.Allocate, "tried": match.WithoutAllocating, "satisfiable": match.Satisfiability,
	} {
		t.Run(name, func(t *testing.T) {
			d := &driver{e: newEngine(t)}
			d.load(t, sockets())
			if op == match.Satisfiability {
				d.match(t, 9, matchtest.Slots("a", 1, core(3), memory(15)))
			}
			r := d.request(1, matchtest.Slots("a", 2, core(2), memory(7)))
			r.Op = op
			a, err := d.e.Match(t.Context(), r)
			if err != nil {
				t.Fatalf("Match() = %v", err)
			}
			want := []string{
				"/cluster0/n1/socket0/core0=1", "/cluster0/n1/socket0/core1=1", "/cluster0/n1/socket0/memory0=10",
				"/cluster0/n1/socket1/core2=1", "/cluster0/n1/socket1/core3=1", "/cluster0/n1/socket1/memory1=4",
			}
			got := make(map[string]bool)
			for _, s := range shares(a.R) {
				got[s] = true
			}
			for _, s := range want {
				if !got[s] {
					t.Errorf("the whole is %v, want %s in it", shares(a.R), s)
				}
			}
		})
	}
}

// TestHeldLeavesSurviveANodeMove books by path and by type, moves the node, and checks which
// leaves are left.
func TestHeldLeavesSurviveANodeMove(t *testing.T) {
	d := &driver{e: newEngine(t)}
	d.load(t, sockets())
	byPath := match.Slot{Key: "p", Node: "n1", R: &resource.Set{Vertices: []resource.Share{{
		Vertex: resource.Vertex{Type: "core", Name: "core0", Path: "/cluster0/n1/socket0/core0"},
		Amount: 1,
	}}}}
	byType := matchtest.Held("t", "n1", core(2))
	if err := d.e.Update(t.Context(), d.epoch, match.Job{ID: 1, Slots: []match.Slot{byType, byPath}}); err != nil {
		t.Fatalf("Update() = %v", err)
	}
	moved := sockets()
	rack := len(moved.Vertices)
	moved.Vertices = append(moved.Vertices, resource.Vertex{Type: "rack", Name: "r1", Size: 1})
	moved.Edges[0] = resource.Edge{Source: 0, Target: rack}
	moved.Edges = append(moved.Edges, resource.Edge{Source: rack, Target: 1})
	for i := range moved.Vertices {
		moved.Vertices[i].Path = ""
	}
	for range 2 {
		left := d.match(t, 2, matchtest.Slots("a", 1, core(1)))
		if got := left.Slots[0].R.Vertices[0].Name; got != "core3" {
			t.Errorf("the core left is %s, want core3", got)
		}
		if err := d.e.Release(t.Context(), d.epoch, 2); err != nil {
			t.Fatalf("Release() = %v", err)
		}
		if err := d.e.PutNode(t.Context(), d.epoch, moved); err != nil {
			t.Fatalf("PutNode() = %v", err)
		}
	}
}

// TestOverbookedSlotsMoveToReleasedLeaves holds five of four cores, one of them by its path, and
// releases that one. The others then fill all four.
func TestOverbookedSlotsMoveToReleasedLeaves(t *testing.T) {
	d := &driver{e: newEngine(t)}
	d.load(t, sockets())
	d.match(t, 1, matchtest.Slots("a", 1, core(1)))
	if err := d.e.Update(t.Context(), d.epoch, match.Job{ID: 2, Slots: []match.Slot{matchtest.Held("x", "n1", core(4))}}); err != nil {
		t.Fatalf("Update() = %v", err)
	}
	if err := d.e.Release(t.Context(), d.epoch, 1); err != nil {
		t.Fatalf("Release() = %v", err)
	}
	if a, err := d.e.Match(t.Context(), d.request(3, matchtest.Slots("a", 1, core(1)))); !errors.Is(err, match.ErrBusy) {
		t.Errorf("Match() = %v, %v, want the error %q", a, err, match.ErrBusy)
	}
}

// TestAnUpdateByWhatAMatchGaveIsNoChange updates a slot with exactly what a match gave out,
// including the vertices between the node and its leaves.
func TestAnUpdateByWhatAMatchGaveIsNoChange(t *testing.T) {
	d := &driver{e: newEngine(t)}
	d.load(t, sockets())
	js := matchtest.Slots("a", 2, core(2), memory(7))
	given := d.match(t, 1, js)
	if err := d.e.Update(t.Context(), d.epoch, match.Job{ID: 1, Slots: given.Slots}); err != nil {
		t.Fatalf("Update() = %v", err)
	}
	if diff := cmp.Diff(given, d.match(t, 1, js)); diff != "" {
		t.Errorf("the repeat differs (-given +again):\n%s", diff)
	}
}

func TestALeafThatIsDownIsNotGivenOut(t *testing.T) {
	d := &driver{e: newEngine(t)}
	g := sockets()
	for i := range g.Vertices {
		if v := &g.Vertices[i]; v.Type == "core" && v.ID < 3 {
			v.Status = resource.Down
		}
	}
	d.load(t, g)
	a := d.match(t, 1, matchtest.Slots("a", 1, core(1)))
	if got := a.Slots[0].R.Vertices[0].Name; got != "core3" {
		t.Errorf("given out is %s, want core3, the only one that is up", got)
	}
	r := d.request(2, matchtest.Slots("a", 1, core(4)))
	r.Op = match.Satisfiability
	if _, err := d.e.Match(t.Context(), r); err != nil {
		t.Errorf("Match() = %v, want it to be satisfiable: the others may come back", err)
	}
}

// TestAnUpdateToAnotherLeafIsAChange moves a slot from one core of a node to another.
func TestAnUpdateToAnotherLeafIsAChange(t *testing.T) {
	d := &driver{e: newEngine(t)}
	d.load(t, sockets())
	js := matchtest.Slots("a", 1, core(1))
	given := d.match(t, 1, js)
	for path, left := range map[string]string{
		"/cluster0/n1/socket1/core2": "core0",
		"/cluster0/n1/socket0/core0": "core1",
	} {
		slot := match.Slot{Key: "0", Node: "n1", R: &resource.Set{Vertices: []resource.Share{{
			Vertex: resource.Vertex{Type: "core", Name: "core", Path: path}, Amount: 1,
		}}}}
		if err := d.e.Update(t.Context(), d.epoch, match.Job{ID: 1, Slots: []match.Slot{slot}}); err != nil {
			t.Fatalf("Update() = %v", err)
		}
		r := d.request(2, js)
		r.Op = match.WithoutAllocating
		a, err := d.e.Match(t.Context(), r)
		if err != nil {
			t.Fatalf("Match() = %v", err)
		}
		if got := a.Slots[0].R.Vertices[0].Name; got != left {
			t.Errorf("with %s held the next core is %s, want %s", path, got, left)
		}
	}
	if again := d.match(t, 1, js); again.Slots[0].Label != given.Slots[0].Label {
		t.Errorf("the slot has the label %q, want %q", again.Slots[0].Label, given.Slots[0].Label)
	}
}

func TestExpectedSlotsAreUndone(t *testing.T) {
	d := &driver{e: newEngine(t)}
	d.load(t, sockets())
	d.match(t, 1, matchtest.Slots("a", 1, core(1), memory(4)))
	r := d.request(2, matchtest.Slots("a", 1, core(1), memory(2)))
	r.Expected = []match.Slot{matchtest.Held("x", "n1", core(1), memory(6))}
	second, err := d.e.Match(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	// The expected slot takes what the first job left in the first socket.
	want := []string{
		"/cluster0/n1/socket1/core2=1", "/cluster0/n1/socket1/memory1=2",
		"/cluster0/n1/socket1=1", "/cluster0/n1=1",
	}
	if diff := cmp.Diff(want, shares(second.Slots[0].R)); diff != "" {
		t.Errorf("the slot differs (-want +got):\n%s", diff)
	}
	third := d.match(t, 3, matchtest.Slots("a", 1, core(2), memory(14)))
	want = []string{
		"/cluster0/n1/socket0/core1=1", "/cluster0/n1/socket1/core3=1",
		"/cluster0/n1/socket0/memory0=6", "/cluster0/n1/socket1/memory1=8",
		"/cluster0/n1/socket0=1", "/cluster0/n1/socket1=1", "/cluster0/n1=1",
	}
	if diff := cmp.Diff(want, shares(third.Slots[0].R)); diff != "" {
		t.Errorf("the slot differs (-want +got):\n%s", diff)
	}
}
