// Package operators runs controllers of other projects on a test cluster: those of JobSet,
// LeaderWorkerSet and MPIJob. They are the real programs, with the roles, the CRDs and the webhooks of
// their modules. They run as processes beside the control plane, with the rights of their service
// accounts.
//
//	manifests.go  What of a module's manifests is installed?
//	operators.go  Which operators are there, and how are they started?
package operators

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/cluster/tools"
)

// A Name is the name of an operator, and of its process.
type Name string

// The operators.
const (
	JobSet          Name = "jobset"
	LeaderWorkerSet Name = "leaderworkerset"
	MPIOperator     Name = "mpi-operator"
)

// startTimeout bounds the wait until a started operator works.
const startTimeout = time.Minute

// An operator is how one operator is installed and started.
type operator struct {
	manifests
	// namespace and account are those of the operator's service account.
	namespace, account string
	// start starts the process and waits until it works.
	start func(ctx context.Context, r running) error
}

// running is what the start of an operator needs to know.
type running struct {
	*cluster.Cluster
	name Name
	args []string
	// kubeconfig has the rights of the operator's service account.
	kubeconfig string
	// webhookPort is the port at which the API server calls the operator.
	webhookPort int
}

// operatorsOf returns all operators, by name.
func operatorsOf(built *tools.Operators) map[Name]operator {
	return map[Name]operator{
		JobSet: {
			namespace: "jobset-system", account: "jobset-controller-manager",
			manifests: manifests{folder: built.JobSetManifests, kustomization: "default", crds: []string{"jobsets.jobset.x-k8s.io"}},
			start:     managerStart(built.JobSet, "config.jobset.x-k8s.io/v1alpha1"),
		},
		LeaderWorkerSet: {
			namespace: "lws-system", account: "lws-controller-manager",
			manifests: manifests{folder: built.LeaderWorkerSetManifests, kustomization: "default", crds: []string{"leaderworkersets.leaderworkerset.x-k8s.io"}},
			start:     managerStart(built.LeaderWorkerSet, "config.lws.x-k8s.io/v1alpha1"),
		},
		MPIOperator: {
			namespace: "kubeflow", account: "mpi-operator",
			manifests: manifests{folder: built.MPIOperatorManifests, kustomization: "base", namespace: "kubeflow", crds: []string{"mpijobs.kubeflow.org"}},
			start:     mpiStart(built.MPIOperator),
		},
	}
}

// Start installs an operator in a cluster, and starts it as a process of this name. Start returns
// when the operator works. Its log is in the cluster's folder of logs. args are further flags. It may
// be called once for each operator.
func Start(ctx context.Context, c *cluster.Cluster, name Name, log io.Writer, args ...string) error {
	built, err := tools.BuildOperators(ctx, log)
	if err != nil {
		return err
	}
	op, ok := operatorsOf(built)[name]
	if !ok {
		return fmt.Errorf("start operator %q: there is none of this name", name)
	}
	fmt.Fprintf(log, "Starting %s\n", name)
	ports, err := cluster.FreePorts(1)
	if err != nil {
		return err
	}
	if err := op.install(ctx, c, ports[0]); err != nil {
		return fmt.Errorf("install %s: %w", name, err)
	}
	kubeconfig, err := c.KubeconfigFor("system:serviceaccount:"+op.namespace+":"+op.account, "system:serviceaccounts", "system:serviceaccounts:"+op.namespace)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	r := running{Cluster: c, name: name, args: args, kubeconfig: kubeconfig, webhookPort: ports[0]}
	if err := op.start(ctx, r); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	return nil
}

// managerStart returns the start of an operator whose configuration file has the form of
// controller-runtime's managers. apiVersion is the version of the file.
func managerStart(program, apiVersion string) func(context.Context, running) error {
	return func(ctx context.Context, r running) error {
		certificates, err := r.writeCertificates()
		if err != nil {
			return err
		}
		config, err := yaml.Marshal(map[string]any{
			"apiVersion":             apiVersion,
			"kind":                   "Configuration",
			"webhook":                map[string]any{"port": r.webhookPort, "host": "127.0.0.1", "certDir": certificates},
			"metrics":                map[string]any{"bindAddress": "0"},
			"health":                 map[string]any{"healthProbeBindAddress": "0"},
			"leaderElection":         map[string]any{"leaderElect": false},
			"internalCertManagement": map[string]any{"enable": false},
		})
		if err != nil {
			return fmt.Errorf("write the configuration: %w", err)
		}
		path := filepath.Join(r.Dir(), string(r.name)+".yaml")
		if err := os.WriteFile(path, config, 0o600); err != nil {
			return fmt.Errorf("write the configuration: %w", err)
		}
		args := append([]string{"--config=" + path, "--kubeconfig=" + r.kubeconfig}, r.args...)
		if _, err := r.StartProcess(ctx, string(r.name), program, args...); err != nil {
			return err
		}
		return r.waitWebhook(ctx)
	}
}

// writeCertificates writes the webhook's certificate and key into a folder, under the names that
// controller-runtime expects, and returns the folder.
func (r running) writeCertificates() (string, error) {
	cert, key, err := r.ServingCertificate(string(r.name), webhookHost)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(r.Dir(), string(r.name)+"-certificates")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the folder of certificates: %w", err)
	}
	for name, from := range map[string]string{"tls.crt": cert, "tls.key": key} {
		text, err := os.ReadFile(from)
		if err != nil {
			return "", fmt.Errorf("read a certificate: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return "", fmt.Errorf("write a certificate: %w", err)
		}
	}
	return dir, nil
}

// waitWebhook waits until the operator's webhooks answer. While they do not, the API server refuses
// the objects that they are for.
func (r running) waitWebhook(ctx context.Context) error {
	address := net.JoinHostPort(webhookHost, strconv.Itoa(r.webhookPort))
	dialer := &tls.Dialer{Config: r.HTTPClient().Transport.(*http.Transport).TLSClientConfig}
	var last error
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		var conn net.Conn
		if conn, last = dialer.DialContext(ctx, "tcp", address); last != nil {
			return false, nil //nolint:nilerr // the process is starting
		}
		return true, conn.Close()
	})
	if err != nil {
		return fmt.Errorf("wait for the webhooks: %w (%w)\n%s", err, last, r.Process(string(r.name)).Tail(15))
	}
	return nil
}

// mpiStart returns the start of the MPI operator. It has no webhooks.
func mpiStart(program string) func(context.Context, running) error {
	return func(ctx context.Context, r running) error {
		args := append([]string{"-kubeConfig=" + r.kubeconfig, "-kube-api-qps=500", "-kube-api-burst=500"}, r.args...)
		p, err := r.StartProcess(ctx, string(r.name), program, args...)
		if err != nil {
			return err
		}
		return p.WaitLog(ctx, "Started workers")
	}
}
