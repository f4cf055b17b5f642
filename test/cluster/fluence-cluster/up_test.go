package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/test/cluster"
)

func TestUpFlags(t *testing.T) {
	f := upFlags{
		Config:        cluster.Config{Nodes: cluster.Nodes{Count: 6}},
		racks:         4,
		rackLabel:     "rack",
		allocatable:   map[string]string{"cpu": "2", "example.com/gpu": "4"},
		featureGates:  map[string]string{"GenericWorkload": "true"},
		runtimeConfig: map[string]string{"api/beta": "0"},
	}
	cfg, err := f.config()
	if err != nil {
		t.Fatal(err)
	}
	var racks []string
	for i := range cfg.Nodes.Count {
		racks = append(racks, cfg.Nodes.Labels(i)["rack"])
	}
	if got, want := strings.Join(racks, " "), "rack-0 rack-0 rack-1 rack-2 rack-2 rack-3"; got != want {
		t.Errorf("racks %q, want %q", got, want)
	}
	if gpu := cfg.Nodes.Allocatable["example.com/gpu"]; gpu.Value() != 4 {
		t.Errorf("allocatable %v", cfg.Nodes.Allocatable)
	}
	if diff := cmp.Diff(map[string]bool{"GenericWorkload": true}, cfg.FeatureGates); diff != "" {
		t.Errorf("feature gates (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{"api/beta": false}, cfg.RuntimeConfig); diff != "" {
		t.Errorf("runtime config (-want +got):\n%s", diff)
	}
}

func TestBadUpFlags(t *testing.T) {
	cases := map[string]upFlags{
		"--allocatable cpu":    {allocatable: map[string]string{"cpu": "many"}},
		"--feature-gates A":    {featureGates: map[string]string{"A": "on"}},
		"--runtime-config a/b": {runtimeConfig: map[string]string{"a/b": ""}},
		"--racks":              {racks: -1},
	}
	for want, f := range cases {
		t.Run(want, func(t *testing.T) {
			if _, err := f.config(); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("config() = %v, want %q...", err, want)
			}
		})
	}
}
