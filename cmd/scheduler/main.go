// Command fluence-scheduler is kube-scheduler with the plugin Fluence. It starts the pods
// of a group together or not at all, on nodes chosen by a matcher that runs beside it.
package main

import (
	"context"
	"io"
	"os"

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
	"k8s.io/kubernetes/pkg/features"

	"github.com/flux-k8s/fluence/pkg/fluence"
	"github.com/flux-k8s/fluence/pkg/heapfloor"
	"github.com/flux-k8s/fluence/pkg/relay"
	"github.com/flux-k8s/fluence/sidecar/client"
	"github.com/flux-k8s/fluence/sidecar/endpoint"
)

// version is the release, set by the linker: -X main.version=v1.2.3.
var version = "devel"

// heapFloor is the size of the heap, in bytes, below which garbage is not collected.
const heapFloor = 256 << 20

func main() {
	// The plugin logs once that the matcher does not answer.
	// The connection would log it several times a second.
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, os.Stderr))
	heapfloor.Set(heapFloor)
	os.Exit(cli.Run(newCommand()))
}

// newCommand returns kube-scheduler's own command with the plugin.
func newCommand() *cobra.Command {
	// Without this, a pod that waits for its group would get its node
	// nominated first. That is one more write for every pod, and after
	// a restart nodes would be held for pods that do not get them.
	err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{string(features.NominatedNodeNameForExpectation): false})
	if err != nil {
		panic(err) // the gate exists in this version of Kubernetes
	}
	l := newLease()
	r := relay.New("fluence_sidecar_")
	legacyregistry.Registerer().MustRegister(r)
	place, sort := fluence.Factories(relaying(r), l.held, fluence.ProcessIdentity{Name: ownName(), Version: version})
	return command(l, app.WithPlugin(fluence.Name, place), app.WithPlugin(fluence.SortName, sort))
}

// ownName returns the name of this process: the name of its pod, which is the name of its host.
func ownName() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}

// relaying returns a Dialer that connects to the sidecar and
// serves the sidecar's metrics as long as the scheduler runs.
func relaying(r *relay.Relay) fluence.Dialer {
	return func(ctx context.Context, args *fluence.Args) (fluence.Matcher, error) {
		c, err := dial(ctx, args)
		if err != nil {
			return nil, err
		}
		go r.Run(ctx, c.Metrics, func(err error) {
			klog.FromContext(ctx).V(2).Info("Cannot read the sidecar's metrics; they are left out", "reason", err.Error())
		})
		return c, nil
	}
}

// dial connects to the sidecar as long as the scheduler runs.
func dial(ctx context.Context, args *fluence.Args) (*client.Client, error) {
	o := client.Options{Timeout: args.MatchTimeout.Duration, Brief: true}
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
