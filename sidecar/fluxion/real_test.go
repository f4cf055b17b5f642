//go:build fluxion

package fluxion_test

import (
	"flag"
	"os"
	"os/exec"
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/sidecar/fluxion"
)

func TestConformanceOverFluxion(t *testing.T) {
	matchtest.Test(t, offered, func(t *testing.T) match.Engine {
		var last match.Epoch
		e, err := fluxion.New(fluxion.Options{Epoch: func() match.Epoch { last++; return last }, Open: fluxion.Open})
		if err != nil {
			t.Fatalf("New() = %v", err)
		}
		t.Cleanup(e.Close)
		return e
	})
}

// goldenCase is the recorded case that this process plays.
var goldenCase = flag.String("golden-case", "", "play one recorded case over Fluxion, as the test itself does in a process of its own")

// TestGoldenOverFluxion plays each case in a process of its own, because the first graph of a process
// closes the table of its types in release 0.54.0.
func TestGoldenOverFluxion(t *testing.T) {
	if *goldenCase != "" {
		playGolden(t, fluxion.Open, *goldenCase)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range goldenCases(t) {
		t.Run(c.ID, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), self, "-test.run=^TestGoldenOverFluxion$", "-golden-case="+c.ID).CombinedOutput()
			if err != nil {
				t.Errorf("%v:\n%s", err, out)
			}
		})
	}
}
