// Command faulty-scheduler is fluence-scheduler with three more plugins. Faulty's Filter fails for
// some pods. After such an error the framework calls no plugin at the end of the scheduling cycle.
// Holding keeps a pod out of the queue. Gate stops pods before the match or before they are bound.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of the API client
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/pkg/features"
	fwkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/flux-k8s/fluence/pkg/fluence"
	"github.com/flux-k8s/fluence/sidecar/client"
)

func main() {
	// The same as in fluence-scheduler.
	err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{string(features.NominatedNodeNameForExpectation): false})
	if err != nil {
		panic(err)
	}
	place, sort := fluence.Factories(dial, leading)
	os.Exit(cli.Run(app.NewSchedulerCommand(
		app.WithPlugin(fluence.Name, place),
		app.WithPlugin(fluence.SortName, sort),
		app.WithPlugin("Faulty", func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return faulty{}, nil }),
		app.WithPlugin("Holding", newHolding),
		app.WithPlugin("Gate", newGate),
	)))
}

// leading reports whether this process holds the lease, or needs none.
func leading() bool {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return false
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "leader_election_master_status" && m.GetGauge().GetValue() == 0 {
				return false
			}
		}
	}
	return true
}

func dial(_ context.Context, args *fluence.Args) (fluence.Matcher, error) {
	return client.Dial(args.Endpoint, client.Options{Timeout: args.MatchTimeout.Duration})
}

// faulty fails only after the match. When Fluence runs the filters before a
// match, the pod has no node yet and all nodes are filtered. The key that
// faulty reads exists only in a cycle that Fluence has narrowed to one node.
type faulty struct{}

// Name returns the plugin's name.
func (faulty) Name() string { return "Faulty" }

// Filter returns an error for pods with the label faulty, after the match.
func (faulty) Filter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ fwk.NodeInfo) *fwk.Status {
	if _, err := state.Read(fluence.Name + "/node"); err == nil && pod.Labels["faulty"] != "" {
		return fwk.AsStatus(errors.New("faulty on purpose"))
	}
	return nil
}

// holding keeps the pod of a name out of the queue until it has the label released.
type holding struct {
	Pod string `json:"pod"`
}

var _ fwk.EnqueueExtensions = &holding{}

func newHolding(_ context.Context, args runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	h := &holding{}
	if err := fwkruntime.DecodeInto(args, h); err != nil {
		return nil, fmt.Errorf("plugin Holding: %w", err)
	}
	return h, nil
}

// Name returns the plugin's name.
func (*holding) Name() string { return "Holding" }

// PreEnqueue rejects the pod.
func (h *holding) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	if pod.Name == h.Pod && pod.Labels["released"] == "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "held on purpose")
	}
	return nil
}

// EventsToRegister makes the queue try the pod again when its labels change.
func (*holding) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel}}}, nil
}
