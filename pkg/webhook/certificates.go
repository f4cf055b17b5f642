package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The keys of the Secret beside those of the certificate itself.
const (
	// caCertKey is that of the authority.
	caCertKey = "ca.crt"
	// previousCAKey is that of the authority before, and previousUntilKey when its certificate ends,
	// by RFC 3339: until then a replica may still serve it.
	previousCAKey    = "before.crt"
	previousUntilKey = "before-until"
)

const (
	caLife = 10 * 365 * 24 * time.Hour
	// serverLife is how long a certificate is valid, and renewBefore how long
	// before its end it is replaced.
	serverLife  = 365 * 24 * time.Hour
	renewBefore = 90 * 24 * time.Hour
	// backdate allows for clocks that differ.
	backdate = time.Hour
)

// certificates keeps the certificate of the webhook in a Secret that all replicas
// share, and the authority that signed it in the webhook's configuration. It
// works with the rights to these two objects alone, and looks at them again and
// again: whatever becomes of them, it makes them right.
//
// What cert-controller's rotator makes and checks it by is used here; its
// reconciler is not, which ends the program if a right or the Secret is missing.
type certificates struct {
	config Config
	client client.Client
	clock  clock.WithTicker

	current atomic.Pointer[tls.Certificate]
	// served is the Secret's content that it is from; only round touches it.
	served map[string][]byte
	loaded chan struct{} // closed when there is a current one
	once   sync.Once
	// expiry tells when the current one ends; nil tells nobody.
	expiry prometheus.Gauge
	// errorCount counts the rounds that failed; nil counts none.
	errorCount prometheus.Counter
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica
// serves.
func (c *certificates) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable. It never fails: without a certificate the
// API server goes on without the webhook.
func (c *certificates) Start(ctx context.Context) error {
	tick := c.clock.NewTicker(c.config.CertificatePoll)
	defer tick.Stop()
	logger := klog.FromContext(ctx)
	for told := ""; ; {
		err := c.syncOnce(ctx)
		if err != nil && ctx.Err() == nil && c.errorCount != nil {
			c.errorCount.Inc()
		}
		switch {
		case err == nil:
			told = ""
		case ctx.Err() == nil && err.Error() != told:
			told = err.Error()
			logger.Error(err, "The webhook's certificate or configuration is not as it should be", "again", c.config.CertificatePoll)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C():
		}
	}
}

// serving is the certificate for a TLS handshake.
func (c *certificates) serving(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if cert := c.current.Load(); cert != nil {
		return cert, nil
	}
	return nil, errors.New("there is no certificate yet")
}

// syncOnce looks at Secret and configuration once. A new certificate is served from the round on
// that finds its authority in the configuration: until then the API server may know the one
// before alone. Where that has ended, or there is none, the new one is served in any case.
func (c *certificates) syncOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.config.CertificateTimeout)
	defer cancel()
	data, err := c.secret(ctx)
	if err != nil {
		return err
	}
	written, err := c.writeCABundle(ctx, c.authorities(data))
	if c.serves() && (written || err != nil) {
		return err
	}
	if failed := c.load(data); failed != nil {
		return failed
	}
	c.once.Do(func() { close(c.loaded) })
	return err
}

// serves says whether there is a certificate that has not ended.
func (c *certificates) serves() bool {
	cert := c.current.Load()
	return cert != nil && cert.Leaf != nil && c.clock.Now().Before(cert.Leaf.NotAfter)
}

// authorities are those of a Secret that the API server is to trust: also the one before, as
// long as its certificate may be served.
func (c *certificates) authorities(data map[string][]byte) []byte {
	ca := slices.Clone(data[caCertKey])
	until, err := time.Parse(time.RFC3339, string(data[previousUntilKey]))
	if before := data[previousCAKey]; err == nil && len(before) > 0 && c.clock.Now().Before(until) {
		ca = append(ca, before...)
	}
	return ca
}

// load serves the certificate of a Secret from now on.
func (c *certificates) load(data map[string][]byte) error {
	cert, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return fmt.Errorf("read the certificate: %w", err)
	}
	c.current.Store(&cert)
	c.served = data
	if c.expiry != nil {
		c.expiry.Set(float64(cert.Leaf.NotAfter.Unix()))
	}
	return nil
}

// secret returns the content of the Secret, which it makes or renews if needed.
// If another replica does so at the same time, that one's counts.
func (c *certificates) secret(ctx context.Context) (map[string][]byte, error) {
	data, overtaken, err := c.readOrMake(ctx)
	if overtaken {
		data, _, err = c.readOrMake(ctx)
	}
	return data, err
}

// readOrMake is one attempt to return the content of the Secret. Overtaken says
// that the error is due to another's write, so that a second one may do.
func (c *certificates) readOrMake(ctx context.Context) (data map[string][]byte, overtaken bool, err error) {
	secret := &corev1.Secret{}
	err = c.client.Get(ctx, client.ObjectKey{Namespace: c.config.Namespace, Name: SecretName}, secret)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return nil, false, fmt.Errorf("get the secret: %w", err)
	}
	if c.isStillValid(secret.Data) {
		return secret.Data, false, nil
	}
	if err := c.renew(secret); err != nil {
		return nil, false, fmt.Errorf("make the certificate: %w", err)
	}
	if missing {
		secret.ObjectMeta = metav1.ObjectMeta{Namespace: c.config.Namespace, Name: SecretName}
		err = c.client.Create(ctx, secret, client.FieldOwner(fieldManager))
		overtaken = apierrors.IsAlreadyExists(err)
	} else {
		err = c.client.Update(ctx, secret, client.FieldOwner(fieldManager))
		overtaken = apierrors.IsConflict(err) || apierrors.IsNotFound(err)
	}
	if err != nil {
		return nil, overtaken, fmt.Errorf("write the secret: %w", err)
	}
	klog.FromContext(ctx).Info("Made a certificate for the webhook", "secret", klog.KObj(secret), "names", c.names())
	return secret.Data, false, nil
}

// names are those that the certificate is for, the Service's first.
func (c *certificates) names() []string {
	return append([]string{fmt.Sprintf("%s.%s.svc", ServiceName, c.config.Namespace)}, c.config.DNSNames...)
}

var serverAuth = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}

// isStillValid says whether the certificate of a Secret can still be used for a while.
func (c *certificates) isStillValid(data map[string][]byte) bool {
	at := c.clock.Now().Add(renewBefore)
	for _, name := range c.names() {
		ok, err := rotator.ValidCert(data[caCertKey], data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey], name, &serverAuth, at)
		if err != nil || !ok {
			return false
		}
	}
	return true
}

// renew puts a new certificate, and the authority that signed it, into a Secret.
// The authority is new, too: it is trusted for this one certificate, so that
// nothing is lost by it, and an old one need not be sound. Its key is kept nowhere,
// so that nobody can sign a second one.
func (c *certificates) renew(secret *corev1.Secret) error {
	names := c.names()
	maker := &rotator.CertRotator{
		CAName: ServiceName + "-ca", CAOrganization: "fluence",
		DNSName: names[0], ExtraDNSNames: names[1:],
		ExtKeyUsages: &serverAuth,
	}
	now := c.clock.Now()
	ca, err := maker.CreateCACert(now.Add(-backdate), now.Add(caLife))
	if err != nil {
		return err
	}
	cert, key, err := maker.CreateCertPEM(ca, now.Add(-backdate), now.Add(serverLife))
	if err != nil {
		return err
	}
	was := secret.Data
	if _, err := tls.X509KeyPair(was[corev1.TLSCertKey], was[corev1.TLSPrivateKeyKey]); err != nil && c.served != nil {
		// The Secret was lost or spoilt. What this replica serves the others serve, too.
		was = c.served
	}
	secret.Data = map[string][]byte{caCertKey: ca.CertPEM, corev1.TLSCertKey: cert, corev1.TLSPrivateKeyKey: key}
	if pair, err := tls.X509KeyPair(was[corev1.TLSCertKey], was[corev1.TLSPrivateKeyKey]); err == nil && pair.Leaf.NotAfter.After(now) {
		secret.Data[previousCAKey] = was[caCertKey]
		secret.Data[previousUntilKey] = []byte(pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}
