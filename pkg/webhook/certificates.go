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

// The keys of the Secret, except the keys of the certificate itself.
const (
	// caCertKey is the key of the CA certificate.
	caCertKey = "ca.crt"
	// previousCAKey is the key of the previous CA certificate.
	previousCAKey = "before.crt"
	// previousUntilKey is the key of the time until which the API server has to trust the previous CA.
	previousUntilKey = "before-until"
)

const (
	// caLife is the time for which a CA certificate is valid.
	caLife = 10 * 365 * 24 * time.Hour
	// serverLife is the time for which a certificate of the server is valid.
	serverLife = 365 * 24 * time.Hour
	// renewBefore is the time before its end at which a certificate is replaced.
	renewBefore = 90 * 24 * time.Hour
	// backdate is the time before its creation from which a certificate is valid, because clocks
	// may differ.
	backdate = time.Hour
)

// certificates keeps the certificate of the webhook in a Secret that all replicas share, and the CA
// that signed it in the webhook's configuration. It needs permissions for these two objects only.
// It checks both every CertificatePoll, and repairs them.
//
// It uses the functions of cert-controller's rotator that create and
// check certificates. It does not use the rotator's reconciler, because
// the reconciler ends the program if a right or the Secret is missing.
type certificates struct {
	config Config
	client client.Client
	clock  clock.WithTicker

	current atomic.Pointer[tls.Certificate]
	// servedSecret is the content of the Secret from which current was loaded. Only syncOnce uses
	// it.
	servedSecret map[string][]byte
	loaded       chan struct{} // closed when there is a current certificate
	once         sync.Once
	// expiry is the metric of the time at which the current certificate ends. It may be nil.
	expiry prometheus.Gauge
	// errorCount counts the calls of syncOnce that failed. It may be nil.
	errorCount prometheus.Counter
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
// It returns false because every replica serves.
func (c *certificates) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable. It never fails: without
// a certificate the API server goes on without the webhook.
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
			logger.Error(err, "Cannot keep the webhook's certificate or configuration up to date; will try again", "after", c.config.CertificatePoll)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C():
		}
	}
}

// getCertificate returns the certificate for a TLS handshake.
func (c *certificates) getCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if cert := c.current.Load(); cert != nil {
		return cert, nil
	}
	return nil, errors.New("there is no certificate yet")
}

// syncOnce checks Secret and configuration once. It serves a new certificate only once it finds
// the new CA in the configuration: until then the API server may trust the previous CA alone.
// If the previous certificate has ended, or there is none, it serves the new one at once.
func (c *certificates) syncOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.config.CertificateTimeout)
	defer cancel()
	data, err := c.secret(ctx)
	if err != nil {
		return err
	}
	written, err := c.writeCABundle(ctx, c.caBundle(data))
	if c.hasValidCertificate() && (written || err != nil) {
		return err
	}
	if failed := c.load(data); failed != nil {
		return failed
	}
	c.once.Do(func() { close(c.loaded) })
	return err
}

// hasValidCertificate reports whether there is a certificate that has not ended.
func (c *certificates) hasValidCertificate() bool {
	cert := c.current.Load()
	return cert != nil && cert.Leaf != nil && c.clock.Now().Before(cert.Leaf.NotAfter)
}

// caBundle returns the CA certificates that the API server has to trust, from the content of the
// Secret: the current one and, while its certificate may still be served, the previous one.
func (c *certificates) caBundle(data map[string][]byte) []byte {
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
		return fmt.Errorf("read the certificate in Secret %s/%s: %w", c.config.Namespace, SecretName, err)
	}
	c.current.Store(&cert)
	c.servedSecret = data
	if c.expiry != nil {
		c.expiry.Set(float64(cert.Leaf.NotAfter.Unix()))
	}
	return nil
}

// secret returns the content of the Secret. It creates or renews the Secret if needed. If another
// replica writes the Secret at the same time, it returns the content that the other replica has
// written.
func (c *certificates) secret(ctx context.Context) (map[string][]byte, error) {
	data, overtaken, err := c.readOrMake(ctx)
	if overtaken {
		data, _, err = c.readOrMake(ctx)
	}
	return data, err
}

// readOrMake tries once to return the content of the Secret. overtaken is true if
// another replica's write caused the error, so that a second attempt may succeed.
func (c *certificates) readOrMake(ctx context.Context) (data map[string][]byte, overtaken bool, err error) {
	secret := &corev1.Secret{}
	err = c.client.Get(ctx, client.ObjectKey{Namespace: c.config.Namespace, Name: SecretName}, secret)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return nil, false, fmt.Errorf("get Secret %s/%s: %w", c.config.Namespace, SecretName, err)
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
		return nil, overtaken, fmt.Errorf("write Secret %s/%s: %w", c.config.Namespace, SecretName, err)
	}
	klog.FromContext(ctx).Info("Made a certificate for the webhook", "secret", klog.KObj(secret), "names", c.names())
	return secret.Data, false, nil
}

// names returns the DNS names of the certificate, the Service's first.
func (c *certificates) names() []string {
	return append([]string{fmt.Sprintf("%s.%s.svc", ServiceName, c.config.Namespace)}, c.config.DNSNames...)
}

var serverAuth = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}

// isStillValid reports whether the certificate of a Secret is valid for at least renewBefore.
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

// renew puts a new certificate into a Secret, and the CA that signed it. The CA is
// new each time, and signs nothing else, so that a damaged old CA does no harm. The
// key of the CA is not stored, so that nobody can sign a second certificate with it.
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
	if _, err := tls.X509KeyPair(was[corev1.TLSCertKey], was[corev1.TLSPrivateKeyKey]); err != nil && c.servedSecret != nil {
		// The Secret was lost or damaged. The other
		// replicas serve the same certificate as this one.
		was = c.servedSecret
	}
	secret.Data = map[string][]byte{caCertKey: ca.CertPEM, corev1.TLSCertKey: cert, corev1.TLSPrivateKeyKey: key}
	if pair, err := tls.X509KeyPair(was[corev1.TLSCertKey], was[corev1.TLSPrivateKeyKey]); err == nil && pair.Leaf.NotAfter.After(now) {
		secret.Data[previousCAKey] = was[caCertKey]
		secret.Data[previousUntilKey] = []byte(pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}
