package engine_test

import (
	"testing"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
)

// newEngine returns an engine that was never reset. Its epochs count up.
func newEngine(t testing.TB) *engine.Engine {
	t.Helper()
	var last match.Epoch
	e, err := engine.New(engine.Options{Epoch: func() match.Epoch { last++; return last }})
	if err != nil {
		t.Fatalf("New() = %v", err)
	}
	return e
}

// offered has every capability.
var offered = matchtest.Capabilities{
	Divisible: true, Shapes: true, Ranges: true, PartialRelease: true, Update: true,
	Constraints: true, MaxPerLevel: true, Limits: true, Topology: true, Near: true, Ignore: true, Ending: true, Displace: true, Replaces: true, Expected: true, Reasons: true, Reserve: true,
	Policies: match.Policies(),
}

func TestConformance(t *testing.T) {
	matchtest.Test(t, offered, func(t *testing.T) match.Engine { return newEngine(t) })
}

func TestConformanceOfASpy(t *testing.T) {
	matchtest.Test(t, offered, func(t *testing.T) match.Engine { return matchtest.Spy(newEngine(t)) })
}
