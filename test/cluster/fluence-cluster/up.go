package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flux-k8s/fluence/test/cluster"
)

// upFlags are the flags of up.
type upFlags struct {
	cluster.Config
	racks         int
	rackLabel     string
	allocatable   map[string]string
	featureGates  map[string]string
	runtimeConfig map[string]string
}

func newUp() *cobra.Command {
	f := upFlags{Config: cluster.Config{Detached: true}}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster that runs until down",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := f.config()
			if err != nil {
				return err
			}
			cfg.Log = cmd.ErrOrStderr()
			ctx, cancel := context.WithTimeout(cmd.Context(), upTimeout)
			defer cancel()
			c, err := cluster.Start(ctx, cfg)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "export KUBECONFIG=%s\n", c.Kubeconfig())
			return err
		},
	}
	dirFlag(cmd, &f.Dir)
	flags := cmd.Flags()
	flags.IntVar(&f.Nodes.Count, "nodes", 16, "number of nodes")
	flags.IntVar(&f.racks, "racks", 4, "number of racks that the nodes stand in, in equal shares; 0 for no label")
	flags.StringVar(&f.rackLabel, "rack-label", "topology.kubernetes.io/rack", "label that names a node's rack")
	flags.StringToStringVar(&f.allocatable, "allocatable", map[string]string{"cpu": "8", "memory": "32Gi", "pods": "110"},
		"what each node has to give, extended resources included")
	flags.BoolVar(&f.StockScheduler, "stock-scheduler", false, "also run kube-scheduler")
	flags.DurationVar(&f.NodeLease, "node-lease", 200*time.Second, "how long a node's lease is valid")
	flags.StringToStringVar(&f.featureGates, "feature-gates", nil, "feature gates of all components, such as GenericWorkload=true")
	flags.StringToStringVar(&f.runtimeConfig, "runtime-config", nil, "API versions to turn on or off, such as scheduling.k8s.io/v1beta1=true")
	return cmd
}

// config returns the configuration that the flags mean.
func (f *upFlags) config() (cluster.Config, error) {
	cfg := f.Config
	cfg.Nodes.Allocatable = corev1.ResourceList{}
	for _, name := range slices.Sorted(maps.Keys(f.allocatable)) {
		q, err := resource.ParseQuantity(f.allocatable[name])
		if err != nil {
			return cfg, fmt.Errorf("--allocatable %s: %w", name, err)
		}
		cfg.Nodes.Allocatable[corev1.ResourceName(name)] = q
	}
	var err error
	if cfg.FeatureGates, err = switches("--feature-gates", f.featureGates); err != nil {
		return cfg, err
	}
	if cfg.RuntimeConfig, err = switches("--runtime-config", f.runtimeConfig); err != nil {
		return cfg, err
	}
	if f.racks < 0 {
		return cfg, fmt.Errorf("--racks: %d is negative", f.racks)
	}
	if f.racks > 0 {
		cfg.Nodes.Labels = func(i int) map[string]string {
			return map[string]string{f.rackLabel: fmt.Sprintf("rack-%d", i*f.racks/f.Nodes.Count)}
		}
	}
	return cfg, nil
}

// switches parses the values of a flag that turns names on and off.
func switches(flag string, m map[string]string) (map[string]bool, error) {
	out := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		on, err := strconv.ParseBool(m[name])
		if err != nil {
			return nil, fmt.Errorf("%s %s: %q is neither true nor false", flag, name, m[name])
		}
		out[name] = on
	}
	return out, nil
}
