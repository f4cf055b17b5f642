// Package webhook labels pods and workloads that ask for the Fluence scheduler
// with their group and its size, as they are created, and warns their user of whole nodes
// that the group will not get.
//
// It is a hint, for those who look at objects and for programs that select them by
// label, and never a condition: scheduler and controller compute the same from the
// objects themselves. So it fails open, writes labels and one annotation only,
// never over what a user wrote, and has no side effects: a dry run is safe.
package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/flux-k8s/fluence/pkg/group"
)

// The names that manifests/webhook and manifests/rbac use.
const (
	// ConfigurationName is that of the MutatingWebhookConfiguration.
	ConfigurationName = "fluence-webhook"
	// ServiceName is that of the Service before the replicas.
	ServiceName = "fluence-webhook"
	// SecretName is that of the Secret that holds the certificate.
	SecretName = "fluence-webhook-cert"
	// Path is where the webhook is served.
	Path = "/label"
)

const fieldManager = "fluence-controller"

// Config is what an operator may choose. Start from DefaultConfig.
type Config struct {
	// SchedulerName is what pods ask for in spec.schedulerName. The match conditions
	// of the MutatingWebhookConfiguration name it, too. Defaults to "fluence".
	SchedulerName string
	// Address is the IP address to listen on; empty for all. Defaults to all.
	Address string
	// Port is the TCP port to listen on. Defaults to 9443.
	Port int
	// CertDir is a folder with tls.crt and tls.key, which are read again when they
	// change; the authority is then somebody else's to write into the configuration.
	// Empty, the default, is that the program sees to both itself.
	CertDir string
	// Namespace is that of the Service and of the Secret. Needed without CertDir.
	Namespace string
	// DNSNames are further names of the server, beside the Service's, for a
	// configuration that names a URL. Defaults to none.
	DNSNames []string
	// CertificatePoll is the time between two looks at Secret and configuration, and
	// between two attempts to serve. Defaults to 10s.
	CertificatePoll time.Duration
	// CertificateTimeout bounds one such look. Defaults to 5s.
	CertificateTimeout time.Duration
	// WholeNodes is the scheduler's argument wholeNodes: in which namespaces annotations may
	// ask for whole nodes. Who creates what asks for them elsewhere is warned. Where the
	// scheduler's own policy gives whole nodes to all, it is to be group.WholeNodesAll. Defaults
	// to group.WholeNodesLabelled.
	WholeNodes string
	// LookupTimeout bounds the time that is spent for one object on looking up what
	// controls it, and its namespace; what is not known by then is left out. Defaults to 1s.
	LookupTimeout time.Duration
}

// DefaultConfig returns the configuration of an operator who chooses nothing.
func DefaultConfig() Config {
	return Config{
		SchedulerName:      "fluence",
		Port:               webhook.DefaultPort,
		CertificatePoll:    10 * time.Second,
		CertificateTimeout: 5 * time.Second,
		WholeNodes:         group.WholeNodesLabelled,
		LookupTimeout:      time.Second,
	}
}

func (c Config) validate() error {
	switch {
	case c.SchedulerName == "":
		return errors.New("schedulerName: must not be empty")
	case c.SchedulerName == corev1.DefaultSchedulerName:
		return errors.New("schedulerName: must not be that of the default scheduler, or every pod would be labelled")
	case c.Address != "" && net.ParseIP(c.Address) == nil:
		return fmt.Errorf("address: %q: must be an IP address", c.Address)
	case c.Port < 1 || c.Port > 65535:
		return fmt.Errorf("port: %d: must be from 1 to 65535", c.Port)
	case c.CertDir == "" && c.Namespace == "":
		return errors.New("namespace: must not be empty unless certDir is given")
	case c.CertificatePoll <= 0:
		return fmt.Errorf("certificatePoll: %v: must be positive", c.CertificatePoll)
	case c.CertificateTimeout <= 0:
		return fmt.Errorf("certificateTimeout: %v: must be positive", c.CertificateTimeout)
	case !slices.Contains(group.WholeNodesModes(), c.WholeNodes):
		return fmt.Errorf("wholeNodes: %q: must be one of %q", c.WholeNodes, group.WholeNodesModes())
	case c.LookupTimeout <= 0:
		return fmt.Errorf("lookupTimeout: %v: must be positive", c.LookupTimeout)
	}
	for _, name := range c.DNSNames {
		if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
			return fmt.Errorf("dnsNames: %q: %s", name, wrong[0])
		}
	}
	return nil
}

// AddToManager adds the webhook to a manager, which serves it whether or not it
// leads. The manager's cache must hold Jobs, ReplicaSets and StatefulSets, and of
// their specs at least what says how many pods they make. Without the rights to
// its Secret, without a configuration, a readable CertDir or a port to listen on,
// the webhook says so in the log and tries again; nothing else of the manager
// suffers, but that it is not ready: the API server is not to be led here.
func AddToManager(mgr manager.Manager, config Config) error {
	if err := config.validate(); err != nil {
		return err
	}
	found := newOwnerReader(mgr.GetClient(), mgr.GetAPIReader(), mgr.GetRESTMapper(), config.LookupTimeout)
	read := newNamespaces(mgr.GetAPIReader(), config.LookupTimeout)
	counted, err := newObjectCounter(metrics.Registry)
	if err != nil {
		return err
	}
	end, err := newExpiryGauge(metrics.Registry)
	if err != nil {
		return err
	}
	failed, err := newErrorCounter(metrics.Registry)
	if err != nil {
		return err
	}
	s := &server{config: config, clock: clock.RealClock{}, handler: &handler{
		scheduler: config.SchedulerName, find: found.find, timeout: config.LookupTimeout, outcomes: counted,
		whole: wholeRule{mode: config.WholeNodes, label: read.wholeNodes},
	}}
	if config.CertDir == "" {
		// Not the manager's client, which would watch all Secrets.
		direct, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()})
		if err != nil {
			return fmt.Errorf("make a client for certificates: %w", err)
		}
		s.certificates = &certificates{config: config, client: direct, clock: clock.RealClock{}, loaded: make(chan struct{}), expiry: end, errorCount: failed}
		if err := mgr.Add(withLogger{s.certificates, mgr}); err != nil {
			return fmt.Errorf("add the certificates: %w", err)
		}
	}
	if err := mgr.Add(withLogger{s, mgr}); err != nil {
		return fmt.Errorf("add the webhook: %w", err)
	}
	if err := mgr.AddReadyzCheck("webhook", s.ready); err != nil {
		return fmt.Errorf("add the webhook to what is ready: %w", err)
	}
	return nil
}

// A server serves the webhook once there is a certificate.
type server struct {
	config       Config
	handler      admission.Handler
	certificates *certificates // nil if they are in a folder
	clock        clock.Clock
	// started checks the listener of the current attempt; nil before the first.
	started atomic.Pointer[healthz.Checker]
}

// ready says whether the webhook answers, to the prober of the manager.
func (s *server) ready(req *http.Request) error {
	started := s.started.Load()
	if started == nil {
		return errors.New("there is no certificate yet")
	}
	return (*started)(req)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (s *server) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable. It never fails: while it cannot serve, the API
// server goes on without the webhook.
func (s *server) Start(ctx context.Context) error {
	options := webhook.Options{Host: s.config.Address, Port: s.config.Port, CertDir: s.config.CertDir}
	// Over HTTP/2 one connection of anybody's makes very many requests at once.
	options.TLSOpts = []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }}
	if s.certificates != nil {
		select {
		case <-s.certificates.loaded:
		case <-ctx.Done():
			return nil
		}
		options.TLSOpts = append(options.TLSOpts, func(c *tls.Config) { c.GetCertificate = s.certificates.serving })
	}
	logger := klog.FromContext(ctx)
	logger.Info("Serving the webhook", "address", s.config.Address, "port", s.config.Port, "path", Path)
	for told := ""; ; {
		err := s.serve(ctx, options)
		if err != nil && ctx.Err() == nil && err.Error() != told {
			told = err.Error()
			logger.Error(err, "Cannot serve the webhook", "again", s.config.CertificatePoll)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.clock.After(s.config.CertificatePoll):
		}
	}
}

// serve serves until ctx ends, or returns why it cannot.
func (s *server) serve(ctx context.Context, options webhook.Options) error {
	// What an attempt leaves running, such as the watch of a folder, ends with it.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	srv := webhook.NewServer(options)
	srv.Register(Path, &admission.Webhook{Handler: s.handler})
	s.started.Store(new(srv.StartedChecker()))
	if err := srv.Start(ctx); err != nil {
		return fmt.Errorf("serve the webhook: %w", err)
	}
	return nil
}

// withLogger runs a part of the webhook with the manager's logger in its context.
type withLogger struct {
	runnable
	mgr manager.Manager
}

type runnable interface {
	manager.Runnable
	manager.LeaderElectionRunnable
}

// Start implements manager.Runnable.
func (w withLogger) Start(ctx context.Context) error {
	return w.runnable.Start(klog.NewContext(ctx, w.mgr.GetLogger()))
}
