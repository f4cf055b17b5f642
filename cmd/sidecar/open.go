package main

import (
	"encoding/json"
	"fmt"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/traverser"
	"github.com/flux-k8s/fluence/sidecar/command"
	"github.com/flux-k8s/fluence/sidecar/fluxion"
)

// openEngine returns the engine with this name, for the subcommands, with these options.
func openEngine(name string, options []byte) (command.Engine, error) {
	switch name {
	case engineEmbedded:
		o, err := traverser.ParseOptions(options)
		if err != nil {
			return nil, err
		}
		return engine.New(engine.Options{Epoch: randomEpoch, Graph: o})
	case engineFluxion:
		if !fluxion.Available {
			return nil, noFluxion(name)
		}
		return fluxion.NewDirect(fluxion.Open, options)
	default:
		return nil, unknownEngine(name)
	}
}

// graph returns how the served engine walks graphs that are added to it.
func (o *options) graph() (traverser.Options, error) {
	given, err := command.ReadOptions(o.graphOptions, map[string]string{command.OptionPolicy: o.policy}, nil)
	if err != nil {
		return traverser.Options{}, fmt.Errorf("--graph-options %q: %w", o.graphOptions, err)
	}
	text, err := json.Marshal(given)
	if err != nil {
		return traverser.Options{}, fmt.Errorf("--graph-options %q: %w", o.graphOptions, err)
	}
	g, err := traverser.ParseOptions(text)
	if err != nil {
		return g, fmt.Errorf("--graph-options %q: %w", o.graphOptions, err)
	}
	return g, nil
}
