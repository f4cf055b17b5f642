package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// writeCABundle writes a CA bundle, in PEM, into every entry of the configuration
// whose bundle differs. It reports whether there was such an entry.
func (c *certificates) writeCABundle(ctx context.Context, ca []byte) (written bool, err error) {
	var config admissionregistrationv1.MutatingWebhookConfiguration
	if err := c.client.Get(ctx, client.ObjectKey{Name: ConfigurationName}, &config); err != nil {
		return false, fmt.Errorf("get MutatingWebhookConfiguration %s: %w", ConfigurationName, err)
	}
	var entries []map[string]any
	for _, hook := range config.Webhooks {
		if !bytes.Equal(hook.ClientConfig.CABundle, ca) {
			entries = append(entries, map[string]any{"name": hook.Name, "clientConfig": map[string]any{"caBundle": ca}})
		}
	}
	if len(entries) == 0 {
		return false, nil
	}
	// The API server merges entries by name, and leaves fields alone that are not named here. With
	// the resource version, the patch cannot restore an entry that was removed in the meantime.
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": config.ResourceVersion},
		"webhooks": entries,
	})
	if err != nil {
		return false, fmt.Errorf("encode the patch of MutatingWebhookConfiguration %s: %w", ConfigurationName, err)
	}
	err = c.client.Patch(ctx, &config, client.RawPatch(types.StrategicMergePatchType, patch), client.FieldOwner(fieldManager))
	if err != nil {
		return false, fmt.Errorf("write the CA bundle into MutatingWebhookConfiguration %s: %w", ConfigurationName, err)
	}
	klog.FromContext(ctx).Info("The API server trusts the webhook's certificate", "configuration", ConfigurationName, "entries", len(entries))
	return true, nil
}
