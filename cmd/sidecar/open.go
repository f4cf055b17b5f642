package main

import (
	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/traverser"
)

// openEngine opens the embedded engine.
func openEngine(options []byte) (match.GraphEngine, error) {
	o, err := traverser.ParseOptions(options)
	if err != nil {
		return nil, err
	}
	return engine.New(engine.Options{Epoch: randomEpoch, Graph: o})
}
