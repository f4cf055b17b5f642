package client_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/sidecar/client"
)

// An answering engine gives one answer to every match.
type answering struct {
	match.Engine
	answer *match.Allocation
}

func (a answering) Match(context.Context, match.Request) (*match.Allocation, error) {
	return a.answer, nil
}

func share(kind, name, path string, amount int64, exclusively bool) resource.Share {
	return resource.Share{
		Vertex: resource.Vertex{Type: kind, Basename: kind, Name: name, Rank: resource.NoRank, Size: 64, Path: path},
		Amount: amount, Exclusively: exclusively,
	}
}

// A brief client leaves out only what an Update does not need.
func TestBriefSlots(t *testing.T) {
	node := share("node", "n1", "/cluster0/n1", 1, false)
	core := share("core", "core0", "/cluster0/n1/core0", 4, false)
	cases := map[string]struct {
		vertices []resource.Share
		want     []resource.Share // nil: as they are
	}{
		"pools of the node": {
			vertices: []resource.Share{share("pods", "pods0", "/cluster0/n1/pods0", 1, false), core, node},
			want: []resource.Share{
				{Vertex: resource.Vertex{Type: "core", Rank: resource.NoRank, Size: 4}, Amount: 4},
				{Vertex: resource.Vertex{Type: "pods", Rank: resource.NoRank, Size: 1}, Amount: 1},
			},
		},
		"an exclusive pool":        {vertices: []resource.Share{share("core", "core0", "/cluster0/n1/core0", 1, true), node}},
		"a vertex above the node":  {vertices: []resource.Share{core, node, share("rack", "rack0", "/cluster0", 1, false)}},
		"a node of similar name":   {vertices: []resource.Share{share("core", "core0", "/cluster0/n11/core0", 1, false), node}},
		"no vertex of the node":    {vertices: []resource.Share{core}},
		"another node":             {vertices: []resource.Share{share("core", "core0", "/cluster0/n2/core0", 1, false), share("node", "n2", "/cluster0/n2", 1, false)}},
		"a pool of the same names": {vertices: []resource.Share{share("core", "n1", "/cluster0/n1", 1, false)}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := &resource.Set{Vertices: tc.vertices}
			path := filepath.Join(t.TempDir(), "s")
			serve(t, path, answering{newEngine(t), &match.Allocation{ID: 1, R: r, Slots: []match.Slot{{Key: "a", Node: "n1", R: r}}}})
			request := match.Request{ID: 1, Jobspec: matchtest.Slots("w", 1, matchtest.Cores(1))}
			whole, err := dial(t, path, client.Options{}).Match(soon(t), request)
			if err != nil {
				t.Fatal(err)
			}
			brief, err := dial(t, path, client.Options{Brief: true}).Match(soon(t), request)
			if err != nil {
				t.Fatal(err)
			}
			want := *whole
			want.R = nil
			if tc.want != nil {
				want.Slots = []match.Slot{{Key: "a", Node: "n1", R: &resource.Set{Vertices: tc.want}}}
			}
			if diff := cmp.Diff(&want, brief); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What a brief match was given can be booked again, and takes the same room.
func TestBriefSlotsAreBookedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	serve(t, path, newEngine(t))
	c, ctx := dial(t, path, client.Options{Brief: true}), soon(t)
	load := func(jobs ...match.Job) match.Epoch {
		t.Helper()
		e, err := c.Reset(ctx)
		if err == nil {
			err = c.PutNode(ctx, e, matchtest.Node("n1", nil, matchtest.Cores(8), matchtest.Pods(10)))
		}
		if err == nil {
			err = c.Update(ctx, e, jobs...)
		}
		if err == nil {
			err = c.Ready(ctx, e)
		}
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	ask := func(e match.Epoch, id match.JobID, slots int64) (*match.Allocation, error) {
		return c.Match(ctx, match.Request{Epoch: e, ID: id, Jobspec: matchtest.Slots("w", slots, matchtest.Cores(2), matchtest.Pods(1))})
	}
	a, err := ask(load(), 1, 3)
	if err != nil {
		t.Fatal(err)
	}
	if a.R != nil || a.Slots[0].R != a.Slots[2].R || len(a.Slots[0].R.Vertices) != 2 {
		t.Errorf("the allocation has R %v, and slots that share no set of two amounts: %+v", a.R, a.Slots)
	}
	e := load(match.Job{ID: a.ID, Slots: a.Slots})
	if _, err := ask(e, 2, 2); err == nil {
		t.Error("two more slots fit, want room for one")
	}
	if _, err := ask(e, 2, 1); err != nil {
		t.Errorf("no room for one more slot: %v", err)
	}
}
