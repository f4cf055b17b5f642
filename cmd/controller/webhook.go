package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flux-k8s/fluence/pkg/webhook"
)

// namespaceFile is the file in which a pod finds its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// addWebhook adds the webhook for the scheduler whose groups the controller creates.
func addWebhook(mgr ctrl.Manager, o options) error {
	config := o.webhook
	config.SchedulerName = o.podGroup.SchedulerName
	config.Namespace = cmp.Or(config.Namespace, o.leaseNamespace)
	if config.Namespace == "" && config.CertDir == "" {
		text, err := os.ReadFile(namespaceFile)
		if errors.Is(err, fs.ErrNotExist) {
			return errors.New("--webhook-namespace: needed outside a cluster, unless --webhook=false")
		}
		if err != nil {
			return fmt.Errorf("find the namespace of the webhook: %w", err)
		}
		config.Namespace = strings.TrimSpace(string(text))
	}
	if err := webhook.AddToManager(mgr, config); err != nil {
		return fmt.Errorf("set up the webhook: %w", err)
	}
	return nil
}
