package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
)

// startControlPlane starts all components, and returns when pods can be created.
func (c *Cluster) startControlPlane(ctx context.Context, cfg Config) error {
	if err := c.startEtcd(ctx, cfg); err != nil {
		return err
	}
	if err := c.startAPIServer(ctx, cfg); err != nil {
		return err
	}
	if err := c.connect(); err != nil {
		return err
	}
	if _, err := c.KubeconfigFor(adminUser, adminGroup); err != nil {
		return err
	}
	if err := c.authorise(ctx); err != nil {
		return err
	}
	if cfg.APIOnly {
		return c.makeServiceAccount(ctx)
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.startControllerManager(gctx, cfg) })
	g.Go(func() error { return c.startKwok(gctx, cfg) })
	if !cfg.NoKubelet {
		g.Go(func() error { return c.startKubelet(gctx, cfg) })
	}
	if cfg.StockScheduler {
		g.Go(func() error { return c.startScheduler(gctx, cfg) })
	}
	g.Go(func() error { return c.waitServiceAccount(gctx) })
	return g.Wait()
}

func (c *Cluster) startEtcd(ctx context.Context, cfg Config) error {
	return c.launch(ctx, 2, func(ports []int) component { return c.etcd(cfg, ports) })
}

// etcd returns the component etcd. It never waits for the disk,
// so that its data do not survive a crash of the machine.
func (c *Cluster) etcd(cfg Config, ports []int) component {
	client, peer := loopbackURL("http", ports[0]), loopbackURL("http", ports[1])
	c.state.Etcd = client
	return component{
		Name: Etcd,
		Path: c.bins.Etcd,
		URL:  client + "/health",
		Args: append([]string{
			"--data-dir=" + filepath.Join(c.dir.path, "etcd"),
			"--listen-client-urls=" + client,
			"--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer,
			"--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=default=" + peer,
			"--unsafe-no-fsync",
			"--quota-backend-bytes=8589934592",
			"--auto-compaction-mode=periodic",
			"--auto-compaction-retention=5m",
			"--log-level=warn",
		}, cfg.ExtraArgs[Etcd]...),
	}
}

func (c *Cluster) startAPIServer(ctx context.Context, cfg Config) error {
	audit, err := c.auditFlags(cfg)
	if err != nil {
		return err
	}
	pki := func(name string) string { return filepath.Join(c.pkiDir(), name) }
	return c.launch(ctx, 1, func(ports []int) component {
		c.state.Server = loopbackURL("https", ports[0])
		return component{
			Name: KubeAPIServer,
			Path: c.bins.APIServer,
			URL:  c.state.Server + "/readyz",
			Args: append(append([]string{
				"--etcd-servers=" + c.state.Etcd,
				"--bind-address=127.0.0.1",
				"--advertise-address=127.0.0.1",
				fmt.Sprintf("--secure-port=%d", ports[0]),
				"--endpoint-reconciler-type=none", // it refuses loopback, the only address
				"--service-cluster-ip-range=10.0.0.0/16",
				"--tls-cert-file=" + pki("serving.crt"),
				"--tls-private-key-file=" + pki("serving.key"),
				"--client-ca-file=" + pki("ca.crt"),
				"--authorization-mode=RBAC",
				"--allow-privileged=true",
				"--service-account-issuer=https://kubernetes.default.svc",
				"--service-account-key-file=" + pki("sa.pub"),
				"--service-account-signing-key-file=" + pki("sa.key"),
				"--requestheader-client-ca-file=" + pki("front-proxy-ca.crt"),
				"--requestheader-allowed-names=front-proxy-client",
				"--requestheader-username-headers=X-Remote-User",
				"--requestheader-group-headers=X-Remote-Group",
				"--requestheader-extra-headers-prefix=X-Remote-Extra-",
				"--proxy-client-cert-file=" + pki("front-proxy-client.crt"),
				"--proxy-client-key-file=" + pki("front-proxy-client.key"),
				"--runtime-config=" + joinSwitches(cfg.RuntimeConfig),
				c.FeatureGatesFlag(),
			}, audit...), cfg.ExtraArgs[KubeAPIServer]...),
		}
	})
}

func (c *Cluster) startControllerManager(ctx context.Context, cfg Config) error {
	kubeconfig, err := c.KubeconfigFor("system:kube-controller-manager")
	if err != nil {
		return err
	}
	pki := func(name string) string { return filepath.Join(c.pkiDir(), name) }
	return c.launch(ctx, 1, func(ports []int) component {
		return component{
			Name: KubeControllerManager,
			Path: c.bins.ControllerManager,
			URL:  loopbackURL("https", ports[0]) + "/healthz",
			Args: append(append(c.ServingFlags(ports[0], kubeconfig),
				"--leader-elect=false",
				"--controllers=*,-ttl-controller", // writes every node, for real kubelets
				"--use-service-account-credentials",
				"--service-account-private-key-file="+pki("sa.key"),
				"--root-ca-file="+pki("ca.crt"),
				"--cluster-signing-cert-file="+pki("ca.crt"),
				"--cluster-signing-key-file="+pki("ca.key"),
				"--kube-api-qps=300", // with the default of 20, Jobs create their pods slowly
				"--kube-api-burst=600",
				"--node-monitor-grace-period="+max(50*time.Second, cfg.NodeLease*5/4).String(),
				c.FeatureGatesFlag(),
			), cfg.ExtraArgs[KubeControllerManager]...),
		}
	})
}

func (c *Cluster) startScheduler(ctx context.Context, cfg Config) error {
	kubeconfig, err := c.KubeconfigFor("system:kube-scheduler")
	if err != nil {
		return err
	}
	config, err := c.writeFile("kube-scheduler.yaml", fmt.Appendf(nil, schedulerConfig, kubeconfig))
	if err != nil {
		return err
	}
	return c.launch(ctx, 1, func(ports []int) component {
		return component{
			Name: KubeScheduler,
			Path: c.bins.Scheduler,
			URL:  loopbackURL("https", ports[0]) + "/readyz",
			Args: append(append(c.ServingFlags(ports[0], kubeconfig),
				"--config="+config,
				c.FeatureGatesFlag(),
			), cfg.ExtraArgs[KubeScheduler]...),
		}
	})
}

// schedulerConfig needs the path of a kubeconfig. With the default limit of 50
// requests a second the scheduler would be the slowest part of the cluster.
const schedulerConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
clientConnection:
  kubeconfig: %q
  qps: 1000
  burst: 2000
`

func loopbackURL(scheme string, port int) string {
	return fmt.Sprintf("%s://127.0.0.1:%d", scheme, port)
}

// readText reads a file that is part of a component's configuration.
func readText(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read a component's configuration: %w", err)
	}
	return text, nil
}
