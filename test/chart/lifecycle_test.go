package chart_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/statusmap"
	"github.com/flux-k8s/fluence/pkg/webhook"
	"github.com/flux-k8s/fluence/test/eventually"
	"github.com/flux-k8s/fluence/test/stack"
)

// certificateIsMended breaks the webhook's certificate, and waits until there is another.
func (s *site) certificateIsMended() {
	s.Helper()
	s.kubectl("patch", "secret", webhook.SecretName, "-n", stack.Namespace, "--type=merge", "-p", `{"data":{"tls.crt":""}}`)
	eventually.True(s.Context(), s, "another certificate", func(ctx context.Context) (bool, string) {
		secret, err := s.Client().CoreV1().Secrets(stack.Namespace).Get(ctx, webhook.SecretName, metav1.GetOptions{})
		return err == nil && len(secret.Data[corev1.TLSCertKey]) > 0, fmt.Sprint(err)
	})
}

// trusted returns the authority in the webhook's
// configuration. It returns "" if an entry lacks it.
func (s *site) trusted(ctx context.Context) (string, error) {
	config, err := s.Client().AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, webhook.ConfigurationName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	for _, hook := range config.Webhooks {
		if len(hook.ClientConfig.CABundle) == 0 {
			return "", nil
		}
	}
	return string(config.Webhooks[0].ClientConfig.CABundle), nil
}

// upgrade installs the chart anew as the page describes, with the CRD of the
// last installation, and upgrades it. What the controller wrote must stay.
func (s *site) upgrade() {
	s.Helper()
	s.stop(stack.Scheduler)
	s.stop(stack.Controller)
	s.helm("uninstall", "fluence", "--namespace", stack.Namespace)
	s.notes(s.helm(append(documented(s.T, "install"), "--set", "scheduler.args.maxBypass=7m")...))
	if err := s.ReadChart(s.Context()); err != nil {
		s.Fatal(err)
	}
	if err := s.StartController(s.Context()); err != nil {
		s.Fatal(err)
	}
	var before string
	eventually.True(s.Context(), s, "the webhook's authority", func(ctx context.Context) (bool, string) {
		var err error
		before, err = s.trusted(ctx)
		return err == nil && before != "", fmt.Sprint(err)
	})
	s.helm(append(documented(s.T, "upgrade"), "--set", "scheduler.args.matchPolicy=hinode")...)
	if after, err := s.trusted(s.Context()); err != nil || after != before {
		s.Errorf("the upgrade changed the webhook's authority to %q, %v", after, err)
	}
	config := s.kubectl("get", "configmap", "fluence-scheduler-config", "-n", stack.Namespace, "-o", "yaml")
	for _, want := range []string{"matchPolicy: hinode", "maxBypass: 7m"} {
		if !strings.Contains(config, want) {
			s.Errorf("after the upgrade there is no %q in\n%s", want, config)
		}
	}
}

// documented returns the arguments of a Helm command in docs/install.md.
func documented(t *testing.T, command string) []string {
	t.Helper()
	return shown(t, "helm "+command)[0]
}

// shown returns the arguments of the commands in docs/install.md
// with a certain beginning. It fails if there is none.
func shown(t *testing.T, begins string) [][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "docs", "install.md"))
	if err != nil {
		t.Fatal(err)
	}
	var all [][]string
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); strings.HasPrefix(line, begins+" ") {
			for i, word := range words {
				if word == "manifests/charts/fluence" {
					words[i] = chartDir(t)
				}
			}
			all = append(all, words[1:])
		}
	}
	if all == nil {
		t.Fatalf("docs/install.md has no %s", begins)
	}
	return all
}

// notes checks that the API server accepts what the notes of an installation tell a user to try.
func (s *site) notes(printed string) {
	s.Helper()
	_, rest, found := strings.Cut(printed, "<<'END'\n")
	job, _, ended := strings.Cut(rest, "\nEND\n")
	if !found || !ended {
		s.Fatalf("nothing to try in\n%s", printed)
	}
	if _, _, err := s.KubectlInput(s.Context(), strings.NewReader(job), "apply", "--dry-run=server", "--validate=strict", "-f", "-"); err != nil {
		s.Error(err)
	}
}

// uninstall uninstalls the chart. Only the CRD with its
// PodGroups and what the programs created may be left.
func (s *site) uninstall() {
	s.Helper()
	s.stop(stack.Controller)
	s.helm(documented(s.T, "uninstall")...)
	if _, err := s.PodGroups(s.Context(), "first"); err != nil {
		s.Errorf("the CRD went: %v", err)
	}
	_, err := s.Client().AdmissionregistrationV1().MutatingWebhookConfigurations().Get(s.Context(), webhook.ConfigurationName, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		s.Errorf("the webhook's configuration is left: %v", err)
	}
	if schemas := s.kubectl("get", "flowschemas", "-o", "name"); strings.Contains(schemas, "fluence") {
		s.Errorf("FlowSchemas are left: %q", strings.Fields(schemas))
	}
	kinds := "deployments,services,configmaps,secrets,serviceaccounts,roles,rolebindings,networkpolicies,poddisruptionbudgets,leases"
	left := strings.Fields(s.kubectl("get", kinds, "-n", stack.Namespace, "-o", "name"))
	left = slices.DeleteFunc(left, func(name string) bool { return ownLeft[name] != "" })
	if len(left) > 0 {
		s.Errorf("left in %s: %q", stack.Namespace, left)
	}
	for _, args := range shown(s.T, "kubectl delete") {
		s.kubectl(args...)
	}
	if _, err := s.PodGroups(s.Context(), "first"); err == nil {
		s.Error("the CRD is still there")
	}
}

// ownLeft are the objects that stay in the namespace, and who created them.
var ownLeft = map[string]string{
	"configmap/kube-root-ca.crt":                   "Kubernetes",
	"serviceaccount/default":                       "Kubernetes",
	"secret/" + webhook.SecretName:                 "the controller",
	"lease.coordination.k8s.io/fluence-scheduler":  "the scheduler",
	"lease.coordination.k8s.io/fluence-controller": "the controller",
	"configmap/" + statusmap.Name:                  "the scheduler",
}
