package traverser

import (
	"fmt"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/pkg/match"
)

// TestOnePathOnTwoRanks checks that vertices with the same path are distinguished by their ranks.
func TestOnePathOnTwoRanks(t *testing.T) {
	for _, n := range []int{2, 2 * manyChildren} {
		t.Run(fmt.Sprintf("%d nodes", n), func(t *testing.T) { onePath(t, n) })
	}
}

func onePath(t *testing.T, n int) {
	g := one(n)
	const path = "/cluster0/node0"
	for i := range g.Vertices {
		v := &g.Vertices[i]
		if v.Rank != 1 {
			continue
		}
		v.Path = path + v.Path[len(path):]
		if v.Type == "node" {
			v.ID, v.Name = 0, "node0"
		}
	}
	text, err := g.JGF()
	if err != nil {
		t.Fatal(err)
	}
	r := load(t, match.PolicyLow)
	if err := r.Add(text); err != nil {
		t.Fatal(err)
	}
	r.gets(wants(1, 0, nodes(1)))
	r.gets(wants(2, 0, nodes(1)))
	jobs := r.Jobs()
	fresh := load(t, match.PolicyLow)
	for range 2 {
		if err := fresh.Add(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := fresh.Update(jobs...); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(jobs, fresh.Jobs()); diff != "" {
		t.Errorf("Jobs (-before +after):\n%s", diff)
	}
	same(t, "dump", fresh.dump(), r.dump())
	fresh.fails(wants(3, 0, nodes(int64(n-1))), match.ErrBusy)
}
