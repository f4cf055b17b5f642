package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func newCertificates(names []string, secrets ...client.Object) (*certificates, *clocktesting.FakeClock) {
	now := clocktesting.NewFakeClock(time.Now())
	c := DefaultConfig()
	c.Namespace, c.DNSNames = "ns", names
	api := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(secrets...).Build()
	return &certificates{config: c, client: api, clock: now, loaded: make(chan struct{})}, now
}

func TestCertificateIsRenewedInTime(t *testing.T) {
	cases := map[string]struct {
		after  time.Duration
		names  []string // afterwards
		spoil  func(*corev1.Secret)
		anew   bool
		expiry time.Duration // of the certificate, from then
	}{
		"a new one is kept":                            {expiry: serverLife},
		"one that is valid long enough is kept":        {after: serverLife - renewBefore - time.Hour, expiry: renewBefore + time.Hour},
		"one that ends soon is replaced":               {after: serverLife - renewBefore + time.Hour, anew: true, expiry: serverLife},
		"one that has ended is replaced":               {after: 2 * serverLife, anew: true, expiry: serverLife},
		"one without a name is replaced":               {names: []string{"localhost", "other"}, anew: true, expiry: serverLife},
		"one whose authority is another's is replaced": {spoil: func(s *corev1.Secret) { s.Data[caCertKey] = authority(t) }, anew: true, expiry: serverLife},
		"one whose key is lost is replaced":            {spoil: func(s *corev1.Secret) { delete(s.Data, corev1.TLSPrivateKeyKey) }, anew: true, expiry: serverLife},
		"an empty secret is filled":                    {spoil: func(s *corev1.Secret) { s.Data = nil }, anew: true, expiry: serverLife},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c, now := newCertificates([]string{"localhost"})
			first, err := c.secret(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if tc.spoil != nil {
				var s corev1.Secret
				if err := c.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: SecretName}, &s); err != nil {
					t.Fatal(err)
				}
				tc.spoil(&s)
				if err := c.client.Update(t.Context(), &s); err != nil {
					t.Fatal(err)
				}
			}
			if tc.names != nil {
				c.config.DNSNames = tc.names
			}
			now.Step(tc.after)
			data, err := c.secret(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if anew := string(first[corev1.TLSCertKey]) != string(data[corev1.TLSCertKey]); anew != tc.anew {
				t.Errorf("it is another: %t, want %t", anew, tc.anew)
			}
			verify(t, data, now.Now(), append([]string{"fluence-webhook.ns.svc"}, c.config.DNSNames...), tc.expiry)
		})
	}
}

// authority returns a CA that has signed another certificate.
func authority(t *testing.T) []byte {
	t.Helper()
	c, _ := newCertificates(nil)
	data, err := c.secret(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return data[caCertKey]
}

// verify checks a certificate as the API server does.
func verify(t *testing.T, data map[string][]byte, now time.Time, names []string, expiry time.Duration) {
	t.Helper()
	c := &certificates{}
	if err := c.load(data); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(data[caCertKey])
	leaf := c.current.Load().Leaf
	for _, name := range names {
		if _, err := leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: now, KeyUsages: serverAuth}); err != nil {
			t.Errorf("for %s: %v", name, err)
		}
	}
	if d := leaf.NotAfter.Sub(now) - expiry; d.Abs() > time.Minute {
		t.Errorf("it ends in %v, want %v", leaf.NotAfter.Sub(now), expiry)
	}
}

// Replicas that start together agree on the certificate that was written first.
func TestCertificateOfAnotherReplicaCounts(t *testing.T) {
	for name, missing := range map[string]bool{"the secret is missing": true, "the secret is empty": false} {
		t.Run(name, func(t *testing.T) {
			var secrets []client.Object
			if !missing {
				secrets = append(secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: SecretName}})
			}
			one, _ := newCertificates(nil, secrets...)
			two, _ := newCertificates(nil)
			var first map[string][]byte
			race := func(ctx context.Context) {
				if first == nil {
					first = map[string][]byte{}
					var err error
					if first, err = one.secret(ctx); err != nil {
						t.Fatal(err)
					}
				}
			}
			two.client = interceptor.NewClient(one.client.(client.WithWatch), interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
					race(ctx)
					return c.Create(ctx, obj, opts...)
				},
				Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
					race(ctx)
					return c.Update(ctx, obj, opts...)
				},
			})
			data, err := two.secret(t.Context())
			if err != nil || string(data[corev1.TLSCertKey]) != string(first[corev1.TLSCertKey]) {
				t.Errorf("the second replica has another certificate than the first (%v)", err)
			}
		})
	}
}

// A certificate is served on while the API server does not answer.
func TestCertificateOutlivesTheAPIServer(t *testing.T) {
	c, _ := newCertificates(nil)
	if _, err := c.getCertificate(nil); err == nil {
		t.Error("there is a certificate before any was made")
	}
	if err := c.syncOnce(t.Context()); err == nil {
		t.Error("no error without a configuration")
	}
	if _, err := c.getCertificate(nil); err != nil {
		t.Errorf("without a configuration: %v", err)
	}
	c.client = interceptor.NewClient(c.client.(client.WithWatch), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("no answer")
		},
	})
	if err := c.syncOnce(t.Context()); err == nil {
		t.Error("no error without the API server")
	}
	if _, err := c.getCertificate(nil); err != nil {
		t.Errorf("without the API server: %v", err)
	}
}

// The log reports a failure once, the metric counts each check that fails.
func TestEachLookThatFailsIsCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	c, now := newCertificates(nil, &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: ConfigurationName}})
	var err error
	if c.errorCount, err = newErrorCounter(registry); err != nil {
		t.Fatal(err)
	}
	right, wrong := c.client, interceptor.NewClient(c.client.(client.WithWatch), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("no answer")
		},
	})
	looks := make(chan client.Client)
	c.client = interceptor.NewClient(right.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			if _, ok := into.(*corev1.Secret); ok {
				return (<-looks).Get(ctx, key, into, options...)
			}
			return right.Get(ctx, key, into, options...)
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Start(ctx) }()
	looks <- wrong
	for _, with := range []client.Client{wrong, wrong, right} {
		now.Step(c.config.CertificatePoll)
		looks <- with
	}
	<-c.loaded
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := testutil.ToFloat64(c.errorCount); got != 3 {
		t.Errorf("%v looks failed, want 3", got)
	}
}

// The next round is soon enough, because creating a certificate takes much time.
func TestARoundTriesTwiceAtMost(t *testing.T) {
	resource := schema.GroupResource{Resource: "secrets"}
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "ns")
	cases := map[string]struct {
		create, update error
		empty          bool // the Secret exists, and is empty
		want           int
	}{
		"the namespace is missing":              {create: missing, want: 1},
		"another replica is first, again":       {create: apierrors.NewAlreadyExists(resource, SecretName), want: 2},
		"another one writes, again":             {update: apierrors.NewConflict(resource, SecretName, nil), empty: true, want: 2},
		"it is deleted as it is written, again": {update: apierrors.NewNotFound(resource, SecretName), empty: true, want: 2},
		"it may not be written":                 {update: apierrors.NewForbidden(resource, SecretName, nil), empty: true, want: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var secrets []client.Object
			if tc.empty {
				secrets = append(secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: SecretName}})
			}
			c, _ := newCertificates(nil, secrets...)
			n := 0
			c.client = interceptor.NewClient(c.client.(client.WithWatch), interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
					n++
					return tc.create
				},
				Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
					n++
					return tc.update
				},
			})
			if err := c.syncOnce(t.Context()); n != tc.want || !errors.Is(err, cmp.Or(tc.create, tc.update)) {
				t.Errorf("round() = %v after %d attempts to write, want %d", err, n, tc.want)
			}
		})
	}
}

// Nobody needs the key of the CA again.
func TestTheSecretHoldsWhatIsServed(t *testing.T) {
	c, _ := newCertificates(nil)
	data, err := c.secret(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(maps.Keys(data)), []string{"ca.crt", "tls.crt", "tls.key"}; !slices.Equal(got, want) {
		t.Errorf("the secret has %q, want %q", got, want)
	}
}

// While one certificate replaces another, each replica serves a certificate
// whose CA is in the configuration, whichever replica checks when.
func TestACertificateGivesWayWithoutAGap(t *testing.T) {
	hook := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: ConfigurationName}, Webhooks: []admissionregistrationv1.MutatingWebhook{{Name: "pods.fluence.flux-framework.org"}}}
	first, now := newCertificates([]string{"localhost"}, hook)
	second := &certificates{config: first.config, client: first.client, clock: now, loaded: make(chan struct{})}
	both := []*certificates{first, second}
	trusted := func(when string) (authorities int) {
		t.Helper()
		var config admissionregistrationv1.MutatingWebhookConfiguration
		if err := first.client.Get(t.Context(), client.ObjectKey{Name: ConfigurationName}, &config); err != nil {
			t.Fatal(err)
		}
		bundle := config.Webhooks[0].ClientConfig.CABundle
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(bundle)
		for i, c := range both {
			if _, err := c.current.Load().Leaf.Verify(x509.VerifyOptions{DNSName: "localhost", Roots: roots, CurrentTime: now.Now(), KeyUsages: serverAuth}); err != nil {
				t.Errorf("%s: replica %d: %v", when, i, err)
			}
		}
		return bytes.Count(bundle, []byte("BEGIN CERTIFICATE"))
	}
	look := func(c *certificates) {
		t.Helper()
		if err := c.syncOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []*certificates{first, second, first, second} {
		look(c)
	}
	was := first.current.Load().Leaf
	trusted("at first")
	now.Step(serverLife - renewBefore + time.Hour)
	for i, c := range []*certificates{first, second, first, second, second, first} {
		look(c)
		if n := trusted(fmt.Sprintf("after look %d", i)); n != 2 {
			t.Errorf("after look %d %d authorities are trusted, want both", i, n)
		}
	}
	for i, c := range both {
		if c.current.Load().Leaf.Equal(was) {
			t.Errorf("replica %d still serves the certificate from before", i)
		}
	}
	now.Step(renewBefore)
	look(first)
	if n := trusted("when the one before has ended"); n != 1 {
		t.Errorf("%d authorities are trusted in the end, want the last alone", n)
	}
	look(second)
	if err := first.client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: first.config.Namespace, Name: SecretName}}); err != nil {
		t.Fatal(err)
	}
	for i, c := range []*certificates{first, second, first, second} {
		look(c)
		trusted(fmt.Sprintf("look %d after the secret was lost", i))
	}
}
