package webhook_test

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/controller/fluxjob"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/webhook"
	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/eventually"
	"github.com/flux-k8s/fluence/test/stack"
)

// env is a control plane that calls a webhook on loopback.
type env struct {
	*testing.T
	*cluster.Cluster
	ctx    context.Context
	client client.WithWatch
	scheme *runtime.Scheme
	port   int
}

// newEnv starts a control plane without any of Fluence's manifests.
func newEnv(t *testing.T) *env {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	t.Cleanup(cancel)
	c, err := cluster.Start(ctx, cluster.Config{Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			t.Errorf("stop the cluster: %v", err)
		}
	})
	e := &env{T: t, Cluster: c, ctx: ctx, scheme: runtime.NewScheme(), port: freePort(t)}
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(e.scheme); err != nil {
			t.Fatal(err)
		}
	}
	if e.client, err = client.NewWithWatch(c.RESTConfig(), client.Options{Scheme: e.scheme}); err != nil {
		t.Fatal(err)
	}
	return e
}

func freePort(t *testing.T) int {
	t.Helper()
	ports, err := cluster.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	return ports[0]
}

// serve runs a replica with the rights of manifests/rbac until the returned
// function is called, or until the test ends. log is the replica's log.
func (e *env) serve(port int) (stop func(), log ktesting.Buffer) {
	e.Helper()
	rc, err := e.RESTConfigFor("system:serviceaccount:fluence-system:fluence-controller", "system:serviceaccounts", "system:serviceaccounts:fluence-system")
	if err != nil {
		e.Fatal(err)
	}
	logger := ktesting.NewLogger(e.T, ktesting.NewConfig(ktesting.Verbosity(4), ktesting.BufferLogs(true)))
	mgr, err := ctrl.NewManager(rc, ctrl.Options{Scheme: e.scheme, Logger: logger, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
		Client:     client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: new(true)}},
	})
	if err != nil {
		e.Fatal(err)
	}
	cfg := webhook.DefaultConfig()
	cfg.Address, cfg.Port, cfg.Namespace, cfg.DNSNames = "127.0.0.1", port, "fluence-system", []string{"localhost"}
	cfg.CertificatePoll = 50 * time.Millisecond
	jobs := fluxjob.DefaultConfig()
	jobs.Poll = 100 * time.Millisecond
	queues, err := fluxjob.AddToManager(mgr, jobs)
	if err != nil {
		e.Fatal(err)
	}
	cfg.Queues = queues
	if err := webhook.AddToManager(mgr, cfg); err != nil {
		e.Fatal(err)
	}
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			e.Errorf("the webhook ended with %v", err)
		}
	}
	e.Cleanup(stop)
	return stop, logger.GetSink().(ktesting.Underlier).GetBuffer()
}

// install applies a folder of manifests.
func (e *env) install(folder string) {
	e.Helper()
	if _, _, err := e.Kubectl(e.ctx, "apply", "-f", "../../manifests/"+folder); err != nil {
		e.Fatal(err)
	}
}

// configure applies the webhook's configuration.
func (e *env) configure() {
	e.Helper()
	text, err := stack.WebhookConfiguration(e.port)
	if err != nil {
		e.Fatal(err)
	}
	if _, _, err := e.KubectlInput(e.ctx, bytes.NewReader(text), "apply", "-f", "-"); err != nil {
		e.Fatal(err)
	}
}

// until waits until a condition is true.
func (e *env) until(what string, ok func() bool) {
	e.Helper()
	eventually.True(e.Context(), e, what, func(context.Context) (bool, string) { return ok(), "not yet" })
}

// untilServed waits until the API server labels new objects.
func (e *env) untilServed() {
	e.Helper()
	e.until("the webhook answers", func() bool {
		return e.create("default", job, client.DryRunAll).GetLabels()[group.SizeLabel] != ""
	})
}

// create creates an object, and returns it as the API server stores it.
func (e *env) create(namespace, text string, opts ...client.CreateOption) *unstructured.Unstructured {
	e.Helper()
	u := e.read(namespace, text)
	if err := e.client.Create(e.ctx, u, opts...); err != nil {
		e.Fatalf("create %s: %v", text, err)
	}
	return u
}

func (e *env) read(namespace, text string) *unstructured.Unstructured {
	e.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		e.Fatal(err)
	}
	u.SetNamespace(namespace)
	return u
}

// namespace creates a namespace.
func (e *env) namespace() string {
	e.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "wh-"}}
	if err := e.client.Create(e.ctx, ns); err != nil {
		e.Fatal(err)
	}
	// The API server rejects pods before the namespace has a service account.
	e.until("the namespace has a service account", func() bool {
		return e.client.Get(e.ctx, client.ObjectKey{Namespace: ns.Name, Name: "default"}, &corev1.ServiceAccount{}) == nil
	})
	return ns.Name
}

// pods waits until a namespace has this many pods, and returns them.
func (e *env) pods(namespace string, n int) []corev1.Pod {
	e.Helper()
	var list corev1.PodList
	e.until("there are pods", func() bool {
		if err := e.client.List(e.ctx, &list, client.InNamespace(namespace)); err != nil {
			e.Fatal(err)
		}
		return len(list.Items) >= n
	})
	return list.Items
}

// calls counts the requests to the webhooks of this process.
func (e *env) calls() (n float64) {
	e.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		e.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "controller_runtime_webhook_requests_total" {
			for _, m := range f.GetMetric() {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

func (e *env) secret() *corev1.Secret {
	e.Helper()
	s := &corev1.Secret{}
	if err := e.client.Get(e.ctx, client.ObjectKey{Namespace: "fluence-system", Name: webhook.SecretName}, s); client.IgnoreNotFound(err) != nil {
		e.Fatal(err)
	}
	return s
}

// trusts reports whether every entry of the configuration trusts a CA.
func (e *env) trusts(ca []byte) bool {
	e.Helper()
	var c admissionregistrationv1.MutatingWebhookConfiguration
	if err := e.client.Get(e.ctx, client.ObjectKey{Name: webhook.ConfigurationName}, &c); err != nil {
		e.Fatal(err)
	}
	for _, hook := range c.Webhooks {
		if !bytes.HasPrefix(hook.ClientConfig.CABundle, ca) { // the authority before may follow
			return false
		}
	}
	return len(c.Webhooks) > 0 && len(ca) > 0
}
