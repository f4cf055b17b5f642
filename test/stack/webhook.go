package stack

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/cluster/tools"
)

// webhookHost is the name by which the API server calls
// the webhook. A process on loopback has no Service.
const webhookHost = "localhost"

// webhookTimeout bounds the wait for the first call of the webhook.
const webhookTimeout = 60 * time.Second

// WebhookConfiguration returns manifests/webhook/configuration.yaml with the webhook
// at a port of loopback. The webhook's certificate must be for the name localhost.
func WebhookConfiguration(port int) ([]byte, error) {
	root, err := tools.RepositoryRoot()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, "manifests", "webhook", "configuration.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read the webhook's configuration: %w", err)
	}
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("read the webhook's configuration: %w", err)
	}
	for _, hook := range config["webhooks"].([]any) {
		path := hook.(map[string]any)["clientConfig"].(map[string]any)["service"].(map[string]any)["path"]
		hook.(map[string]any)["clientConfig"] = map[string]any{"url": webhookURL(port, path.(string))}
	}
	if text, err = yaml.Marshal(config); err != nil {
		return nil, fmt.Errorf("write the webhook's configuration: %w", err)
	}
	return text, nil
}

// webhookURL returns the address of the webhook's process for the API server.
func webhookURL(port int, path string) string {
	return fmt.Sprintf("https://%s:%d%s", webhookHost, port, path)
}

// installWebhook chooses the webhook's port and tells the API server its
// address. The port remains the same when the controller is restarted.
func (s *Stack) installWebhook(ctx context.Context) error {
	ports, err := cluster.FreePorts(1)
	if err != nil {
		return err
	}
	s.webhookPort = ports[0]
	config, err := WebhookConfiguration(s.webhookPort)
	if err != nil {
		return err
	}
	if _, _, err := s.KubectlInput(ctx, bytes.NewReader(config), "apply", "-f", "-"); err != nil {
		return fmt.Errorf("apply the webhook's configuration: %w", err)
	}
	return nil
}

// WaitWebhook waits until the API server calls the webhook. It creates Jobs in dry
// runs until a Job is labelled. On failure the error quotes the controller's log.
func (s *Stack) WaitWebhook(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, webhookTimeout)
	defer cancel()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "webhook-"},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			SchedulerName: "fluence", RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "c", Image: "none"}},
		}}},
	}
	err := wait.PollUntilContextCancel(ctx, pollEvery, true, func(ctx context.Context) (bool, error) {
		got, err := s.Client().BatchV1().Jobs(corev1.NamespaceDefault).Create(ctx, job, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && got.Labels[group.SizeLabel] != "", err
	})
	if err != nil {
		return fmt.Errorf("wait for the webhook: %w\n%s", err, s.Process(Controller).Tail(15))
	}
	return nil
}

// webhookFlags returns the controller's flags for the webhook.
func (s *Stack) webhookFlags() []string {
	if s.cfg.WithoutWebhook {
		return []string{"--webhook=false"}
	}
	return []string{
		"--webhook-bind-address=127.0.0.1",
		fmt.Sprintf("--webhook-port=%d", s.webhookPort),
		"--webhook-dns-names=" + webhookHost,
	}
}
