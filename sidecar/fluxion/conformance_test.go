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
	Constraints: true, MaxPerLevel: true, Limits: true, Topology: true, Near: true, Ignore: true, Expected: true, Reasons: true,
	Policies: []string{match.PolicyLow, match.PolicyLonodex},
}

// newEngine returns an engine that was never reset. Its epochs count up.
func newEngine(t testing.TB, r reapitest.Release, p *reapitest.Process) *fluxion.Engine {
	t.Helper()
	var last match.Epoch
	e, err := fluxion.New(fluxion.Options{
		Epoch: func() match.Epoch { last++; return last },
		Open:  func() fluxion.Library { return p.Open(r) },
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
}
