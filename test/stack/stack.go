// Package stack runs Fluence on a test cluster: the controller, the
// sidecar and the scheduler, as processes with the rights of their
// service accounts. make run starts it, and the end-to-end tests test it.
package stack

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/cluster/tools"
)

// These are the names of a stack's processes, for cluster.Process.
const (
	Controller = "fluence-controller"
	Sidecar    = "fluence-sidecar"
	Scheduler  = "fluence-scheduler"
	// The standby is a second scheduler with its own sidecar.
	StandbyScheduler = "fluence-scheduler-2"
	StandbySidecar   = "fluence-sidecar-2"
)

// KubectlPlugin is the program of kubectl fluence.
const KubectlPlugin = "kubectl-fluence"

// Namespace is the namespace of the service accounts and leases.
const Namespace = "fluence-system"

// Config is how the stack runs. The zero value builds the
// binaries and runs all three programs with their defaults.
type Config struct {
	// Binaries is a folder with the three programs. Defaults to the folder that Build returns.
	Binaries string
	// Args override the plugin's arguments in manifests/scheduler-config.yaml.
	Args map[string]any
	// Profile changes the configuration of the scheduler before it is written.
	Profile func(config map[string]any)
	// SchedulerBinary runs instead of fluence-scheduler.
	SchedulerBinary string
	// SidecarBinary runs instead of fluence-sidecar, and SidecarArgs are further flags of the sidecar. A
	// flag that the chart sets too counts as it is here.
	SidecarBinary string
	SidecarArgs   []string
	// SidecarMetrics is the address of the sidecar's metrics. If it is empty,
	// no sidecar serves metrics. The standby's sidecar has another port.
	SidecarMetrics string
	// Standby runs a second scheduler with its own sidecar. It waits for the same lease.
	Standby bool
	// ControllerArgs are further flags of the controller.
	ControllerArgs []string
	// Server is the API server's address for scheduler and
	// controller, such as a proxy on loopback. They then have tokens
	// of their service accounts. Defaults to the API server itself.
	Server string
	// Chart installs the chart instead of the plain manifests. Nil installs the manifests.
	Chart *Chart
	// WithoutCRD leaves out the PodGroup CRD.
	WithoutCRD bool
	// WithoutWebhook leaves out the controller's webhook.
	WithoutWebhook bool
	// Verbosity is the verbosity of the logs. Zero means 2.
	Verbosity int
	// Log receives progress for a human reader. Defaults to io.Discard.
	Log io.Writer
}

// A Stack is Fluence running on a cluster.
type Stack struct {
	*cluster.Cluster
	cfg         Config
	root        string
	webhookPort int
	instances   []instance
	// controllerMetrics is the address of the controller's metrics.
	controllerMetrics string
	deployed          *deployed // nil without the chart
	update            *update   // nil except in Update
}

// Start installs what Fluence needs in the cluster, and starts the three
// processes. It returns when all are running and the webhook labels new
// objects. It does not wait until the scheduler and the sidecar are ready.
func Start(ctx context.Context, c *cluster.Cluster, cfg Config) (*Stack, error) {
	s, err := newStack(ctx, c, cfg)
	if err != nil {
		return nil, err
	}
	return s, s.run(ctx)
}

// Install installs what Fluence needs in the cluster. It starts nothing.
func Install(ctx context.Context, c *cluster.Cluster, cfg Config) (*Stack, error) {
	s, err := newStack(ctx, c, cfg)
	if err != nil {
		return nil, err
	}
	return s, s.install(ctx)
}

// newStack builds the programs, and chooses the addresses of the processes.
func newStack(ctx context.Context, c *cluster.Cluster, cfg Config) (*Stack, error) {
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
	return s, nil
}

// run installs what Fluence needs, starts the processes, and waits for the webhook.
func (s *Stack) run(ctx context.Context) error {
	if err := s.install(ctx); err != nil {
		return err
	}
	if err := s.saveAddresses(); err != nil {
		return err
	}
	processes := []string{Sidecar, Controller, Scheduler}
	if s.cfg.Standby {
		processes = append(processes, StandbySidecar, StandbyScheduler)
	}
	for _, process := range processes {
		if err := s.StartNamed(ctx, process); err != nil {
			return err
		}
	}
	if s.cfg.WithoutWebhook {
		return nil
	}
	return s.WaitWebhook(ctx)
}

// install applies the CRD, the roles, the FlowSchemas and the webhook's configuration.
func (s *Stack) install(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
	_, err := s.Client().CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
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

// InstallCRD installs the PodGroup CRD, and waits until the API server serves it.
func (s *Stack) InstallCRD(ctx context.Context) error {
	if _, _, err := s.Kubectl(ctx, "apply", "--server-side", "-f", filepath.Join(s.root, "manifests", "crds")); err != nil {
		return fmt.Errorf("apply the CRD: %w", err)
	}
	return s.WaitCRDs(ctx, "podgroups.scheduling.x-k8s.io")
}

// Socket returns the path of the sidecar's socket.
func (s *Stack) Socket() string { return s.socketOf(s.instances[0]) }

// Endpoint returns the sidecar's address.
func (s *Stack) Endpoint() string { return s.endpointOf(s.instances[0]) }

// Built returns the folder of this repository's programs.
func (s *Stack) Built() string { return s.cfg.Binaries }

// Example returns the path of a file of manifests/examples.
func (s *Stack) Example(name string) string {
	return filepath.Join(s.root, "manifests", "examples", name)
}

// StartSidecar starts the sidecar, even after it was killed.
func (s *Stack) StartSidecar(ctx context.Context) error { return s.startSidecar(ctx, s.instances[0]) }

// Reconfigure changes the configuration for the next start of a process.
func (s *Stack) Reconfigure(change func(*Config)) { change(&s.cfg) }

// StartController starts the controller, even after it was killed.
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
	return s.start(ctx, Controller, "controller", filepath.Join(s.cfg.Binaries, Controller), append(args, s.cfg.ControllerArgs...)...)
}

// StartScheduler starts the scheduler, even after it was killed.
func (s *Stack) StartScheduler(ctx context.Context) error {
	return s.startScheduler(ctx, s.instances[0])
}

// start starts the program of a container of the chart.
func (s *Stack) start(ctx context.Context, name, container, binary string, args ...string) error {
	path, args := s.command(container, binary, args)
	if kept, err := s.keeps(ctx, name, binary, path, args); kept || err != nil {
		return err
	}
	fmt.Fprintf(s.cfg.Log, "Starting %s\n", name)
	if _, err := s.StartProcess(ctx, name, path, args...); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	return nil
}

// kubeconfig returns the path of a kubeconfig for a service account of the namespace.
func (s *Stack) kubeconfig(ctx context.Context, account string) (string, error) {
	if s.cfg.Server != "" {
		return s.tokenKubeconfig(ctx, account, account+"-elsewhere.yaml", s.cfg.Server)
	}
	if s.deployed != nil {
		return s.deployed.kubeconfigs[account], nil
	}
	return s.KubeconfigFor("system:serviceaccount:"+Namespace+":"+account, "system:serviceaccounts", "system:serviceaccounts:"+Namespace)
}

// schedulerConfig writes manifests/scheduler-config.yaml, or the chart's
// configuration, with the changes for an instance. It returns the file's path.
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
	// A killed scheduler's lease runs out in seconds instead of a quarter of a
	// minute. It is long enough for a scheduler on a busy machine to keep it.
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
	if s.update != nil {
		before, err := os.ReadFile(path)
		s.update.changed[i.scheduler] = err != nil || !bytes.Equal(before, out)
	}
	if err := os.WriteFile(path, out, 0o600); err != nil {
		return "", fmt.Errorf("write the scheduler's configuration: %w", err)
	}
	return path, nil
}

// configSource returns the scheduler's configuration as it is installed.
func (s *Stack) configSource() ([]byte, error) {
	if s.deployed != nil {
		return s.deployed.config, nil
	}
	return os.ReadFile(filepath.Join(s.root, "manifests", "scheduler-config.yaml"))
}

// PluginArgs returns the plugin's arguments in a scheduler's
// configuration. A caller may change them in place.
func PluginArgs(config map[string]any) map[string]any {
	profile := config["profiles"].([]any)[0].(map[string]any)
	return profile["pluginConfig"].([]any)[0].(map[string]any)["args"].(map[string]any)
}
