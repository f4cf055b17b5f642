package main

import (
	"encoding/json"
	"errors"
	"fmt"

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

// optionPolicy is Fluxion's name of a policy for requests that name none.
const optionPolicy = "matcher_policy"

// readOptions reads Fluxion's initialisation options. What the text leaves out is
// as in base, and graphs are JGF; what is in over comes before the text.
func readOptions(text string, base, over map[string]string) (map[string]json.RawMessage, error) {
	o := map[string]json.RawMessage{}
	set := func(of map[string]string) error {
		for key, value := range of {
			text, err := json.Marshal(value)
			if err != nil {
				return err
			}
			o[key] = text
		}
		return nil
	}
	if err := errors.Join(set(map[string]string{"load_format": "jgf"}), set(base)); err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return nil, err
	}
	if o == nil {
		return nil, errors.New("not an object")
	}
	return o, set(over)
}

// graph returns how graphs are walked that are added to the engine that is served.
func (o *options) graph() (traverser.Options, error) {
	given, err := readOptions(o.graphOptions, map[string]string{optionPolicy: o.policy}, nil)
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
