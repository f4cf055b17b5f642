package main

import (
	"encoding/json"
	"fmt"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/traverser"
	"github.com/flux-k8s/fluence/sidecar/command"
)

// openEngine returns the embedded engine with these options.
func openEngine(options []byte) (match.GraphEngine, error) {
	o, err := traverser.ParseOptions(options)
	if err != nil {
		return nil, err
	}
	return engine.New(engine.Options{Epoch: randomEpoch, Graph: o})
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
