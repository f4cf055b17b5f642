package operators

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/flux-k8s/fluence/test/cluster"
)

// install installs what an operator needs, with its webhooks at a port of loopback.
func install(ctx context.Context, c *cluster.Cluster, op operator, port int) error {
	if op.createNamespace {
		if _, _, err := c.Kubectl(ctx, "create", "namespace", op.namespace); err != nil {
			return fmt.Errorf("create the namespace: %w", err)
		}
	}
	built, _, err := c.Kubectl(ctx, "kustomize", filepath.Join(op.manifests, op.kustomization))
	if err != nil {
		return fmt.Errorf("build the manifests: %w", err)
	}
	manifests, err := rewrite([]byte(built), port, c.CABundle())
	if err != nil {
		return err
	}
	if _, _, err := c.KubectlInput(ctx, bytes.NewReader(manifests), "apply", "--server-side", "-f", "-"); err != nil {
		return fmt.Errorf("apply the manifests: %w", err)
	}
	return c.WaitCRDs(ctx, op.crds...)
}

// rewrite returns manifests without Deployments and Services, and with all webhooks at a port of
// loopback, where a process has a certificate that the bundle vouches for.
func rewrite(manifests []byte, port int, caBundle []byte) ([]byte, error) {
	var out bytes.Buffer
	in := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		u := &unstructured.Unstructured{}
		switch err := in.Decode(&u.Object); {
		case errors.Is(err, io.EOF):
			return out.Bytes(), nil
		case err != nil:
			return nil, fmt.Errorf("read the manifests: %w", err)
		}
		switch u.GetKind() {
		case "", "Deployment", "Service":
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
			if _, converts, _ := unstructured.NestedMap(u.Object, "spec", "conversion", "webhook", "clientConfig"); !converts {
				break
			}
			if err := toLoopback(u.Object, port, caBundle, "spec", "conversion", "webhook", "clientConfig"); err != nil {
				return nil, fmt.Errorf("rewrite the conversion of %s: %w", u.GetName(), err)
			}
		}
		text, err := sigsyaml.Marshal(u.Object)
		if err != nil {
			return nil, fmt.Errorf("write the manifests: %w", err)
		}
		out.WriteString("---\n")
		out.Write(text)
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

// roots returns the certificates that the cluster's servers are verified with.
func (r running) roots() *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(r.CABundle())
	return roots
}
