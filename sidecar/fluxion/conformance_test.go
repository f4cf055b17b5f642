package fluxion_test

import (
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/sidecar/fluxion"
	"github.com/flux-k8s/fluence/sidecar/fluxion/reapitest"
)

// offered is all except amounts of any size, reservations,
// and policies that fill nodes in another order.
var offered = matchtest.Capabilities{
	Shapes: true, Ranges: true, PartialRelease: true, Update: true,
	Constraints: true, MaxPerLevel: true, Limits: true, Topology: true, Near: true, Ignore: true, Ending: true, Replaces: true, Expected: true, Reasons: true,
	Policies: []string{match.PolicyLow, match.PolicyLonodex},
}

// newEngine returns an engine that was never reset. Its epochs count up.
func newEngine(t testing.TB, r reapitest.Release, p *reapitest.Process) *fluxion.Engine {
	t.Helper()
	return newEngineOver(t, match.PolicyLonode, func() fluxion.Library { return p.Open(r) })
}

// newGrowingEngine returns an engine over a library whose graph can grow and shrink.
func newGrowingEngine(t testing.TB, policy string, p *reapitest.Process) *fluxion.Engine {
	t.Helper()
	return newEngineOver(t, policy, func() fluxion.Library { return p.OpenGrower() })
}

func newEngineOver(t testing.TB, policy string, open func() fluxion.Library) *fluxion.Engine {
	t.Helper()
	var last match.Epoch
	e, err := fluxion.New(fluxion.Options{
		Policy: policy, Epoch: func() match.Epoch { last++; return last }, Open: open,
	})
	if err != nil {
		t.Fatalf("New() = %v", err)
	}
	t.Cleanup(e.Close)
	return e
}

func TestConformance(t *testing.T) {
	for _, r := range reapitest.Releases() {
		t.Run(r.String(), func(t *testing.T) {
			matchtest.Test(t, offered, func(t *testing.T) match.Engine { return newEngine(t, r, reapitest.NewProcess()) })
		})
	}
	t.Run("with a graph that grows", func(t *testing.T) {
		matchtest.Test(t, offered, func(t *testing.T) match.Engine {
			return newGrowingEngine(t, match.PolicyLonode, reapitest.NewProcess())
		})
	})
}
