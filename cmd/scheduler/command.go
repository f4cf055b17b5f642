package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/cache"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	"k8s.io/component-base/version/verflag"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler"

	"github.com/flux-k8s/fluence/pkg/apiwatch"
	"github.com/flux-k8s/fluence/pkg/fluence"
	"github.com/flux-k8s/fluence/pkg/versionskew"
)

// name is the name of the program, in its usage and to the API server.
const name = "fluence-scheduler"

// command returns kube-scheduler's own command with the plugins. It does step by
// step what app.NewSchedulerCommand would do, because only so it can find out
// whether a leader is elected, and change how it is reported that pods wait.
func command(l *lease, plugins ...app.Option) *cobra.Command {
	opts := options.NewOptions()
	cmd := &cobra.Command{
		Use:   name,
		Short: "Schedule pods by groups",
		Long: name + ` is kube-scheduler with the plugin Fluence. In the profile that
enables it pods start together with the others of their group or not at all, on nodes
that a matcher chose for the whole group.`,
		Args: cobra.NoArgs,
		// Feature gates must be set before anything runs.
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if err := opts.ComponentGlobalsRegistry.Set(); err != nil {
				return err
			}
			return refuseGate(opts.ComponentGlobalsRegistry.FeatureGateFor(basecompatibility.DefaultKubeComponent))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd, opts, l, plugins) },
	}
	sets := opts.Flags
	verflag.AddFlags(sets.FlagSet("global"))
	globalflag.AddGlobalFlags(sets.FlagSet("global"), cmd.Name(), logs.SkipLoggingConfigurationFlags())
	for _, set := range sets.FlagSets {
		cmd.Flags().AddFlagSet(set)
	}
	columns, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, *sets, columns)
	return cmd
}

// refuseGate returns an error if the gate GenericWorkload is on, by its own name or by a
// switch for many gates, such as AllBeta. With the gate, the queue of kube-scheduler holds a
// native PodGroup for as long as one of its pods is held, and Fluence holds all of them but one.
// Fluence places native PodGroups without the gate.
func refuseGate(gates featuregate.FeatureGate) error {
	if !gates.Enabled(features.GenericWorkload) {
		return nil
	}
	return fmt.Errorf("feature gate %s: true: %s does not work with this gate, and places PodGroups of scheduling.k8s.io without it; set --feature-gates=%s=false here, and leave the gate as it is in the other programs of the control plane",
		features.GenericWorkload, name, features.GenericWorkload)
}

func run(cmd *cobra.Command, opts *options.Options, l *lease, plugins []app.Option) error {
	verflag.PrintAndExitIfRequested()
	gates := opts.ComponentGlobalsRegistry.FeatureGateFor(basecompatibility.DefaultKubeComponent)
	if err := logsapi.ValidateAndApply(opts.Logs, gates); err != nil {
		return err
	}
	cliflag.PrintFlags(cmd.Flags())
	if opts.InformerName == nil {
		informers, err := cache.NewInformerName(name)
		if err != nil {
			return err
		}
		opts.InformerName = informers
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := server.SetupSignalHandler()
	go func() {
		select {
		case <-ended:
		case <-l.gives:
		}
		cancel()
	}()
	config, sched, err := app.Setup(ctx, opts, plugins...)
	if err != nil {
		return err
	}
	l.unwanted.Store(config.LeaderElection == nil)
	if err := fluence.Attach(sched); err != nil {
		return err
	}
	if election := config.LeaderElection; election != nil {
		// As with holdOn, the process must be started again, so it ends with failure.
		end := func() { klog.FlushAndExit(klog.ExitFlushTimeout, 1) }
		election.Lock = releasing{Interface: election.Lock, given: l.given.Load, end: end}
		fluence.EnableHandover(sched, l.giveUp)
	}
	gates.(featuregate.MutableFeatureGate).AddMetrics()
	opts.ComponentGlobalsRegistry.AddMetrics()
	if err := holdOn(ctx, config); err != nil {
		return err
	}
	if err := watchVersion(ctx, config, sched); err != nil {
		return err
	}
	return app.Run(ctx, config, sched)
}

// holdOn ends the process when it has lost the API server. A leader would lose its lease
// then, and a standby must not take up the lease without knowing the present state.
func holdOn(ctx context.Context, config *schedulerconfig.CompletedConfig) error {
	patience := apiwatch.DefaultTimeout
	if d := config.ComponentConfig.LeaderElection.RenewDeadline.Duration; d > 0 {
		patience = d
	}
	ping, err := apiwatch.Livez(config.KubeConfig)
	if err != nil {
		return err
	}
	go func() {
		if err := apiwatch.Watch(ctx, ping, patience); err != nil {
			// The process does not end by ctx: a leader whose context ends
			// takes this for a request to stop, and ends with success.
			klog.FromContext(ctx).Error(err, "Lost the API server; exiting, to be restarted")
			klog.FlushAndExit(klog.ExitFlushTimeout, 1)
		}
	}()
	return nil
}

// watchVersion logs if this build is not made for the version of the API server, and sets a metric.
func watchVersion(ctx context.Context, config *schedulerconfig.CompletedConfig, sched *scheduler.Scheduler) error {
	api, err := discovery.NewDiscoveryClientForConfig(config.KubeConfig)
	if err != nil {
		return fmt.Errorf("build the client that reads the version: %w", err)
	}
	go versionskew.Watch(ctx, api.ServerVersionWithContext, func(err error) {
		fluence.SetVersionSkew(sched, err != nil)
		if err != nil {
			klog.FromContext(ctx).Error(err, "The API server's version is not supported")
		} else {
			klog.FromContext(ctx).Info("The API server's version is supported again")
		}
	})
	return nil
}
