package engine_test

import (
	"testing"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/traverser"
)

func TestConformanceWithGraphs(t *testing.T) {
	matchtest.TestGraph(t, func(t *testing.T) match.GraphEngine {
		var last match.Epoch
		e, err := engine.New(engine.Options{
			Epoch: func() match.Epoch { last++; return last }, Graph: traverser.DefaultOptions(),
		})
		if err != nil {
			t.Fatalf("New() = %v", err)
		}
		return e
	})
}
