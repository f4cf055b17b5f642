package engine

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// kept counts what an engine keeps. It reads the private fields of the store by reflection.
func kept(e *Engine) map[string]int {
	st := reflect.ValueOf(e).Elem().FieldByName("backend").Elem().Elem().FieldByName("store").Elem()
	graph := st.FieldByName("graph")
	columns, promises := graph.FieldByName("columns"), st.FieldByName("reservations")
	vertices := 0
	var count func(v reflect.Value)
	count = func(v reflect.Value) {
		vertices++
		for i := range v.Elem().FieldByName("children").Len() {
			count(v.Elem().FieldByName("children").Index(i))
		}
	}
	if root := graph.FieldByName("root"); !root.IsNil() {
		count(root)
	}
	slots, outlooks := 0, 0
	hosts := st.FieldByName("hosts").FieldByName("byName")
	for all := hosts.MapRange(); all.Next(); {
		h := all.Value().Elem()
		slots += h.FieldByName("slots").Len()
		if !h.FieldByName("timeline").IsNil() {
			outlooks++
		}
	}
	ofKinds := 0
	for kinds := columns.FieldByName("byType").MapRange(); kinds.Next(); {
		ofKinds += kinds.Value().Len()
	}
	return map[string]int{
		"vertices": vertices, "nodes": graph.FieldByName("nodes").Len(), "levels": graph.FieldByName("levels").Len(),
		"columns": ofKinds, "kinds": columns.FieldByName("byType").Len(), "statuses": columns.FieldByName("up").Len(),
		"tenancies": columns.FieldByName("exclusive").Len(), "owned": int(columns.FieldByName("exclusiveNodes").Int()),
		"hosts": hosts.Len(), "slots": slots, "jobs": st.FieldByName("jobs").Len(),
		"reservations": promises.FieldByName("jobs").Len(), "nodes promised": promises.FieldByName("byNode").Len(), "outlooks": outlooks,
		"starts": promises.FieldByName("reservedStarts").FieldByName("slots").Len(), "stops": promises.FieldByName("reservedEnds").FieldByName("slots").Len(),
		"ends": promises.FieldByName("allEnds").FieldByName("slots").Len(),
	}
}

// TestNothingLeaks makes and releases many jobs, on nodes that come, move and go under new names,
// and counts what remains.
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
	before := kept(e)

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
		if n := kept(e); n["outlooks"] > n["nodes promised"] {
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
	if diff := cmp.Diff(before, kept(e)); diff != "" {
		t.Errorf("what the engine keeps differs (-before +after):\n%s", diff)
	}
}
