package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"path/filepath"
	"time"
)

// CABundle returns the certificate, in PEM, of the authority that signed all
// server certificates of the cluster. A webhook's configuration needs it.
func (c *Cluster) CABundle() []byte { return c.ca.Pair().Cert }

// HTTPClient returns a client that trusts the cluster's servers and has no credentials.
func (c *Cluster) HTTPClient() *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.CABundle())
	return &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
	}
}

// ServingCertificate writes a certificate and a key for a server on
// 127.0.0.1, and returns their files. The server may also be addressed
// by names, such as "webhook.ns.svc". name is part of the files' names.
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

// ServingFlags returns flags of kube-controller-manager, kube-scheduler and
// programs made from them. With these flags a program has the rights of a
// kubeconfig. It serves on a port of 127.0.0.1 with a certificate that HTTPClient
// trusts. It authenticates and authorizes its callers through the API server.
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
