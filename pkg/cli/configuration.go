package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/simulate"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// configMap is the ConfigMap in which the chart installs the scheduler's configuration.
const configMap = "fluence-scheduler-config"

// assumesDefault says what the command does if that ConfigMap cannot be read.
const assumesDefault = "assuming Fluence's default configuration; if it was changed, use --config or --topology-levels"

// configuration returns the scheduler's configuration: from the file that the user names, or else
// from the ConfigMap of the chart, or else Fluence's default.
func (o *options) configuration(ctx context.Context, r *reader) (simulate.Configuration, error) {
	c, err := o.foundConfiguration(ctx, r)
	if err != nil || len(o.levels) == 0 {
		return c, err
	}
	// This names the flag and the wrong key once. The check of the whole configuration would repeat both.
	if _, err := translate.ParseLevels(o.levels); err != nil {
		return c, fmt.Errorf("--topology-levels: %w", err)
	}
	c, err = c.WithLevels(o.levels)
	if err != nil {
		return c, err
	}
	if _, err := c.Levels(); err != nil {
		return c, fmt.Errorf("--topology-levels: %w", err)
	}
	return c, nil
}

func (o *options) foundConfiguration(ctx context.Context, r *reader) (simulate.Configuration, error) {
	if o.config != "" {
		text, err := os.ReadFile(o.config)
		if err != nil {
			return simulate.Configuration{}, fmt.Errorf("--config: %w", err)
		}
		c, err := simulate.Parse(text)
		if err != nil {
			return c, fmt.Errorf("--config: %s: %w", o.config, err)
		}
		return c, nil
	}
	installed, err := r.client.CoreV1().ConfigMaps(o.schedulerNamespace).Get(ctx, configMap, metav1.GetOptions{})
	switch {
	case err == nil:
		for _, text := range installed.Data {
			c, parsed := simulate.Parse([]byte(text))
			if parsed == nil {
				return c, nil
			}
			err = errors.Join(err, parsed)
		}
		if len(installed.Data) == 0 {
			err = errors.New("the ConfigMap is empty")
		}
		return simulate.Configuration{}, fmt.Errorf("ConfigMap %s/%s has no valid configuration of the scheduler: %w", o.schedulerNamespace, configMap, err)
	case apierrors.IsNotFound(err):
		r.notes = append(r.notes, fmt.Sprintf("ConfigMap %s/%s does not exist: %s", o.schedulerNamespace, configMap, assumesDefault))
		return simulate.Shipped()
	case apierrors.IsForbidden(err):
		r.notes = append(r.notes, fmt.Sprintf("you may not read ConfigMap %s/%s: %s", o.schedulerNamespace, configMap, assumesDefault))
		return simulate.Shipped()
	}
	return simulate.Configuration{}, fmt.Errorf("read ConfigMap %s/%s: %w", o.schedulerNamespace, configMap, err)
}

// checkLevels refuses a label of --topology-levels that no node has.
func (o *options) checkLevels(nodes []*corev1.Node) error {
	for _, key := range o.levels {
		if len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return n.Labels[key] != "" }) {
			return fmt.Errorf("--topology-levels: %q: no node has this label; kubectl get nodes --show-labels lists those that there are", key)
		}
	}
	return nil
}
