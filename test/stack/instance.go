package stack

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/test/cluster"
)

// An instance is a scheduler with its sidecar. The two instances of a stack compete for one lease.
type instance struct {
	scheduler, sidecar string
	schedulerPort      int
	socket             string
	// metrics is the address of the sidecar's metrics. It is empty if the sidecar serves none.
	metrics string
}

// chooseInstances chooses the addresses of the first instance and of the standby.
func (s *Stack) chooseInstances() error {
	ports, err := cluster.FreePorts(4)
	if err != nil {
		return err
	}
	s.instances = []instance{
		{scheduler: Scheduler, sidecar: Sidecar, schedulerPort: ports[0], socket: "fluxion.sock", metrics: s.cfg.SidecarMetrics},
		{scheduler: StandbyScheduler, sidecar: StandbySidecar, schedulerPort: ports[1], socket: "fluxion-2.sock"},
	}
	if s.cfg.SidecarMetrics != "" {
		s.instances[1].metrics = fmt.Sprintf("127.0.0.1:%d", ports[2])
	}
	s.controllerMetrics = fmt.Sprintf("127.0.0.1:%d", ports[3])
	return nil
}

// instanceOf returns the instance of a process.
func (s *Stack) instanceOf(process string) (instance, error) {
	n := slices.IndexFunc(s.instances, func(i instance) bool { return i.scheduler == process || i.sidecar == process })
	if n < 0 {
		return instance{}, fmt.Errorf("process %q: no scheduler or sidecar has this name", process)
	}
	return s.instances[n], nil
}

// StartNamed starts one of Fluence's processes by its name, even after it was killed.
// The standby's processes may be started at any time, even without Config.Standby.
func (s *Stack) StartNamed(ctx context.Context, process string) error {
	if process == Controller {
		return s.StartController(ctx)
	}
	i, err := s.instanceOf(process)
	if err != nil {
		return err
	}
	if process == i.sidecar {
		return s.startSidecar(ctx, i)
	}
	return s.startScheduler(ctx, i)
}

func (s *Stack) socketOf(i instance) string   { return filepath.Join(s.Dir(), i.socket) }
func (s *Stack) endpointOf(i instance) string { return "unix://" + s.socketOf(i) }

func (s *Stack) startSidecar(ctx context.Context, i instance) error {
	binary, args := s.cfg.sidecarCommand(s.deployedFlags("sidecar"), s.endpointOf(i), i.metrics)
	return s.start(ctx, i.sidecar, "sidecar", binary, args...)
}

// sidecarCommand returns the program and the flags of a sidecar. deployed are the flags of the chart.
// Of a flag that is given twice, the last one counts.
func (c *Config) sidecarCommand(deployed []string, endpoint, metrics string) (binary string, args []string) {
	if binary = c.SidecarBinary; binary == "" {
		binary = filepath.Join(c.Binaries, Sidecar)
	}
	return binary, slices.Concat(deployed, []string{"--listen=" + endpoint, "--metrics-listen=" + metrics}, c.SidecarArgs)
}

func (s *Stack) startScheduler(ctx context.Context, i instance) error {
	kubeconfig, err := s.kubeconfig(ctx, Scheduler)
	if err != nil {
		return err
	}
	config, err := s.schedulerConfig(i, kubeconfig)
	if err != nil {
		return err
	}
	cert, key, err := s.ServingCertificate(i.scheduler)
	if err != nil {
		return err
	}
	binary := s.cfg.SchedulerBinary
	if binary == "" {
		binary = filepath.Join(s.cfg.Binaries, Scheduler)
	}
	return s.start(ctx, i.scheduler, "scheduler", binary, append(s.deployedFlags("scheduler"),
		"--config="+config,
		"--authentication-kubeconfig="+kubeconfig,
		"--authorization-kubeconfig="+kubeconfig,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", i.schedulerPort),
		"--tls-cert-file="+cert,
		"--tls-private-key-file="+key,
		"--authorization-always-allow-paths=/metrics,/healthz,/readyz,/livez",
		fmt.Sprintf("-v=%d", s.cfg.Verbosity),
	)...)
}

// A Lease is the state of the schedulers' lease.
type Lease struct {
	// Holder is the identity of the leader, which differs
	// after each start. It is empty if there is no leader.
	Holder string
	// Expires is when another scheduler may take the lease, by the holder's clock.
	Expires time.Time
}

// SchedulerLease returns the lease of the schedulers. It returns a zero Lease if there is none.
func (s *Stack) SchedulerLease(ctx context.Context) (Lease, error) {
	lease, err := s.Client().CoordinationV1().Leases(Namespace).Get(ctx, Scheduler, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Lease{}, nil
	}
	if err != nil {
		return Lease{}, fmt.Errorf("read the schedulers' lease: %w", err)
	}
	var l Lease
	if lease.Spec.HolderIdentity != nil {
		l.Holder = *lease.Spec.HolderIdentity
	}
	if at, d := lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds; at != nil && d != nil {
		l.Expires = at.Add(time.Duration(*d) * time.Second)
	}
	return l, nil
}

// leaderTimeout bounds the question to a scheduler
// whether it leads. A stopped scheduler does not answer.
const leaderTimeout = time.Second

// Leader returns the process that leads: the lease is valid, and this scheduler alone
// reports that it holds the lease. It returns "" if none leads, or none answers.
func (s *Stack) Leader(ctx context.Context) (string, error) {
	lease, err := s.SchedulerLease(ctx)
	if err != nil || lease.Holder == "" || !lease.Expires.After(time.Now()) {
		return "", err
	}
	var leaders []string
	for _, i := range s.instances {
		p := s.Process(i.scheduler)
		if p == nil || p.State() != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, leaderTimeout)
		if leads, err := s.Metric(ctx, i.scheduler, "leader_election_master_status"); err == nil && leads == 1 {
			leaders = append(leaders, i.scheduler)
		}
		cancel()
	}
	if len(leaders) != 1 {
		return "", nil
	}
	return leaders[0], nil
}
