package fluxion_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/sidecar/fluxion"
	"github.com/flux-k8s/fluence/sidecar/fluxion/reapitest"
)

// pools returns n pools of types that no other pool has.
func pools(prefix string, n int) []matchtest.Pool {
	all := make([]matchtest.Pool, n)
	for i := range all {
		all[i] = matchtest.Pool{Type: fmt.Sprintf("%s-%d-kind", prefix, i), Amount: 1}
	}
	return all
}

// In release 0.54.0 the first graph of a process fixes the names of all types. Types and levels that
// come later must load nevertheless, and be told by their own names.
func TestTypesAndLevelsThatComeLater(t *testing.T) {
	everyRelease(t, func(t *testing.T, release reapitest.Release) {
		fpga := matchtest.Pool{Type: "fpga", Amount: 2}
		r := newRig(t, release, matchtest.Node("a", nil, matchtest.Cores(4)))
		r.places(t, 1, cores(1), "a")
		r.put(t, matchtest.Node("b", [][2]string{{"zone", "z"}, {"rack", "r"}}, matchtest.Cores(4), matchtest.Memory(1), fpga))
		a := r.places(t, 2, matchtest.Slots("w", 2, matchtest.Pool{Type: fpga.Type, Amount: 1}), "b b")
		if got := matchtest.Amounts(a.R)[fpga.Type]; got != 2 {
			t.Errorf("the answer has %d of %s, want 2: %v", got, fpga.Type, matchtest.Amounts(a.R))
		}
		reason := r.refuses(t, 3, matchtest.Slots("w", 1, matchtest.Pool{Type: fpga.Type, Amount: 1}), match.ErrBusy)
		if len(reason.Shortages) != 1 || reason.Shortages[0].Type != fpga.Type {
			t.Errorf("the refusal names %+v, want %s", reason.Shortages, fpga.Type)
		}
		nodes, err := r.Nodes(t.Context(), r.epoch, "b", 1)
		if err != nil || len(nodes) != 1 {
			t.Fatalf("Nodes() = %v, %v", nodes, err)
		}
		if !slices.ContainsFunc(nodes[0].Graph.Vertices, func(v resource.Vertex) bool { return v.Type == fpga.Type }) {
			t.Errorf("the list of b lacks %s", fpga.Type)
		}
		r.loads(t, 1) // The graph of one node does not count.
	})
}

func TestATypeBeyondTheSupplyIsInvalidAndChangesNothing(t *testing.T) {
	r := newRig(t, reapitest.V054, append(four(), matchtest.Node("c", nil, append(pools("x", 64), matchtest.Cores(1), matchtest.GPUs(1), matchtest.Pods(3))...))...)
	before, err := r.Nodes(t.Context(), r.epoch, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	one := matchtest.Node("d", nil, matchtest.Pool{Type: "one-more", Amount: 1})
	err = r.PutNode(t.Context(), r.epoch, matchtest.Node("e", nil, matchtest.Cores(1)), one)
	if !errors.Is(err, match.ErrInvalid) || !strings.Contains(err.Error(), `"d": type "one-more"`) || !strings.Contains(err.Error(), "64 types") {
		t.Errorf("PutNode() = %v, want the error %q with the type and the number", err, match.ErrInvalid)
	}
	if after, err := r.Nodes(t.Context(), r.epoch, "", 10); err != nil || len(after) != len(before) {
		t.Errorf("Nodes() = %d nodes, %v, want %d", len(after), err, len(before))
	}
	if err := r.PutNode(t.Context(), r.epoch+1, one); !errors.Is(err, match.ErrStale) {
		t.Errorf("PutNode() of another epoch = %v, want the error %q", err, match.ErrStale)
	}
	r.put(t, matchtest.Node("d", nil, pools("x", 64)...))
	r.places(t, 1, matchtest.Slots("w", 2, pools("x", 64)[63]), "c d")
}

func TestLevelsBeyondTheSupplyAreInvalid(t *testing.T) {
	levels := make([][2]string, 23)
	for i := range levels {
		levels[i] = [2]string{fmt.Sprint("depth", i), "x"}
	}
	r := newRig(t, reapitest.V054, matchtest.Node("a", levels[1:], matchtest.Cores(1)))
	r.places(t, 1, cores(1), "a")
	err := r.PutNode(t.Context(), r.epoch, matchtest.Node("b", levels, matchtest.Cores(1)))
	if !errors.Is(err, match.ErrInvalid) || !strings.Contains(err.Error(), `"b": 23 levels`) || !strings.Contains(err.Error(), "at most 22") {
		t.Errorf("PutNode() = %v, want the error %q with both numbers", err, match.ErrInvalid)
	}
}

// A user who asks for types that no node has must not use up the names.
func TestRequestsAndHeldSlotsTakeNoNames(t *testing.T) {
	r := newRig(t, reapitest.V054, four()...)
	for i, p := range pools("asked", 70) {
		r.refuses(t, 1, matchtest.Slots("w", 1, p), match.ErrUnsatisfiable)
		r.update(t, match.JobID(100+i), matchtest.Held("k", "a", p))
	}
	r.put(t, matchtest.Node("c", nil, pools("x", 64)...))
	r.places(t, 2, matchtest.Slots("w", 1, pools("x", 64)...), "c")
}

// Names stay with their types in a new epoch, and two engines in one process do not meet.
func TestOneProcessHasOneSupply(t *testing.T) {
	r := newRig(t, reapitest.V054, matchtest.Node("a", nil, pools("x", 40)...))
	var err error
	if r.epoch, err = r.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.put(t, matchtest.Node("a", nil, pools("x", 64)...), matchtest.Node("b", nil, matchtest.Cores(1)))
	if err := r.Ready(t.Context(), r.epoch); err != nil {
		t.Fatalf("Ready() = %v", err)
	}
	r.places(t, 1, matchtest.Slots("w", 1, pools("x", 64)...), "a")
	r.Close()
	second := &rig{Engine: newEngine(t, reapitest.V054, r.process), process: r.process}
	if second.epoch, err = second.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	second.put(t, matchtest.Node("a", nil, pools("y", 64)...))
	if err := second.Ready(t.Context(), second.epoch); err != nil {
		t.Fatalf("Ready() = %v", err)
	}
	second.places(t, 1, matchtest.Slots("w", 1, pools("y", 64)...), "a")
}

// A pool without room has no vertices, so its type takes no name: an extended resource with the amount
// 0 stays on a node for ever. The same goes for a pool that is down.
func TestPoolsWithoutRoomTakeNoNames(t *testing.T) {
	var empty []matchtest.Pool
	for _, p := range pools("empty", 70) {
		empty = append(empty, matchtest.Pool{Type: p.Type})
	}
	down := matchtest.Node("c", nil, append(pools("down", 70), matchtest.Cores(1))...)
	for i := range down.Vertices {
		if strings.HasPrefix(down.Vertices[i].Type, "down-") {
			down.Vertices[i].Status = resource.Down
		}
	}
	r := newRig(t, reapitest.V054, append(four(), matchtest.Node("d", nil, append(empty, matchtest.Cores(1))...), down)...)
	r.put(t, matchtest.Node("e", nil, pools("x", 64)...))
	r.places(t, 1, matchtest.Slots("w", 1, pools("x", 64)...), "e")
	r.put(t, matchtest.Node("d", nil, append(empty, matchtest.Cores(9))...))
	r.places(t, 2, matchtest.Slots("w", 1, matchtest.Cores(9)), "d")
}

// Without the supply in the filters of the first graph no graph with memory loads in release 0.54.0.
func TestWithoutTheSupplyNoGraphLoads(t *testing.T) {
	p := reapitest.NewProcess()
	r := &rig{process: p, Engine: newEngineOver(t, match.PolicyLonode, func() fluxion.Library {
		return unsupplied{p.Open(reapitest.V054)}
	})}
	var err error
	if r.epoch, err = r.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.put(t, four()...)
	const want = "This interner is finalized and must be open to add strings, found new string: 'memory': Cannot allocate memory"
	if err := r.Ready(t.Context(), r.epoch); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Ready() = %v, want an error with %q", err, want)
	}
}

// An unsupplied library gets no supply of names with its first graph, but only the types of that graph.
type unsupplied struct{ *reapitest.Library }

func (u unsupplied) InitContext(jgf, options string) error {
	if strings.Contains(options, "type00_") {
		options = `{"load_format":"jgf","match_format":"jgf","matcher_policy":"low","prune_filters":"ALL:core"}`
	}
	return u.Library.InitContext(jgf, options)
}
