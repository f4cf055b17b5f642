package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/flux-k8s/fluence/pkg/controller/podgroup"
	"github.com/flux-k8s/fluence/pkg/lifeline"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// Requests to the API server per second, and how many at once: a burst of Jobs
// must not wait for the client. Priority and fairness protect the server.
const (
	clientQPS   = 100
	clientBurst = 200
)

// run runs the controller until ctx is done. It fails when it loses its lease, for
// another replica works then, or the API server.
func run(ctx context.Context, o options) error {
	cfg, err := restConfig(o.kubeconfig)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return fmt.Errorf("register the types of Kubernetes: %w", err)
	}
	if err := scheduling.AddToScheme(scheme); err != nil {
		return fmt.Errorf("register PodGroup: %w", err)
	}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:                        scheme,
		Logger:                        klog.Background(),
		Cache:                         cache.Options{ByObject: podgroup.CacheByObject(o.podGroup)},
		Client:                        client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: new(true)}},
		Metrics:                       metricsserver.Options{BindAddress: o.metricsAddr},
		HealthProbeBindAddress:        o.probeAddr,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              podgroup.FieldManager,
		LeaderElectionNamespace:       o.leaseNamespace,
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return fmt.Errorf("make the manager: %w", err)
	}
	for _, add := range []func(string, healthz.Checker) error{mgr.AddHealthzCheck, mgr.AddReadyzCheck} {
		if err := add("ping", healthz.Ping); err != nil {
			return fmt.Errorf("serve health: %w", err)
		}
	}
	if err := podgroup.AddToManager(ctx, mgr, o.podGroup); err != nil {
		return err
	}
	if err := addLifeline(mgr, cfg); err != nil {
		return err
	}
	if o.withWebhook {
		if err := addWebhook(mgr, o); err != nil {
			return err
		}
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run the controller: %w", err)
	}
	return nil
}

// addLifeline ends the manager when it has lost the API server.
func addLifeline(mgr ctrl.Manager, cfg *rest.Config) error {
	ping, err := lifeline.Version(cfg)
	if err != nil {
		return err
	}
	err = mgr.Add(always{manager.RunnableFunc(func(ctx context.Context) error {
		return lifeline.Hold(ctx, ping, lifeline.DefaultPatience)
	})})
	if err != nil {
		return fmt.Errorf("watch over the connection: %w", err)
	}
	return nil
}

// always runs whether or not this replica leads.
type always struct{ manager.Runnable }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (always) NeedLeaderElection() bool { return false }

// restConfig reads the kubeconfig file or, without one, the service account.
func restConfig(kubeconfig string) (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	cfg.UserAgent = rest.DefaultKubernetesUserAgent()
	cfg.QPS, cfg.Burst = clientQPS, clientBurst
	return cfg, nil
}
