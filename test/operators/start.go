package operators

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"github.com/flux-k8s/fluence/test/cluster"
)

// startTimeout bounds the wait until a started operator works.
const startTimeout = time.Minute

// running is what the start of an operator needs to know.
type running struct {
	*cluster.Cluster
	// name is the name of the process.
	name string
	args []string
	// kubeconfig has the rights of the operator's service account.
	kubeconfig string
	// webhookPort is the port at which the API server calls the operator.
	webhookPort int
}

// managerConfig returns the configuration file of an operator that has the form of controller-runtime's
// managers. apiVersion is the version of the file.
func (r running) managerConfig(apiVersion string) map[string]any {
	return map[string]any{
		"apiVersion":     apiVersion,
		"kind":           "Configuration",
		"webhook":        map[string]any{"port": r.webhookPort, "host": "127.0.0.1"},
		"metrics":        map[string]any{"bindAddress": "0"},
		"health":         map[string]any{"healthProbeBindAddress": "0"},
		"leaderElection": map[string]any{"leaderElect": false},
	}
}

// managerStart returns the start of an operator with such a file, after some edits of it.
func managerStart(program, apiVersion string, edits ...func(config map[string]any)) func(context.Context, running) error {
	return func(ctx context.Context, r running) error {
		certificates := filepath.Join(r.Dir(), r.name+"-certificates")
		if err := r.writeCertificates(certificates); err != nil {
			return err
		}
		config := r.managerConfig(apiVersion)
		config["webhook"].(map[string]any)["certDir"] = certificates
		config["internalCertManagement"] = map[string]any{"enable": false}
		for _, edit := range edits {
			edit(config)
		}
		return r.startManager(ctx, config, program)
	}
}

// trainerStart returns the start of Trainer. It reads its certificates from where controller-runtime
// looks without a configuration, which is below the folder of temporary files.
func trainerStart(program string) func(context.Context, running) error {
	return func(ctx context.Context, r running) error {
		temporary := filepath.Join(r.Dir(), r.name+"-tmp")
		if err := r.writeCertificates(filepath.Join(temporary, "k8s-webhook-server", "serving-certs")); err != nil {
			return err
		}
		config := r.managerConfig("config.trainer.kubeflow.org/v1alpha1")
		config["certManagement"] = map[string]any{"enable": false}
		return r.startManager(ctx, config, env, "TMPDIR="+temporary, program)
	}
}

// trainingStart returns the start of the training operator.
func trainingStart(program string) func(context.Context, running) error {
	return func(ctx context.Context, r running) error {
		certificates := filepath.Join(r.Dir(), r.name+"-certificates")
		if err := r.writeCertificates(certificates); err != nil {
			return err
		}
		args := append([]string{"--kubeconfig=" + r.kubeconfig, fmt.Sprintf("-webhook-port=%d", r.webhookPort), "-certificates=" + certificates}, r.args...)
		if _, err := r.StartProcess(ctx, r.name, program, args...); err != nil {
			return err
		}
		return r.waitWebhook(ctx)
	}
}

// env is the program that starts another one with more variables in its environment.
const env = "/usr/bin/env"

// startManager writes the configuration and starts a command with it. It returns when the webhooks answer.
func (r running) startManager(ctx context.Context, config map[string]any, program string, args ...string) error {
	text, err := yaml.Marshal(config)
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	path := filepath.Join(r.Dir(), r.name+".yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	args = append(append(args, "--config="+path, "--kubeconfig="+r.kubeconfig), r.args...)
	if _, err := r.StartProcess(ctx, r.name, program, args...); err != nil {
		return err
	}
	return r.waitWebhook(ctx)
}

// writeCertificates writes the webhook's certificate and key into a folder, under the names that
// controller-runtime expects.
func (r running) writeCertificates(dir string) error {
	cert, key, err := r.ServingCertificate(r.name, webhookHost)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of certificates: %w", err)
	}
	for name, from := range map[string]string{"tls.crt": cert, "tls.key": key} {
		text, err := os.ReadFile(from)
		if err != nil {
			return fmt.Errorf("read a certificate: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return fmt.Errorf("write a certificate: %w", err)
		}
	}
	return nil
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
		return fmt.Errorf("wait for the webhooks: %w (%w)\n%s", err, last, r.Process(r.name).Tail(15))
	}
	return nil
}

// mpiStart returns the start of the MPI operator. It has no webhooks.
func mpiStart(program string) func(context.Context, running) error {
	return func(ctx context.Context, r running) error {
		args := append([]string{"-kubeConfig=" + r.kubeconfig, "-kube-api-qps=500", "-kube-api-burst=500"}, r.args...)
		p, err := r.StartProcess(ctx, r.name, program, args...)
		if err != nil {
			return err
		}
		return p.WaitLog(ctx, "Started workers")
	}
}
