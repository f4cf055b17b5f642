package cluster

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/flux-k8s/fluence/test/cluster/kubelet"
	"github.com/flux-k8s/fluence/test/cluster/tools"
)

//go:embed stages/*.yaml
var ownStages embed.FS

// kwokOptions makes KWOK act on many pods at a time.
const kwokOptions = `apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  podPlayStageParallelism: 16
  nodePlayStageParallelism: 16
  nodeLeaseParallelism: 16
`

func (c *Cluster) startKwok(ctx context.Context, cfg Config) error {
	kubeconfig, err := c.KubeconfigFor(kwokUser)
	if err != nil {
		return err
	}
	config, err := c.kwokConfig(cfg)
	if err != nil {
		return err
	}
	path, err := c.writeFile("kwok.yaml", config)
	if err != nil {
		return err
	}
	return c.launch(ctx, 1, func(ports []int) component {
		return component{
			Name: Kwok,
			Path: c.bins.Kwok,
			URL:  loopbackURL("http", ports[0]) + "/healthz",
			Args: append([]string{
				"--kubeconfig=" + kubeconfig,
				"--config=" + path,
				"--manage-all-nodes=true",
				fmt.Sprintf("--server-address=127.0.0.1:%d", ports[0]),
				"--node-ip=127.0.0.1",
				"--cidr=10.128.0.0/9",
				fmt.Sprintf("--node-lease-duration-seconds=%d", int(cfg.NodeLease.Seconds())),
			}, cfg.ExtraArgs[Kwok]...),
		}
	})
}

// kwokConfig returns KWOK's own stages followed by this package's. It
// restricts KWOK's pod-ready to pods that the fake kubelet has admitted.
// Otherwise a pod could be Ready for a moment before it is rejected. KWOK's
// pod-delete is left out: the fake kubelet removes pods. A stage removes a pod by
// its name, and so removes another pod that got the name in the meantime.
func (c *Cluster) kwokConfig(cfg Config) ([]byte, error) {
	documents := [][]byte{[]byte(kwokOptions)}
	stages := []string{tools.NodeInitialize}
	if !cfg.NoHeartbeat {
		stages = append(stages, tools.NodeHeartbeat)
	}
	if !cfg.NoPodStages {
		stages = append(stages, tools.PodReady)
	}
	for _, name := range stages {
		text, err := readText(filepath.Join(c.bins.KwokFiles, name))
		if err != nil {
			return nil, err
		}
		if name == tools.PodReady {
			if text, err = admittedWithResources(text); err != nil {
				return nil, fmt.Errorf("change the stage %s: %w", name, err)
			}
		}
		documents = append(documents, text)
	}
	if cfg.NoPodStages {
		return bytes.Join(documents, separator), nil // all own stages are for pods
	}
	entries, err := ownStages.ReadDir("stages")
	if err != nil {
		return nil, fmt.Errorf("list the stages: %w", err)
	}
	for _, e := range entries {
		text, err := ownStages.ReadFile("stages/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("read the stage %s: %w", e.Name(), err)
		}
		documents = append(documents, text)
	}
	return bytes.Join(documents, separator), nil
}

// separator separates the documents of a YAML file.
var separator = []byte("\n---\n")

// withResources puts a container's resources into its status, as
// real kubelets do. Without it the API server accepts no resize.
const withResources = `  {{ with .resources }}
  resources: {{ YAML . 2 }}
  {{ with .requests }}
  allocatedResources: {{ YAML . 2 }}
  {{ end }}
  {{ end }}
`

// admittedWithResources adds to a stage's selector that the pod
// was admitted, and to its containers' statuses their resources.
func admittedWithResources(stage []byte) ([]byte, error) {
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(stage, &u.Object); err != nil {
		return nil, err
	}
	path := []string{"spec", "selector", "matchExpressions"}
	expressions, _, err := unstructured.NestedSlice(u.Object, path...)
	if err != nil {
		return nil, err
	}
	expressions = append(expressions, map[string]any{
		"key":      fmt.Sprintf(".status.conditions.[] | select( .type == %q ) | .status", kubelet.Admitted),
		"operator": "In",
		"values":   []any{"True"},
	})
	if err := unstructured.SetNestedSlice(u.Object, expressions, path...); err != nil {
		return nil, err
	}
	const running = "  restartCount: 0\n  state:\n    running:\n"
	template, _, err := unstructured.NestedString(u.Object, "spec", "next", "statusTemplate")
	if err != nil || strings.Count(template, running) != 1 {
		return nil, fmt.Errorf("the template of the status has not one place for containers that run (error %w):\n%s", err, template)
	}
	template = strings.Replace(template, running, withResources+running, 1)
	if err := unstructured.SetNestedField(u.Object, template, "spec", "next", "statusTemplate"); err != nil {
		return nil, err
	}
	return yaml.Marshal(u.Object)
}

func (c *Cluster) startKubelet(ctx context.Context, cfg Config) error {
	kubeconfig, err := c.KubeconfigFor(kubeletUser)
	if err != nil {
		return err
	}
	return c.launch(ctx, 0, func([]int) component {
		return component{
			Name: FakeKubelet,
			Path: c.bins.Kubelet,
			Args: append([]string{"--kubeconfig=" + kubeconfig}, cfg.ExtraArgs[FakeKubelet]...),
		}
	})
}
