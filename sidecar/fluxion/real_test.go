//go:build fluxion

package fluxion_test

import (
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

func TestGoldenOverFluxion(t *testing.T) { playGolden(t, fluxion.Open) }
