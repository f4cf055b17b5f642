package contender

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/cluster/process"
	"github.com/flux-k8s/fluence/test/cluster/tools"
	"github.com/flux-k8s/fluence/test/stack"
)

// These are the names of the contenders' processes in figures.
const (
	Binder     = "binder"
	Scheduler  = "scheduler"
	Sidecar    = "sidecar"
	Controller = "controller"
)

// APIServer is the name of the API server in figures.
const APIServer = "apiserver"

// kubeSchedulerUser is the user of kube-scheduler and of the clients that
// only bind. It determines their rights and their place in flow control.
const kubeSchedulerUser = "system:kube-scheduler"

// A Stand is a cluster on which every contender can be
// started. All of them run on it with what Fluence installs.
type Stand struct {
	*cluster.Cluster
	fluence *stack.Stack
	// binder is the path of the client that only binds.
	binder string
	// kubeconfig is the path of kubeSchedulerUser's kubeconfig.
	kubeconfig string
	// config is the path of kube-scheduler's configuration.
	config string
	// args override the chart's arguments of the plugin for every contender.
	args map[string]any
}

// Config is how a Stand runs the contenders.
type Config struct {
	// Args override the chart's arguments of the plugin Fluence.
	Args map[string]any
	// Profiling makes Fluence's scheduler serve profiles, as kube-scheduler does by default.
	Profiling bool
	// Log receives progress for a human reader.
	Log io.Writer
}

// NewStand installs Fluence with the chart, except for its webhook and
// Deployments. It builds what the contenders need.
func NewStand(ctx context.Context, c *cluster.Cluster, cfg Config) (*Stand, error) {
	fluence, err := stack.Install(ctx, c, stack.Config{
		Chart:          &stack.Chart{Set: []string{"replicas=0"}},
		WithoutWebhook: true,
		Profile:        cfg.profile,
		Log:            cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	fluence.Reconfigure(func(cfg *stack.Config) { cfg.Log = io.Discard })
	s := &Stand{Cluster: c, fluence: fluence, args: cfg.Args}
	if s.binder, err = stack.BuildProgram(ctx, c.Dir(), "./test/perf/cluster/binder"); err != nil {
		return nil, err
	}
	if s.kubeconfig, err = c.KubeconfigFor(kubeSchedulerUser); err != nil {
		return nil, err
	}
	return s, s.writeConfig()
}

// profile gives the schedulers' lease its default times, which are the
// chart's, because the times for tests would be too short. It also
// turns profiling on or leaves it as it is.
func (c Config) profile(config map[string]any) {
	if c.Profiling {
		config["enableProfiling"] = true
	}
	election := config["leaderElection"].(map[string]any)
	for _, key := range []string{"leaseDuration", "renewDeadline", "retryPeriod"} {
		delete(election, key)
	}
}

// writeConfig writes the configuration of kube-scheduler: its
// defaults, with the API client limits of Fluence's scheduler.
func (s *Stand) writeConfig() error {
	root, err := tools.RepositoryRoot()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, "manifests", "scheduler-config.yaml"))
	if err != nil {
		return fmt.Errorf("read the scheduler's configuration: %w", err)
	}
	var ours struct {
		ClientConnection map[string]any `json:"clientConnection"`
	}
	if err := yaml.Unmarshal(text, &ours); err != nil {
		return fmt.Errorf("read the scheduler's configuration: %w", err)
	}
	connection := map[string]any{"kubeconfig": s.kubeconfig}
	for _, key := range []string{"qps", "burst"} {
		if ours.ClientConnection[key] == nil {
			return fmt.Errorf("manifests/scheduler-config.yaml: clientConnection.%s is not set", key)
		}
		connection[key] = ours.ClientConnection[key]
	}
	out, err := yaml.Marshal(map[string]any{
		"apiVersion":       "kubescheduler.config.k8s.io/v1",
		"kind":             "KubeSchedulerConfiguration",
		"leaderElection":   map[string]any{"leaderElect": false},
		"clientConnection": connection,
	})
	if err != nil {
		return fmt.Errorf("write the configuration of kube-scheduler: %w", err)
	}
	s.config = filepath.Join(s.Dir(), "bench-kube-scheduler.yaml")
	if err := os.WriteFile(s.config, out, 0o600); err != nil {
		return fmt.Errorf("write the configuration of kube-scheduler: %w", err)
	}
	return nil
}

// Start starts a contender, which then binds the pods of a namespace. It returns
// the processes by their names in figures. After an error none is left running.
func (s *Stand) Start(ctx context.Context, spec Spec, namespace string) (map[string]*process.Process, error) {
	var running map[string]*process.Process
	var err error
	switch spec.sort {
	case binder:
		running, err = s.startBinder(ctx, spec, namespace)
	case kubeScheduler:
		running, err = s.startKubeScheduler(ctx, spec)
	case fluence:
		running, err = s.startFluence(ctx, spec)
	}
	if err != nil {
		Stop(context.WithoutCancel(ctx), running)
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	return running, nil
}

func (s *Stand) startBinder(ctx context.Context, spec Spec, namespace string) (map[string]*process.Process, error) {
	p, err := s.StartProcess(ctx, "bench-binder", s.binder,
		"-kubeconfig="+s.kubeconfig,
		"-namespace="+namespace,
		fmt.Sprintf("-workers=%d", spec.workers),
		fmt.Sprintf("-watches=%d", spec.watches),
		fmt.Sprintf("-events=%t", spec.events))
	if err != nil {
		return nil, err
	}
	return map[string]*process.Process{Binder: p}, nil
}

func (s *Stand) startKubeScheduler(ctx context.Context, spec Spec) (map[string]*process.Process, error) {
	ports, err := cluster.FreePorts(1)
	if err != nil {
		return nil, err
	}
	args := append(s.ServingFlags(ports[0], s.kubeconfig), "--config="+s.config, "-v=2")
	if spec.gates {
		args = append(args, s.FeatureGatesFlag())
	}
	p, err := s.StartProcess(ctx, "bench-kube-scheduler", s.Binaries().Scheduler, args...)
	if err != nil {
		return nil, err
	}
	return map[string]*process.Process{Scheduler: p}, nil
}

func (s *Stand) startFluence(ctx context.Context, spec Spec) (map[string]*process.Process, error) {
	args := map[string]any{}
	maps.Copy(args, s.args)
	if spec.events {
		args["podEvents"] = "always"
	}
	s.fluence.Reconfigure(func(cfg *stack.Config) { cfg.Args = args })
	running := map[string]*process.Process{}
	for _, p := range []struct{ figure, name string }{
		{Sidecar, stack.Sidecar}, {Controller, stack.Controller}, {Scheduler, stack.Scheduler},
	} {
		if err := s.fluence.StartNamed(ctx, p.name); err != nil {
			return running, err
		}
		running[p.figure] = s.Process(p.name)
	}
	return running, nil
}

// Stop kills the processes of a contender.
func Stop(ctx context.Context, running map[string]*process.Process) {
	for _, p := range running {
		_ = p.Kill(ctx) // it has ended already, or ctx has, and the cluster ends the rest
	}
}
