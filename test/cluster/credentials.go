package cluster

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/flux-k8s/fluence/test/cluster/pki"
)

// adminUser has every right, because the API server
// lets adminGroup do everything without asking RBAC.
const (
	adminUser  = "admin"
	adminGroup = "system:masters"
)

func (c *Cluster) pkiDir() string        { return filepath.Join(c.dir.path, "pki") }
func (c *Cluster) kubeconfigDir() string { return filepath.Join(c.dir.path, "kubeconfig") }

// prepare writes the certificates and keys that components read from files.
func (c *Cluster) prepare() error {
	for _, d := range []string{c.pkiDir(), c.kubeconfigDir()} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return fmt.Errorf("make the certificates: %w", err)
		}
	}
	ca, err := pki.NewAuthority("fluence-cluster-ca")
	if err != nil {
		return err
	}
	frontProxy, err := pki.NewAuthority("fluence-cluster-front-proxy-ca")
	if err != nil {
		return err
	}
	serving, err := ca.Server("kubernetes", "kubernetes.default", "kubernetes.default.svc")
	if err != nil {
		return err
	}
	proxyClient, err := frontProxy.Client("front-proxy-client")
	if err != nil {
		return err
	}
	saKey, saPub, err := pki.NewKey()
	if err != nil {
		return err
	}
	_, errKey := c.writeFile("pki/sa.key", saKey)
	_, errPub := c.writeFile("pki/sa.pub", saPub)
	c.ca = ca
	return errors.Join(errKey, errPub,
		ca.Pair().Write(c.pkiDir(), "ca"),
		frontProxy.Pair().Write(c.pkiDir(), "front-proxy-ca"),
		serving.Write(c.pkiDir(), "serving"),
		proxyClient.Write(c.pkiDir(), "front-proxy-client"))
}

// connect makes the cluster's own clients.
func (c *Cluster) connect() error {
	cfg, err := c.RESTConfigFor(adminUser, adminGroup)
	if err != nil {
		return err
	}
	cfg.UserAgent = "fluence-cluster"
	c.rest = cfg
	if c.client, err = kubernetes.NewForConfig(cfg); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	return nil
}

// RESTConfigFor returns a client configuration for a user who is a
// member of groups. It has no client-side rate limit. The user has
// the rights that RBAC grants, which are none without a role binding.
func (c *Cluster) RESTConfigFor(user string, groups ...string) (*rest.Config, error) {
	pair, err := c.ca.Client(user, groups...)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host: c.state.Server,
		TLSClientConfig: rest.TLSClientConfig{
			CAData:   c.ca.Pair().Cert,
			CertData: pair.Cert,
			KeyData:  pair.Key,
		},
		QPS: -1,
	}, nil
}

// Kubeconfig returns the path of a kubeconfig file with every right.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.kubeconfigDir(), adminUser+".yaml") }

// KubeconfigFor writes a kubeconfig file for a user who is a member of groups, and
// returns its path. The same arguments give the same path. The user has the rights that
// RBAC grants. For example, "system:kube-scheduler" has the rights of its bootstrap role.
func (c *Cluster) KubeconfigFor(user string, groups ...string) (string, error) {
	cfg, err := c.RESTConfigFor(user, groups...)
	if err != nil {
		return "", err
	}
	out := api.NewConfig()
	out.Clusters["cluster"] = &api.Cluster{Server: cfg.Host, CertificateAuthorityData: cfg.CAData}
	out.AuthInfos[user] = &api.AuthInfo{ClientCertificateData: cfg.CertData, ClientKeyData: cfg.KeyData}
	out.Contexts["context"] = &api.Context{Cluster: "cluster", AuthInfo: user}
	out.CurrentContext = "context"
	path := filepath.Join(c.kubeconfigDir(), kubeconfigName(user, groups)+".yaml")
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := clientcmd.WriteToFile(*out, path); err != nil {
		return "", fmt.Errorf("write the kubeconfig of %s: %w", user, err)
	}
	return path, nil
}

// kubeconfigName returns a file name that differs for different arguments.
func kubeconfigName(user string, groups []string) string {
	plain := regexp.MustCompile(`^[a-z0-9-]+$`).MatchString(user)
	if plain && (len(groups) == 0 || user == adminUser && groups[0] == adminGroup) {
		return user
	}
	h := fnv.New32a()
	fmt.Fprintf(h, "%q", append([]string{user}, groups...))
	readable := regexp.MustCompile(`[^a-zA-Z0-9-]+`).ReplaceAllString(user, "-")
	return fmt.Sprintf("%s-%08x", strings.Trim(readable, "-"), h.Sum32())
}
