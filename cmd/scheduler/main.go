// Command fluence-scheduler is kube-scheduler with the plugin Fluence: it starts
// the pods of a group together or not at all, on nodes chosen by a matcher that
// runs beside it.
package main

import (
	"context"
	"io"
	"os"
	"sync"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/grpclog"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of the API client
	_ "k8s.io/component-base/metrics/prometheus/version"  // metric of the version
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/features"

	"github.com/flux-k8s/fluence/pkg/fluence"
	"github.com/flux-k8s/fluence/sidecar/client"
	"github.com/flux-k8s/fluence/sidecar/endpoint"
)

func main() {
	// The plugin says once that the matcher does not answer; the connection would
	// say it several times a second.
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, os.Stderr))
	os.Exit(cli.Run(newCommand()))
}

// newCommand returns kube-scheduler's own command with the plugin.
func newCommand() *cobra.Command {
	// A pod that waits for its group would get its node nominated first, which is
	// one more write for every pod, and after a restart room kept for nobody.
	err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{string(features.NominatedNodeNameForExpectation): false})
	if err != nil {
		panic(err) // the gate is one of this very version of Kubernetes
	}
	var command *cobra.Command
	elected := sync.OnceValue(func() bool { return electsLeader(command) })
	command = app.NewSchedulerCommand(app.WithPlugin(fluence.Name, fluence.Factory(dial, func() bool { return leading(elected()) })))
	command.Use = "fluence-scheduler"
	return command
}

// dial connects to the sidecar for as long as the scheduler runs.
func dial(ctx context.Context, args *fluence.Args) (fluence.Matcher, error) {
	o := client.Options{Timeout: args.MatchTimeout.Duration}
	if t := args.TLS; t != nil {
		o.TLS = endpoint.Identity{Cert: t.CertFile, Key: t.KeyFile, CA: t.CAFile}
	}
	c, err := client.Dial(args.Endpoint, o)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = c.Close() })
	return c, nil
}

// electsLeader says whether the scheduler of a command that has been parsed asks for
// a lease before it decides anything: by its flag, else by its configuration file,
// as kube-scheduler itself reads them.
func electsLeader(command *cobra.Command) bool {
	if flag := command.Flag("leader-elect"); flag.Changed {
		return flag.Value.String() == "true"
	}
	file := command.Flag("config").Value.String()
	if file == "" {
		return true
	}
	config, err := options.LoadConfigFromFile(klog.Background(), file)
	if err != nil { // it was read a moment ago
		klog.Background().Error(err, "Read whether schedulers elect a leader", "file", file)
		return true
	}
	return config.LeaderElection.LeaderElect
}

// leading says whether this process decides. If schedulers elect a leader, that is
// the one that holds the lease, as its own metric has it: kube-scheduler tells
// nobody else. One that has just started has no such metric yet.
func leading(elected bool) bool {
	if !elected {
		return true
	}
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		klog.Background().Error(err, "Read whether this scheduler leads")
		return false
	}
	for _, f := range families {
		if f.GetName() != "leader_election_master_status" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetGauge().GetValue() == 0 {
				return false
			}
		}
		return len(f.GetMetric()) > 0
	}
	return false
}
