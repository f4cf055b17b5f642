package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"path/filepath"
	"time"
)

// CABundle is the certificate, in PEM, of the authority that signed all server
// certificates of the cluster: what a webhook's configuration needs.
func (c *Cluster) CABundle() []byte { return c.ca.Pair().Cert }

// HTTPClient is a client that trusts the cluster's servers, and has no
// credentials.
func (c *Cluster) HTTPClient() *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.CABundle())
	return &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
	}
}

// ServingCertificate writes a certificate and key for a server on 127.0.0.1
// that may also be called by names, such as "webhook.ns.svc", and returns their
// files. Name is that of the files.
func (c *Cluster) ServingCertificate(name string, names ...string) (certFile, keyFile string, err error) {
	pair, err := c.ca.Server(names...)
	if err != nil {
		return "", "", err
	}
	name = "serving-" + name
	if err := pair.Write(c.pkiDir(), name); err != nil {
		return "", "", err
	}
	return filepath.Join(c.pkiDir(), name+".crt"), filepath.Join(c.pkiDir(), name+".key"), nil
}

// ServingFlags are the flags by which kube-controller-manager, kube-scheduler
// and programs made from them act with the rights of kubeconfig, serve on a
// port of 127.0.0.1 with a certificate that HTTPClient trusts, and ask the API
// server who calls.
func (c *Cluster) ServingFlags(port int, kubeconfig string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + filepath.Join(c.pkiDir(), "serving.crt"),
		"--tls-private-key-file=" + filepath.Join(c.pkiDir(), "serving.key"),
	}
}
