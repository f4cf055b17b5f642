package engine_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/pkg/traverser"
	"github.com/flux-k8s/fluence/test/golden"
)

// opener returns a function that starts an engine for a graph.
func opener(t *testing.T) golden.Open {
	t.Helper()
	return func(graph, options []byte) (golden.Program, error) {
		o, err := traverser.ParseOptions(options)
		if err != nil {
			return nil, err
		}
		epoch := match.Epoch(0)
		e, err := engine.New(engine.Options{Graph: o, Epoch: func() match.Epoch { epoch++; return epoch }})
		if err != nil {
			return nil, err
		}
		return golden.OpenEngine(t.Context(), e, graph, func(s *resource.Set) ([]byte, error) { return s.Format(o.MatchFormat) })
	}
}

// TestGolden checks that the engine answers as Fluxion did, call by call, on graphs that are added.
func TestGolden(t *testing.T) {
	cases, err := golden.Load("../../test/testdata/golden")
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for i := range cases {
		c := &cases[i]
		t.Run(c.ID, func(t *testing.T) {
			if err := golden.Play(c, opener(t)); err != nil {
				t.Errorf("%s: %v", c.Title, err)
				return
			}
			count[c.Family]++
		})
	}
	for _, family := range slices.Sorted(maps.Keys(count)) {
		t.Logf("%-12s %d cases as recorded", family, count[family])
	}
}
