package operators

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/flux-k8s/fluence/test/cluster"
)

// webhookHost is the name by which the API server calls a webhook. A process on loopback has
// no Service.
const webhookHost = "localhost"

// manifests are what a module installs.
type manifests struct {
	// folder is the folder of the module's manifests. kustomizations are the folders in it that
	// kustomize builds.
	folder         string
	kustomizations []string
	// namespace is a namespace that the manifests need and do not create. Objects that name no
	// namespace are put into it. It is empty if there is none.
	namespace string
	// without is the name of a CRD that is left out. It is empty if there is none.
	without string
	// crds are the CRDs that have to be served before the operator starts.
	crds []string
}

// install installs what an operator needs, with its webhooks at a port of loopback.
func (m manifests) install(ctx context.Context, c *cluster.Cluster, port int) error {
	if m.namespace != "" {
		if _, _, err := c.Kubectl(ctx, "create", "namespace", m.namespace); err != nil {
			return fmt.Errorf("create the namespace: %w", err)
		}
	}
	built, err := m.build(ctx, c)
	if err != nil {
		return fmt.Errorf("build the manifests: %w", err)
	}
	rewritten, err := rewrite([]byte(built), m.without, port, c.CABundle())
	if err != nil {
		return err
	}
	if _, _, err := c.KubectlInput(ctx, bytes.NewReader(rewritten), "apply", "--server-side", "-f", "-"); err != nil {
		return fmt.Errorf("apply the manifests: %w", err)
	}
	return c.WaitCRDs(ctx, m.crds...)
}

// build builds the kustomizations as one.
func (m manifests) build(ctx context.Context, c *cluster.Cluster) (string, error) {
	dir, err := os.MkdirTemp(c.Dir(), "kustomization-")
	if err != nil {
		return "", err
	}
	kustomization := map[string]any{}
	if m.namespace != "" {
		kustomization["namespace"] = m.namespace
	}
	var resources []string
	for _, k := range m.kustomizations {
		// Kustomize takes no absolute paths.
		path, err := filepath.Rel(dir, filepath.Join(m.folder, k))
		if err != nil {
			return "", err
		}
		resources = append(resources, path)
	}
	kustomization["resources"] = resources
	text, err := sigsyaml.Marshal(kustomization)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), text, 0o600); err != nil {
		return "", err
	}
	built, _, err := c.Kubectl(ctx, "kustomize", dir)
	return built, err
}

// rewrite returns manifests without Deployments, Services and APIServices, and with all webhooks at a
// port of loopback, where a process has a certificate that the bundle vouches for. It leaves out the CRD of
// the name without.
func rewrite(text []byte, without string, port int, caBundle []byte) ([]byte, error) {
	var out bytes.Buffer
	in := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		u := &unstructured.Unstructured{}
		switch err := in.Decode(&u.Object); {
		case errors.Is(err, io.EOF):
			return out.Bytes(), nil
		case err != nil:
			return nil, fmt.Errorf("read the manifests: %w", err)
		}
		switch u.GetKind() {
		case "", "Deployment", "Service", "APIService":
			continue
		case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
			hooks, _, err := unstructured.NestedSlice(u.Object, "webhooks")
			if err != nil {
				return nil, fmt.Errorf("read the webhooks of %s: %w", u.GetName(), err)
			}
			for _, hook := range hooks {
				if err := toLoopback(hook.(map[string]any), port, caBundle, "clientConfig"); err != nil {
					return nil, fmt.Errorf("rewrite the webhooks of %s: %w", u.GetName(), err)
				}
			}
			if err := unstructured.SetNestedSlice(u.Object, hooks, "webhooks"); err != nil {
				return nil, err
			}
		case "CustomResourceDefinition":
			if u.GetName() == without {
				continue
			}
			if _, converts, _ := unstructured.NestedMap(u.Object, "spec", "conversion", "webhook", "clientConfig"); !converts {
				break
			}
			if err := toLoopback(u.Object, port, caBundle, "spec", "conversion", "webhook", "clientConfig"); err != nil {
				return nil, fmt.Errorf("rewrite the conversion of %s: %w", u.GetName(), err)
			}
		}
		document, err := sigsyaml.Marshal(u.Object)
		if err != nil {
			return nil, fmt.Errorf("write the manifests: %w", err)
		}
		out.WriteString("---\n")
		out.Write(document)
	}
}

// toLoopback replaces the Service in a client's configuration by a port of loopback.
func toLoopback(object map[string]any, port int, caBundle []byte, field ...string) error {
	path, found, err := unstructured.NestedString(object, append(append([]string{}, field...), "service", "path")...)
	if err != nil || !found {
		return fmt.Errorf("%v names no path of a Service (error %w)", field, err)
	}
	return unstructured.SetNestedMap(object, map[string]any{
		"url":      fmt.Sprintf("https://%s:%d%s", webhookHost, port, path),
		"caBundle": base64.StdEncoding.EncodeToString(caBundle),
	}, field...)
}
