package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
)

func TestTallyIsExactPastAnInt64(t *testing.T) {
	var sum tally
	for range 5 {
		sum.add(math.MaxInt64)
	}
	sum.add(3)
	for range 5 {
		if got := sum.leaves(math.MaxInt64); got != 0 {
			t.Errorf("leaves(%d) = %d, want 0", int64(math.MaxInt64), got)
		}
		sum.sub(math.MaxInt64)
	}
	for size, want := range map[int64]int64{0: 0, 2: 0, 3: 0, 4: 1, math.MaxInt64: math.MaxInt64 - 3} {
		if got := sum.leaves(size); got != want {
			t.Errorf("leaves(%d) = %d, want %d", size, got, want)
		}
	}
}

func TestSumsAndProductsStayAtTheLargest(t *testing.T) {
	cases := map[string]struct{ got, want int64 }{
		"a sum":                {plus(2, 3), 5},
		"the largest sum":      {plus(math.MaxInt64-1, 1), math.MaxInt64},
		"a sum past it":        {plus(math.MaxInt64, math.MaxInt64), math.MaxInt64},
		"a product":            {times(6, 7), 42},
		"a product with 0":     {times(math.MaxInt64, 0), 0},
		"the largest product":  {times(math.MaxInt64, 1), math.MaxInt64},
		"a product past it":    {times(math.MaxInt64/2, 3), math.MaxInt64},
		"a product far beyond": {times(math.MaxInt64, math.MaxInt64), math.MaxInt64},
	}
	for name, tc := range cases {
		if tc.got != tc.want {
			t.Errorf("%s = %d, want %d", name, tc.got, tc.want)
		}
	}
}

func TestBelow(t *testing.T) {
	cases := map[string]struct{ path, node, want string }{
		"a pool":                          {"/cluster0/n1/core0", "n1", "core0"},
		"a pool with a slash in its name": {"/cluster0/n1/nvidia.com/gpu0", "n1", "nvidia.com/gpu0"},
		"deeper down":                     {"/cluster0/r1/n1/socket0/core0", "n1", "socket0/core0"},
		"the name is part of another":     {"/cluster0/n10/n1/core0", "n1", "core0"},
		"the node itself":                 {"/cluster0/n1", "n1", ""},
		"another node":                    {"/cluster0/n2/core0", "n1", ""},
		"no path":                         {"", "n1", ""},
		"no name":                         {"/cluster0//core0", "", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := below(tc.path, tc.node); got != tc.want {
				t.Errorf("below(%q, %q) = %q, want %q", tc.path, tc.node, got, tc.want)
			}
		})
	}
}

// TestFingerprintCoversTheRequest changes one thing at a time.
func TestFingerprintCoversTheRequest(t *testing.T) {
	request := func() *match.Request {
		js := matchtest.Constrain(matchtest.Slots("a", 2, matchtest.Cores(1)), "a", jobspec.SlotAttributes{
			Constraints: matchtest.Hosts("n1"), MaxPerLevel: map[string]int64{"node": 1, "rack": 2},
		})
		js.Attributes.System.Environment = map[string]string{"A": "1", "B": "2"}
		return &match.Request{ID: 1, Jobspec: js, Keys: []string{"x", "yz"}, Near: []string{"n"}, Policy: match.PolicyLonode}
	}
	same := request()
	same.Epoch, same.Now, same.Op, same.ID = 5, time.Unix(1, 0), match.WithoutAllocating, 9
	if fingerprintOf(same) != fingerprintOf(request()) {
		t.Error("the same request has two fingerprints")
	}
	yes := true
	seen := map[fingerprint]string{fingerprintOf(request()): "the request"}
	for name, change := range map[string]func(r *match.Request){
		"the duration":            func(r *match.Request) { r.Duration = time.Second },
		"the policy":              func(r *match.Request) { r.Policy = "" },
		"the near nodes":          func(r *match.Request) { r.Near = nil },
		"the order of keys":       func(r *match.Request) { r.Keys = []string{"yz", "x"} },
		"where a key ends":        func(r *match.Request) { r.Keys = []string{"xy", "z"} },
		"a key that is near":      func(r *match.Request) { r.Keys, r.Near = []string{"x"}, []string{"yz", "n"} },
		"the count":               func(r *match.Request) { r.Jobspec.Resources[0].Count.Max = 3 },
		"the operator":            func(r *match.Request) { r.Jobspec.Resources[0].Count.Operator = '*' },
		"the label":               func(r *match.Request) { r.Jobspec.Resources[0].Label = "b" },
		"the amount":              func(r *match.Request) { r.Jobspec.Resources[0].With[0].Count.Min = 1 },
		"the unit":                func(r *match.Request) { r.Jobspec.Resources[0].With[0].Unit = "" },
		"whether it is exclusive": func(r *match.Request) { r.Jobspec.Resources[0].Exclusive = &yes },
		"the constraints":         func(r *match.Request) { r.Jobspec.Attributes.System.Constraints = matchtest.Hosts("n1") },
		"the attributes of the label": func(r *match.Request) {
			matchtest.Constrain(r.Jobspec, "a", jobspec.SlotAttributes{ConstraintsNow: matchtest.Hosts("n1")})
		},
		"the tasks": func(r *match.Request) { r.Jobspec.Tasks[0].Command = []string{"other"} },
		"a value of a map": func(r *match.Request) {
			r.Jobspec.Attributes.System.Environment = map[string]string{"A": "2", "B": "1"}
		},
	} {
		r := request()
		change(r)
		f := fingerprintOf(r)
		if other, ok := seen[f]; ok {
			t.Errorf("with a change to %s the request has the fingerprint of %s", name, other)
		}
		seen[f] = name
	}
}

// TestFingerprintKnowsEveryFieldOfARequest fails when the contract gets a field
// that nobody thought about here.
func TestFingerprintKnowsEveryFieldOfARequest(t *testing.T) {
	var got []string
	for f := range reflect.TypeFor[match.Request]().Fields() {
		got = append(got, f.Name)
	}
	want := []string{"Epoch", "Op", "ID", "Jobspec", "Keys", "Now", "Duration", "Policy", "Near", "Ignore"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the fields of a request differ (-known +there):\n%s", diff)
	}
}

// sizes counts what an engine keeps.
func (e *Engine) sizes() map[string]int {
	vertices := 0
	var count func(v *vertex)
	count = func(v *vertex) {
		vertices++
		for _, c := range v.children {
			count(c)
		}
	}
	if e.graph.root != nil {
		count(e.graph.root)
	}
	slots, columns := 0, 0
	for _, h := range e.hosts {
		slots += len(h.slots)
	}
	for _, of := range e.graph.columns.byKind {
		columns += len(of)
	}
	return map[string]int{
		"vertices": vertices, "nodes": len(e.graph.nodes), "levels": len(e.graph.levels),
		"columns": columns, "kinds": len(e.graph.columns.byKind), "statuses": len(e.graph.columns.up),
		"hosts": len(e.hosts), "slots": slots, "jobs": len(e.jobs),
	}
}

// TestNothingLeaks makes and releases many jobs, on nodes that come, move and
// go under ever new names, and counts what remains.
func TestNothingLeaks(t *testing.T) {
	last := match.Epoch(0)
	e, err := New(Options{Epoch: func() match.Epoch { last++; return last }})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	epoch, err := e.Reset(ctx)
	if err != nil {
		t.Fatal(err)
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	stays := func() *resource.Graph {
		return matchtest.Node("stays", [][2]string{{"rack", "r"}}, matchtest.Cores(8), matchtest.Pods(9))
	}
	do(e.PutNode(ctx, epoch, stays()))
	do(e.Ready(ctx, epoch))
	before := e.sizes()

	random := rand.New(rand.NewPCG(1, 2))
	for i := range 3000 {
		id, name := match.JobID(i+1), fmt.Sprintf("n%d", i)
		rack := [][2]string{{"rack", fmt.Sprint(i)}}
		kind := matchtest.Pool{Type: fmt.Sprintf("example.com/%d", i), Amount: 3, Unit: fmt.Sprint(i)}
		do(e.PutNode(ctx, epoch, matchtest.Node(name, rack, matchtest.Cores(2), kind)))
		if _, err := e.Match(ctx, match.Request{Epoch: epoch, ID: id, Jobspec: matchtest.Slots("a", 2, matchtest.Cores(1), kind)}); err == nil {
			t.Fatal("two slots of 3 fit into 3")
		}
		_, err := e.Match(ctx, match.Request{Epoch: epoch, ID: id, Jobspec: matchtest.Slots("a", 1, matchtest.Cores(1), kind)})
		do(err)
		do(e.Update(ctx, epoch, match.Job{ID: id, Slots: []match.Slot{
			matchtest.Held("later", name+"-unknown", matchtest.Cores(1)), matchtest.Held("0", "stays", matchtest.Cores(1), kind),
		}}))
		do(e.PutNode(ctx, epoch, matchtest.Node(name, nil, matchtest.Pods(1))))
		if random.IntN(2) == 0 {
			do(e.Release(ctx, epoch, id))
			do(e.RemoveNode(ctx, epoch, name))
		} else {
			do(e.RemoveNode(ctx, epoch, name))
			do(e.Release(ctx, epoch, id, "later", "0"))
		}
	}
	do(e.PutNode(ctx, epoch, stays()))
	if diff := cmp.Diff(before, e.sizes()); diff != "" {
		t.Errorf("what the engine keeps differs (-before +after):\n%s", diff)
	}
}
