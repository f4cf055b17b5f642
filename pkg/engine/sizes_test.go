package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A sizeStep is a call, and the sizes of the engine after it.
type sizeStep struct {
	name               string
	call               func() error
	jobs, slots, nodes int
	ready              bool
}

func (d *driver) sized(t *testing.T, steps []sizeStep) {
	t.Helper()
	for _, s := range steps {
		if err := s.call(); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		if jobs, slots, nodes, ready := d.e.Sizes(); jobs != s.jobs || slots != s.slots || nodes != s.nodes || ready != s.ready {
			t.Errorf("%s: %d jobs, %d slots and %d nodes, ready %v, want %d, %d, %d and %v",
				s.name, jobs, slots, nodes, ready, s.jobs, s.slots, s.nodes, s.ready)
		}
	}
}

func (d *driver) begin(t *testing.T) func() error {
	return func() (err error) {
		d.epoch, err = d.e.Reset(t.Context())
		return err
	}
}

// matchCall matches a job of this number of slots of one core.
func (d *driver) matchCall(t *testing.T, op match.Op, id match.JobID, slots int64) func() error {
	return func() error {
		r := d.request(id, matchtest.Slots("a", slots, matchtest.Pool{Type: "core", Amount: 1}))
		r.Op, r.Duration = op, time.Hour
		_, err := d.e.Match(t.Context(), r)
		return err
	}
}

func TestSizesFollowTheCalls(t *testing.T) {
	d := &driver{e: newEngine(t)}
	ctx := t.Context()
	node := func(name string) *resource.Graph { return matchtest.Node(name, nil, core(4)) }
	held := []match.Slot{matchtest.Held("a", "n", core(1)), matchtest.Held("b", "n", core(1))}
	put := func(names ...string) func() error {
		return func() error {
			for _, name := range names {
				if err := d.e.PutNode(ctx, d.epoch, node(name)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	remove := func(name string) func() error { return func() error { return d.e.RemoveNode(ctx, d.epoch, name) } }
	release := func(id match.JobID, keys ...string) func() error {
		return func() error { return d.e.Release(ctx, d.epoch, id, keys...) }
	}
	update := func(j match.Job) func() error { return func() error { return d.e.Update(ctx, d.epoch, j) } }
	d.sized(t, []sizeStep{
		{"an epoch", d.begin(t), 0, 0, 0, false},
		{"two nodes", put("n", "m"), 0, 0, 2, false},
		{"a node again", put("n"), 0, 0, 2, false},
		{"the graph is loaded", func() error { return d.e.Ready(ctx, d.epoch) }, 0, 0, 2, true},
		{"a node goes", remove("m"), 0, 0, 1, true},
		{"a node that is not there goes", remove("x"), 0, 0, 1, true},
		{"a job", d.matchCall(t, match.Allocate, 1, 2), 1, 2, 1, true},
		{"the job again", d.matchCall(t, match.Allocate, 1, 2), 1, 2, 1, true},
		{"a question", d.matchCall(t, match.WithoutAllocating, 2, 2), 1, 2, 1, true},
		{"another question", d.matchCall(t, match.Satisfiability, 2, 2), 1, 2, 1, true},
		{"a job of the cluster", update(match.Job{ID: 3, Slots: held[:1]}), 2, 3, 1, true},
		{"a job of nothing", update(match.Job{ID: 4}), 2, 3, 1, true},
		{"one of two slots is released", release(1, "0"), 2, 2, 1, true},
		{"so is the other", release(1, "1"), 1, 1, 1, true},
		{"a job is released whole", release(3), 0, 0, 1, true},
		{"a job that holds nothing is released", release(3, "a"), 0, 0, 1, true},
		{"a job of all there is", d.matchCall(t, match.Allocate, 7, 4), 1, 4, 1, true},
		{"a reservation", d.matchCall(t, match.AllocateOrElseReserve, 8, 2), 1, 4, 1, true},
		{"a reservation of the cluster", update(match.Job{ID: 9, Reserved: true, Start: matchtest.Now, Slots: held}), 1, 4, 1, true},
		{"a slot that stands elsewhere now", update(match.Job{ID: 7, Slots: []match.Slot{matchtest.Held("0", "n", core(3))}}), 1, 4, 1, true},
		{"a slot at a name that is no node", update(match.Job{ID: 10, Slots: []match.Slot{matchtest.Held("0", "x", core(3))}}), 2, 5, 1, true},
		{"all nodes go", remove("n"), 2, 5, 0, true},
		{"a new epoch", d.begin(t), 0, 0, 0, false},
	})
}

func TestSizesFollowTheCallsWithGraphs(t *testing.T) {
	d := &driver{e: newEngine(t)}
	ctx := t.Context()
	numbers := int64(0)
	// add adds a rack for each name before a slash, with the node whose name follows the slash.
	add := func(nodes ...string) func() error {
		g := &resource.Graph{}
		root := g.Hang(-1, resource.Vertex{Type: resource.TypeCluster, Name: "c", Size: 1})
		racks := map[string]int{}
		for _, path := range nodes {
			rack, name, _ := strings.Cut(path, "/")
			if _, ok := racks[rack]; !ok {
				racks[rack] = g.Hang(root, resource.Vertex{Type: "rack", Name: rack, Size: 1})
			}
			at := g.Hang(racks[rack], resource.Vertex{Type: resource.TypeNode, Name: name, Size: 1})
			for i := range int64(4) {
				g.Hang(at, resource.Vertex{Type: "core", Name: fmt.Sprint("core", i), ID: i, Size: 1})
			}
		}
		for i := range g.Vertices {
			g.Vertices[i].UniqID = numbers
			numbers++
		}
		text, err := g.JGF()
		if err != nil {
			t.Fatal(err)
		}
		return func() error { return d.e.AddSubgraph(ctx, d.epoch, text) }
	}
	remove := func(path string) func() error { return func() error { return d.e.RemoveSubgraph(ctx, d.epoch, path) } }
	release := func(id match.JobID, keys ...string) func() error {
		return func() error { return d.e.Release(ctx, d.epoch, id, keys...) }
	}
	d.sized(t, []sizeStep{
		{"an epoch", d.begin(t), 0, 0, 0, false},
		{"a graph", add("r1/n1", "r10/n2"), 0, 0, 2, false},
		{"a graph with a node that is there", add("r1/n1", "r2/n3"), 0, 0, 3, false},
		{"the graph is loaded", func() error { return d.e.Ready(ctx, d.epoch) }, 0, 0, 3, true},
		{"a search", func() error { _, err := d.e.Find(ctx, d.epoch, "status=up", matchtest.Now); return err }, 0, 0, 3, true},
		{"a rack goes", remove("/c/r1"), 0, 0, 2, true},
		{"a node goes by its path", remove("/c/r10/n2"), 0, 0, 1, true},
		{"a job", d.matchCall(t, match.Allocate, 1, 3), 1, 3, 1, true},
		{"a question", d.matchCall(t, match.WithoutAllocating, 2, 1), 1, 3, 1, true},
		{"a reservation", d.matchCall(t, match.AllocateOrElseReserve, 2, 4), 1, 3, 1, true},
		{"a slot is released", release(1, "0"), 1, 2, 1, true},
		{"the job is released", release(1), 0, 0, 1, true},
		{"the reserved job is given what it waits for", d.matchCall(t, match.AllocateOrElseReserve, 2, 4), 1, 4, 1, true},
		{"a new epoch", d.begin(t), 0, 0, 0, false},
	})
}

func TestACallThatFailsChangesNoSize(t *testing.T) {
	d := &driver{e: newEngine(t)}
	d.load(t, matchtest.Node("n", nil, core(4)))
	d.match(t, 1, matchtest.Slots("a", 2, core(1)))
	if err := d.e.RemoveNode(t.Context(), d.epoch+1, "n"); err == nil {
		t.Fatal("a call of another epoch succeeded")
	}
	if err := d.matchCall(t, match.Allocate, 2, 64)(); err == nil {
		t.Fatal("64 cores of 4 were given out")
	}
	if jobs, slots, nodes, ready := d.e.Sizes(); jobs != 1 || slots != 2 || nodes != 1 || !ready {
		t.Errorf("%d jobs, %d slots and %d nodes, ready %v, want 1, 2, 1 and true", jobs, slots, nodes, ready)
	}
}

// TestSizesWaitForNobody checks that Sizes does not wait for other calls.
func TestSizesWaitForNobody(t *testing.T) {
	d := &driver{e: newEngine(t)}
	d.load(t, matchtest.Node("n", nil, core(4)))
	release := d.e.Hold()
	defer release()
	if _, _, nodes, ready := d.e.Sizes(); nodes != 1 || !ready {
		t.Errorf("%d nodes, ready %v, want 1 and true", nodes, ready)
	}
}

// TestALostGraphIsNotReady checks that after a panic the graph is lost, and that matches fail.
func TestALostGraphIsNotReady(t *testing.T) {
	d := &driver{e: newEngine(t)}
	d.load(t, matchtest.Node("n", nil, core(4)))
	d.e.Break()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the match did not panic")
			}
		}()
		_ = d.matchCall(t, match.Allocate, 1, 1)()
	}()
	if _, _, _, ready := d.e.Sizes(); ready {
		t.Error("a lost graph is ready")
	}
}
