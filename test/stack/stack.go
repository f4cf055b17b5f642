// Package stack runs Fluence itself on a test cluster: the controller, the
// sidecar and the scheduler, as processes with the rights of their own service
// accounts. It is what make run starts and what the end-to-end tests test.
package stack

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/cluster/tools"
)

// The processes of a stack, as cluster.Process knows them.
const (
	Controller = "fluence-controller"
	Sidecar    = "fluence-sidecar"
	Scheduler  = "fluence-scheduler"
	// The standby is a second scheduler with a sidecar of its own.
	StandbyScheduler = "fluence-scheduler-2"
	StandbySidecar   = "fluence-sidecar-2"
)

// KubectlPlugin is the program that kubectl fluence runs.
const KubectlPlugin = "kubectl-fluence"

// Namespace is where the service accounts and leases are.
const Namespace = "fluence-system"

// Config says how to run the stack. The zero value builds the binaries and runs
// all three with their defaults.
type Config struct {
	// Binaries is a folder that holds the three programs. Defaults to one that
	// Build fills.
	Binaries string
	// Args are set among the plugin's arguments, over those of
	// manifests/scheduler-config.yaml.
	Args map[string]any
	// Profile changes the configuration of the scheduler before it is written.
	Profile func(config map[string]any)
	// SchedulerBinary is run instead of fluence-scheduler.
	SchedulerBinary string
	// SidecarMetrics is the address at which the sidecar serves its metrics; empty
	// for none. The standby's has a port of its own.
	SidecarMetrics string
	// Standby runs a second scheduler with a sidecar of its own, which waits for
	// the same lease.
	Standby bool
	// ControllerArgs are further flags of the controller.
	ControllerArgs []string
	// Server is where scheduler and controller reach the API server, such as a proxy on
	// loopback, with tokens of their service accounts. Defaults to the API server itself.
	Server string
	// Chart installs the chart instead of the plain manifests; nil does not.
	Chart *Chart
	// WithoutCRD leaves the PodGroup CRD out.
	WithoutCRD bool
	// WithoutWebhook leaves the controller's webhook out.
	WithoutWebhook bool
	// Verbosity is that of the logs; 0 is 2.
	Verbosity int
	// Log receives progress for a human reader. Defaults to nowhere.
	Log io.Writer
}

// A Stack is Fluence running on a cluster.
type Stack struct {
	*cluster.Cluster
	cfg         Config
	root        string
	webhookPort int
	instances   []instance
	// controllerMetrics is the controller's address for them.
	controllerMetrics string
	deployed          *deployed // nil without the chart
}

// Start installs what Fluence needs in the cluster and starts its three
// processes. It returns when all are running and objects are labelled as they are
// created; that the rest is ready shows in what they do.
func Start(ctx context.Context, c *cluster.Cluster, cfg Config) (*Stack, error) {
	s, err := Install(ctx, c, cfg)
	if err != nil {
		return nil, err
	}
	processes := []string{Sidecar, Controller, Scheduler}
	if cfg.Standby {
		processes = append(processes, StandbySidecar, StandbyScheduler)
	}
	for _, process := range processes {
		if err := s.StartNamed(ctx, process); err != nil {
			return nil, err
		}
	}
	if !s.cfg.WithoutWebhook {
		if err := s.WaitWebhook(ctx); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Install installs what Fluence needs in the cluster and starts nothing.
func Install(ctx context.Context, c *cluster.Cluster, cfg Config) (*Stack, error) {
	if cfg.Log == nil {
		cfg.Log = io.Discard
	}
	if cfg.Verbosity == 0 {
		cfg.Verbosity = 2
	}
	root, err := tools.RepositoryRoot()
	if err != nil {
		return nil, err
	}
	s := &Stack{Cluster: c, cfg: cfg, root: root}
	if err := s.chooseInstances(); err != nil {
		return nil, err
	}
	if s.cfg.Binaries == "" {
		if s.cfg.Binaries, err = Build(ctx, cfg.Log); err != nil {
			return nil, err
		}
	}
	return s, s.install(ctx)
}

// install applies the CRD, the roles, the FlowSchemas and the webhook's configuration.
func (s *Stack) install(ctx context.Context) error {
	if _, _, err := s.Kubectl(ctx, "create", "namespace", Namespace); err != nil {
		return fmt.Errorf("create the namespace: %w", err)
	}
	if s.cfg.Chart != nil {
		return s.installChart(ctx)
	}
	fmt.Fprintln(s.cfg.Log, "Installing the PodGroup CRD, service accounts, roles and FlowSchemas")
	if !s.cfg.WithoutCRD {
		if err := s.InstallCRD(ctx); err != nil {
			return err
		}
	}
	if _, _, err := s.Kubectl(ctx, "apply", "-f", filepath.Join(s.root, "manifests", "rbac"), "-f", filepath.Join(s.root, "manifests", "flowcontrol")); err != nil {
		return fmt.Errorf("apply the roles and FlowSchemas: %w", err)
	}
	if s.cfg.WithoutWebhook {
		return nil
	}
	return s.installWebhook(ctx)
}

// InstallCRD makes PodGroup known to the API server.
func (s *Stack) InstallCRD(ctx context.Context) error {
	if _, _, err := s.Kubectl(ctx, "apply", "--server-side", "-f", filepath.Join(s.root, "manifests", "crds")); err != nil {
		return fmt.Errorf("apply the CRD: %w", err)
	}
	return s.WaitCRDs(ctx, "podgroups.scheduling.x-k8s.io")
}

// Socket is the path of the sidecar's socket.
func (s *Stack) Socket() string { return s.socketOf(s.instances[0]) }

// Endpoint is the sidecar's address.
func (s *Stack) Endpoint() string { return s.endpointOf(s.instances[0]) }

// Built is the folder of the programs of this repository.
func (s *Stack) Built() string { return s.cfg.Binaries }

// Example is the path of a file of manifests/examples.
func (s *Stack) Example(name string) string {
	return filepath.Join(s.root, "manifests", "examples", name)
}

// StartSidecar starts the sidecar, again if it was killed.
func (s *Stack) StartSidecar(ctx context.Context) error { return s.startSidecar(ctx, s.instances[0]) }

// Reconfigure changes the configuration that the next start of a process has.
func (s *Stack) Reconfigure(change func(*Config)) { change(&s.cfg) }

// StartController starts the controller, again if it was killed.
func (s *Stack) StartController(ctx context.Context) error {
	kubeconfig, err := s.kubeconfig(ctx, Controller)
	if err != nil {
		return err
	}
	args := append(s.deployedFlags("controller"),
		"--kubeconfig="+kubeconfig,
		"--leader-elect-resource-namespace="+Namespace,
		"--metrics-bind-address="+s.controllerMetrics,
		"--health-probe-bind-address=0",
		fmt.Sprintf("-v=%d", s.cfg.Verbosity),
	)
	args = append(args, s.webhookFlags()...)
	return s.start(ctx, Controller, filepath.Join(s.cfg.Binaries, Controller), append(args, s.cfg.ControllerArgs...)...)
}

// StartScheduler starts the scheduler, again if it was killed.
func (s *Stack) StartScheduler(ctx context.Context) error {
	return s.startScheduler(ctx, s.instances[0])
}

func (s *Stack) start(ctx context.Context, name, binary string, args ...string) error {
	fmt.Fprintf(s.cfg.Log, "Starting %s\n", name)
	if _, err := s.StartProcess(ctx, name, binary, args...); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	return nil
}

// kubeconfig is that of a service account of the namespace.
func (s *Stack) kubeconfig(ctx context.Context, account string) (string, error) {
	if s.cfg.Server != "" {
		return s.tokenKubeconfig(ctx, account, account+"-elsewhere.yaml", s.cfg.Server)
	}
	if s.deployed != nil {
		return s.deployed.kubeconfigs[account], nil
	}
	return s.KubeconfigFor("system:serviceaccount:"+Namespace+":"+account, "system:serviceaccounts", "system:serviceaccounts:"+Namespace)
}

// schedulerConfig writes manifests/scheduler-config.yaml, or the chart's, as an
// instance needs it.
func (s *Stack) schedulerConfig(i instance, kubeconfig string) (string, error) {
	text, err := s.configSource()
	if err != nil {
		return "", fmt.Errorf("read the scheduler's configuration: %w", err)
	}
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		return "", fmt.Errorf("read the scheduler's configuration: %w", err)
	}
	config["clientConnection"].(map[string]any)["kubeconfig"] = kubeconfig
	// A killed scheduler's lease runs out in seconds, not in a quarter of a minute;
	// but a busy machine must not lose it.
	election := config["leaderElection"].(map[string]any)
	election["leaseDuration"], election["renewDeadline"], election["retryPeriod"] = "8s", "6s", "500ms"
	args := PluginArgs(config)
	args["endpoint"] = s.endpointOf(i)
	maps.Copy(args, s.cfg.Args)
	if s.cfg.Profile != nil {
		s.cfg.Profile(config)
	}
	out, err := yaml.Marshal(config)
	if err != nil {
		return "", fmt.Errorf("write the scheduler's configuration: %w", err)
	}
	path := filepath.Join(s.Dir(), i.scheduler+".yaml")
	if err := os.WriteFile(path, out, 0o600); err != nil {
		return "", fmt.Errorf("write the scheduler's configuration: %w", err)
	}
	return path, nil
}

// configSource is the scheduler's configuration as it is installed.
func (s *Stack) configSource() ([]byte, error) {
	if s.deployed != nil {
		return s.deployed.config, nil
	}
	return os.ReadFile(filepath.Join(s.root, "manifests", "scheduler-config.yaml"))
}

// PluginArgs returns the plugin's arguments in a scheduler's configuration, to be
// changed in place.
func PluginArgs(config map[string]any) map[string]any {
	profile := config["profiles"].([]any)[0].(map[string]any)
	return profile["pluginConfig"].([]any)[0].(map[string]any)["args"].(map[string]any)
}
