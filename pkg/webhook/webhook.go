// Package webhook labels pods and workloads that ask for the Fluence scheduler with their group and
// its size, when they are created. It warns the user if a request for whole nodes will be denied, and of labels
// and annotations that have no effect or a wrong value.
//
// The labels are a hint, for users who read objects and for programs that select objects by label.
// Nothing depends on the labels: scheduler and controller compute the group and its size from the
// objects themselves. So the webhook fails open. It writes labels and annotations, and never overwrites a value of a user;
// only a Job or a pod that waits in a queue is also suspended or gated. It has no side effects: a dry run is safe.
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

// Names that manifests/webhook and manifests/rbac use.
const (
	// ConfigurationName is the name of the MutatingWebhookConfiguration.
	ConfigurationName = "fluence-webhook"
	// ServiceName is the name of the Service in front of the replicas.
	ServiceName = "fluence-webhook"
	// SecretName is the name of the Secret that holds the certificate.
	SecretName = "fluence-webhook-cert"
	// Path is the path of the URL at which the webhook is served.
	Path = "/label"
)

const fieldManager = "fluence-controller"

// Config has the settings that an administrator can change. Start from DefaultConfig.
type Config struct {
	// SchedulerName is the spec.schedulerName of the pods. The match conditions
	// of the MutatingWebhookConfiguration name it, too. Defaults to "fluence".
	SchedulerName string
	// Address is the IP address to listen on. Empty means all. Defaults to all.
	Address string
	// Port is the TCP port to listen on. Defaults to 9443.
	Port int
	// CertDir is a folder with tls.crt and tls.key. The files are read again when they change. With
	// CertDir another program, such as cert-manager, must write the CA bundle into the
	// MutatingWebhookConfiguration. Without it, this program manages the certificate and the CA
	// bundle itself. Defaults to empty.
	CertDir string
	// Namespace is the namespace of the Service and of the Secret. It is needed without CertDir.
	Namespace string
	// DNSNames are names of the server in addition to the Service's,
	// for a configuration that names a URL. Defaults to none.
	DNSNames []string
	// CertificatePoll is the time between two checks of Secret and
	// configuration, and between two attempts to serve. Defaults to 10s.
	CertificatePoll time.Duration
	// CertificateTimeout bounds one such check. Defaults to 5s.
	CertificateTimeout time.Duration
	// WholeNodes is the scheduler's argument wholeNodes: in which namespaces
	// annotations may ask for whole nodes. A user who creates an object that asks for
	// them elsewhere gets a warning. If the scheduler's own policy gives whole nodes
	// to all, set it to group.WholeNodesAll. Defaults to group.WholeNodesLabelled.
	WholeNodes string
	// Queues says how new Jobs and pods enter their queues. Nil means that there are no queues. Defaults to nil.
	Queues Queues
	// LookupTimeout bounds the time for looking up the owners of one object and
	// its namespace. What is not known by then is left out. Defaults to 1s.
	LookupTimeout time.Duration
}

// DefaultConfig returns the configuration with all defaults.
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

// AddToManager adds the webhook to a manager. The manager serves it whether or not the manager is
// the leader. The manager's cache must hold Jobs, ReplicaSets and StatefulSets, with at least the
// fields of their specs that give the number of their pods.
//
// If the webhook lacks the permissions for its Secret, a configuration, a readable CertDir or a
// port to listen on, it logs this and tries again. The rest of the manager keeps running. Only the
// readiness check fails, so that the API server sends no admission requests here.
func AddToManager(mgr manager.Manager, config Config) error {
	if err := config.validate(); err != nil {
		return err
	}
	owners := newOwnerReader(mgr.GetClient(), mgr.GetAPIReader(), mgr.GetRESTMapper(), config.SchedulerName, config.LookupTimeout)
	labels := newNamespaces(mgr.GetAPIReader(), config.LookupTimeout)
	objects, err := newObjectCounter(metrics.Registry)
	if err != nil {
		return err
	}
	expiry, err := newExpiryGauge(metrics.Registry)
	if err != nil {
		return err
	}
	errorCount, err := newErrorCounter(metrics.Registry)
	if err != nil {
		return err
	}
	s := &server{config: config, clock: clock.RealClock{}, handler: &handler{
		scheduler: config.SchedulerName, find: owners.find, timeout: config.LookupTimeout, outcomes: objects,
		whole: wholeRule{mode: config.WholeNodes, label: labels.wholeNodes}, queues: config.Queues, now: time.Now,
	}}
	if config.CertDir == "" {
		// The manager's client would watch all Secrets.
		direct, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()})
		if err != nil {
			return fmt.Errorf("make a client for certificates: %w", err)
		}
		s.certificates = &certificates{config: config, client: direct, clock: clock.RealClock{}, loaded: make(chan struct{}), expiry: expiry, errorCount: errorCount}
		if err := mgr.Add(withLogger{s.certificates, mgr}); err != nil {
			return fmt.Errorf("add the certificates: %w", err)
		}
	}
	if err := mgr.Add(withLogger{s, mgr}); err != nil {
		return fmt.Errorf("add the webhook: %w", err)
	}
	if err := mgr.AddReadyzCheck("webhook", s.ready); err != nil {
		return fmt.Errorf("add the readiness check of the webhook: %w", err)
	}
	return nil
}

// A server serves the webhook once there is a certificate.
type server struct {
	config       Config
	handler      admission.Handler
	certificates *certificates // nil if they are in a folder
	clock        clock.Clock
	// started checks the listener of the current attempt. It holds nil before the first attempt.
	started atomic.Pointer[healthz.Checker]
}

// ready is the readiness check of the webhook. It returns why the webhook does not answer.
func (s *server) ready(req *http.Request) error {
	started := s.started.Load()
	if started == nil {
		return errors.New("there is no certificate yet")
	}
	return (*started)(req)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (s *server) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable. It never fails. While it cannot serve, the API server goes on
// without the webhook.
func (s *server) Start(ctx context.Context) error {
	options := webhook.Options{Host: s.config.Address, Port: s.config.Port, CertDir: s.config.CertDir}
	// HTTP/2 would let a single connection send very many requests at once.
	options.TLSOpts = []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }}
	if s.certificates != nil {
		select {
		case <-s.certificates.loaded:
		case <-ctx.Done():
			return nil
		}
		options.TLSOpts = append(options.TLSOpts, func(c *tls.Config) { c.GetCertificate = s.certificates.getCertificate })
	}
	logger := klog.FromContext(ctx)
	logger.Info("Serving the webhook", "address", s.config.Address, "port", s.config.Port, "path", Path)
	for told := ""; ; {
		err := s.serve(ctx, options)
		if err != nil && ctx.Err() == nil && err.Error() != told {
			told = err.Error()
			logger.Error(err, "Cannot serve the webhook; will try again", "after", s.config.CertificatePoll)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.clock.After(s.config.CertificatePoll):
		}
	}
}

// serve serves until ctx ends. It returns an error if it cannot serve.
func (s *server) serve(ctx context.Context, options webhook.Options) error {
	// What an attempt leaves running, such as the watch of a folder, ends with this context.
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
