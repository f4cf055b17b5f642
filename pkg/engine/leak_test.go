package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// keeps counts what an engine keeps.
func keeps(e *Engine) map[string]int {
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
	outlooks := 0
	for _, h := range e.hosts {
		slots += len(h.slots)
		if h.outlook != nil {
			outlooks++
		}
	}
	for _, of := range e.graph.columns.byKind {
		columns += len(of)
	}
	return map[string]int{
		"vertices": vertices, "nodes": len(e.graph.nodes), "levels": len(e.graph.levels),
		"columns": columns, "kinds": len(e.graph.columns.byKind), "statuses": len(e.graph.columns.up),
		"tenancies": len(e.graph.columns.tenancies), "owned": e.graph.columns.owned,
		"hosts": len(e.hosts), "slots": slots, "jobs": len(e.jobs),
		"reservations": len(e.promises.jobs), "nodes promised": len(e.promises.nodes), "outlooks": outlooks,
		"starts": len(e.promises.starts.slots), "stops": len(e.promises.stops.slots), "ends": len(e.promises.ends.slots),
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
	before := keeps(e)

	random := rand.New(rand.NewPCG(1, 2))
	for i := range 3000 {
		id, name := match.JobID(i+1), fmt.Sprintf("n%d", i)
		rack := [][2]string{{"rack", fmt.Sprint(i)}}
		kind := matchtest.Pool{Type: fmt.Sprintf("example.com/%d", i), Amount: 3, Unit: fmt.Sprint(i)}
		do(e.PutNode(ctx, epoch, matchtest.Node(name, rack, matchtest.Cores(2), kind)))
		if _, err := e.Match(ctx, match.Request{Epoch: epoch, ID: id, Jobspec: matchtest.Slots("a", 2, matchtest.Cores(1), kind)}); err == nil {
			t.Fatal("two slots of 3 fit into 3")
		}
		_, err := e.Match(ctx, match.Request{
			Epoch: epoch, ID: id, Jobspec: matchtest.Slots("a", 1, matchtest.Cores(1), kind),
			Policy: match.PolicyLonodex, Holder: name, Now: matchtest.Now, Duration: time.Duration(i+1) * time.Second,
		})
		do(err)
		a, err := e.Match(ctx, match.Request{
			Epoch: epoch, ID: id + 1e6, Jobspec: matchtest.Slots("a", 1, matchtest.Cores(1), kind),
			Now: matchtest.Now, Op: match.AllocateOrElseReserve, Duration: time.Duration(i%2) * time.Second,
		})
		do(err)
		if !a.Reserved {
			t.Fatal("3 and 3 fit into 3")
		}
		do(e.Update(ctx, epoch, match.Job{ID: id, End: matchtest.Now.Add(time.Hour), Slots: []match.Slot{
			matchtest.WithHolder(matchtest.Held("later", name+"-unknown", matchtest.Cores(1)), name),
			matchtest.Held("0", "stays", matchtest.Cores(1), kind),
			matchtest.WithHolder(matchtest.Held("1", name, matchtest.Cores(1)), name),
		}}))
		_, err = e.Match(ctx, match.Request{
			Epoch: epoch, Jobspec: matchtest.Slots("a", 1, matchtest.Cores(8)), Now: matchtest.Now, Op: match.WithoutAllocatingFuture,
		})
		do(err)
		if n := keeps(e); n["outlooks"] > n["nodes promised"] {
			t.Fatalf("%d outlooks are kept of %d nodes", n["outlooks"], n["nodes promised"])
		}
		do(e.PutNode(ctx, epoch, matchtest.Node(name, nil, matchtest.Pods(1))))
		do(e.Release(ctx, epoch, id+1e6, []string{"0"}[:random.IntN(2)]...))
		if random.IntN(2) == 0 {
			do(e.Release(ctx, epoch, id))
			do(e.RemoveNode(ctx, epoch, name))
		} else {
			do(e.RemoveNode(ctx, epoch, name))
			do(e.Release(ctx, epoch, id, "later", "0", "1"))
		}
	}
	do(e.PutNode(ctx, epoch, stays()))
	if diff := cmp.Diff(before, keeps(e)); diff != "" {
		t.Errorf("what the engine keeps differs (-before +after):\n%s", diff)
	}
}
