package main

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/sidecar/command"
	"github.com/flux-k8s/fluence/sidecar/fluxion"
)

// The engines that can be served.
const (
	engineEmbedded = command.Embedded
	engineFluxion  = "fluxion"
)

// defaultEngine returns Fluxion if its library was linked into this program.
func defaultEngine() string {
	if fluxion.Available {
		return engineFluxion
	}
	return engineEmbedded
}

// newEngine returns the engine that is served. Its epochs
// are random, so that no epoch returns after a restart.
func newEngine(o *options, log *slog.Logger) (match.Engine, error) {
	switch o.engine {
	case engineEmbedded:
		g, err := o.graph()
		if err != nil {
			return nil, err
		}
		return engine.New(engine.Options{Policy: o.policy, Epoch: randomEpoch, Graph: g})
	case engineFluxion:
		if !fluxion.Available {
			return nil, noFluxion(o.engine)
		}
		return fluxion.New(fluxion.Options{
			Policy: o.policy, Epoch: randomEpoch, Open: fluxion.Open, Granules: o.granules, Log: log,
			MemoryLeft: func() int64 { return memoryLeft(os.DirFS("/")) },
		})
	default:
		return nil, unknownEngine(o.engine)
	}
}

func noFluxion(name string) error {
	return fmt.Errorf("--engine %q: this image lacks Fluxion's library; it is in those built from Dockerfile.sidecar", name)
}

func unknownEngine(name string) error {
	return fmt.Errorf("--engine %q: must be %q or %q", name, engineEmbedded, engineFluxion)
}

func randomEpoch() match.Epoch {
	var b [8]byte
	_, _ = rand.Read(b[:]) // It never fails.
	return match.Epoch(max(1, binary.BigEndian.Uint64(b[:])))
}
