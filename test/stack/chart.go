package stack

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/flux-k8s/fluence/pkg/webhook"
	"github.com/flux-k8s/fluence/test/cluster"
)

// A Chart is an installation by the chart of manifests/charts instead of the plain manifests.
// The processes then have the flags and the environment of its Deployments, the configuration of its
// ConfigMap and tokens of its ServiceAccounts. Only their addresses and the duration of a lease differ.
type Chart struct {
	// Set are values in the form of helm --set, such as webhook.timeoutSeconds=5.
	Set []string
}

const (
	// schedulerConfigMap is the ConfigMap in which the chart puts
	// the scheduler's configuration, under schedulerConfigKey.
	schedulerConfigMap = "fluence-scheduler-config"
	schedulerConfigKey = "config.yaml"
	// tokenLife is longer than any cluster of make run lives.
	tokenLife = 365 * 24 * time.Hour
)

// ChartValues returns the values of every test installation: images that do
// not exist, and no node for the pods, because processes run their programs.
func ChartValues() []string {
	return []string{"image.registry=registry.invalid/fluence", "nodeSelector.fluence\\.test/none=none"}
}

// installChart installs the chart with Helm, into a namespace that admits
// only restricted pods. It directs the API server to the webhook's process.
func (s *Stack) installChart(ctx context.Context) error {
	if _, _, err := s.Kubectl(ctx, "label", "--overwrite", "namespace", Namespace, "pod-security.kubernetes.io/enforce=restricted"); err != nil {
		return fmt.Errorf("label the namespace: %w", err)
	}
	args := []string{"install"}
	var bundle []byte
	if s.update == nil {
		fmt.Fprintln(s.cfg.Log, "Installing the chart")
	} else {
		fmt.Fprintln(s.cfg.Log, "Updating the chart")
		var err error
		if bundle, err = s.removeWebhook(ctx); err != nil {
			return err
		}
		// What a user has changed by kubectl becomes the chart's again.
		args = []string{"upgrade", "--install", "--reset-values", "--force-conflicts"}
	}
	args = append(args, "fluence", filepath.Join(s.root, "manifests", "charts", "fluence"), "--namespace", Namespace,
		"--set", fmt.Sprintf("crds.install=%t,webhook.enabled=%t", !s.cfg.WithoutCRD, !s.cfg.WithoutWebhook))
	for _, value := range append(ChartValues(), s.cfg.Chart.Set...) {
		args = append(args, "--set", value)
	}
	if _, err := s.Helm(ctx, args...); err != nil {
		return fmt.Errorf("install the chart: %w", err)
	}
	if err := s.ReadChart(ctx); err != nil {
		return err
	}
	if s.cfg.WithoutWebhook {
		return nil
	}
	return s.redirectWebhook(ctx, bundle)
}

// removeWebhook removes the webhook's configuration, and returns its CA certificates in PEM. Helm
// cannot update the configuration, because an entry must not have a Service and a URL together.
func (s *Stack) removeWebhook(ctx context.Context) ([]byte, error) {
	configs := s.Client().AdmissionregistrationV1().MutatingWebhookConfigurations()
	config, err := configs.Get(ctx, webhook.ConfigurationName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the chart's webhook: %w", err)
	}
	if err := configs.Delete(ctx, config.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("remove the chart's webhook: %w", err)
	}
	if len(config.Webhooks) == 0 {
		return nil, nil
	}
	return config.Webhooks[0].ClientConfig.CABundle, nil
}

// redirectWebhook replaces the Service in the chart's webhook configuration by a port of
// loopback. bundle has the CA certificates in PEM, and is empty if the controller is to write them.
func (s *Stack) redirectWebhook(ctx context.Context, bundle []byte) error {
	if s.webhookPort == 0 {
		ports, err := cluster.FreePorts(1)
		if err != nil {
			return err
		}
		s.webhookPort = ports[0]
	}
	configs := s.Client().AdmissionregistrationV1().MutatingWebhookConfigurations()
	config, err := configs.Get(ctx, webhook.ConfigurationName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the chart's webhook: %w", err)
	}
	for i := range config.Webhooks {
		c := &config.Webhooks[i].ClientConfig
		*c = admissionregistrationv1.WebhookClientConfig{URL: new(webhookURL(s.webhookPort, *c.Service.Path)), CABundle: bundle}
	}
	if _, err := configs.Update(ctx, config, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("lead to the webhook: %w", err)
	}
	return nil
}

// A deployed is what the processes take from the chart.
type deployed struct {
	// config is the scheduler's configuration.
	config []byte
	// flags are the flags, by container.
	flags map[string][]string
	// env are the variables of the environment in the form NAME=value, by container.
	env map[string][]string
	// kubeconfigs are the paths of kubeconfigs with a token, by service account.
	kubeconfigs map[string]string
}

// ReadChart reads what the chart has installed, and requests tokens
// of its service accounts. Processes that are started later then need
// no API server for that. Call it again after another installation.
func (s *Stack) ReadChart(ctx context.Context) error {
	m, err := s.Client().CoreV1().ConfigMaps(Namespace).Get(ctx, schedulerConfigMap, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the chart's configuration: %w", err)
	}
	d := &deployed{config: []byte(m.Data[schedulerConfigKey]), flags: map[string][]string{}, env: map[string][]string{}, kubeconfigs: map[string]string{}}
	for _, account := range []string{Scheduler, Controller} {
		deployment, err := s.Client().AppsV1().Deployments(Namespace).Get(ctx, account, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read the chart's flags: %w", err)
		}
		for _, c := range append(deployment.Spec.Template.Spec.InitContainers, deployment.Spec.Template.Spec.Containers...) {
			d.flags[c.Name] = c.Args
			for _, v := range c.Env {
				d.env[c.Name] = append(d.env[c.Name], v.Name+"="+v.Value)
			}
		}
		if d.kubeconfigs[account], err = s.tokenKubeconfig(ctx, account, account+"-token.yaml", s.RESTConfig().Host); err != nil {
			return err
		}
	}
	s.deployed = d
	return nil
}

// deployedFlags returns the flags that the chart gives
// a container. Without the chart it returns none.
func (s *Stack) deployedFlags(container string) []string {
	if s.deployed == nil {
		return nil
	}
	return slices.Clone(s.deployed.flags[container])
}

// command returns the command line that starts a program with the environment
// that the chart gives a container. env(1) becomes the program, under the same process ID.
func (s *Stack) command(container, binary string, args []string) (string, []string) {
	if s.deployed == nil || len(s.deployed.env[container]) == 0 {
		return binary, args
	}
	return "/usr/bin/env", slices.Concat(s.deployed.env[container], []string{binary}, args)
}

// tokenKubeconfig writes a kubeconfig into a file of the cluster's
// folder, and returns its path. It has a token of a service account, and
// the address of a server with a certificate of the cluster's authority.
func (s *Stack) tokenKubeconfig(ctx context.Context, account, file, server string) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenLife / time.Second))}}
	got, err := s.Client().CoreV1().ServiceAccounts(Namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("ask for a token of %s: %w", account, err)
	}
	out := api.NewConfig()
	out.Clusters["cluster"] = &api.Cluster{Server: server, CertificateAuthorityData: s.CABundle()}
	out.AuthInfos[account] = &api.AuthInfo{Token: got.Status.Token}
	out.Contexts["context"] = &api.Context{Cluster: "cluster", AuthInfo: account, Namespace: corev1.NamespaceDefault}
	out.CurrentContext = "context"
	path := filepath.Join(s.Dir(), file)
	if err := clientcmd.WriteToFile(*out, path); err != nil {
		return "", fmt.Errorf("write the kubeconfig of %s: %w", account, err)
	}
	return path, nil
}
