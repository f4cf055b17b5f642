// Command training-operator runs the controllers of the kinds of kubeflow.org/v1, except MPIJob. The
// program of its module makes the certificate of its webhooks itself, for the name of a Service. This one
// reads it from a folder.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	kubeflow "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	"github.com/kubeflow/training-operator/pkg/config"
	controllers "github.com/kubeflow/training-operator/pkg/controller.v1"
	"github.com/kubeflow/training-operator/pkg/controller.v1/common"
	"github.com/kubeflow/training-operator/pkg/webhooks"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

func main() {
	port := flag.Int("webhook-port", 0, "the port of the webhooks, on 127.0.0.1")
	certificates := flag.String("certificates", "", "the folder with tls.crt and tls.key of the webhooks")
	flag.Parse()
	ctrl.SetLogger(klog.Background())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *port, *certificates)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "training-operator:", err)
		os.Exit(1)
	}
}

// run runs the controllers and the webhooks until ctx ends.
func run(ctx context.Context, port int, certificates string) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), kubeflow.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("register the kinds: %w", err)
	}
	client, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	mgr, err := ctrl.NewManager(client, ctrl.Options{
		Scheme:                 scheme,
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		WebhookServer:          webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, CertDir: certificates}),
	})
	if err != nil {
		return fmt.Errorf("make a manager: %w", err)
	}
	config.Config.PyTorchInitContainerImage = config.PyTorchInitContainerImageDefault
	config.Config.PyTorchInitContainerTemplateFile = config.PyTorchInitContainerTemplateFileDefault
	config.Config.PyTorchInitContainerMaxTries = config.PyTorchInitContainerMaxTriesDefault
	for _, kind := range []string{kubeflow.PyTorchJobKind, kubeflow.TFJobKind, kubeflow.XGBoostJobKind, kubeflow.PaddleJobKind, kubeflow.JAXJobKind} {
		if err := controllers.SupportedSchemeReconciler[kind](mgr, common.GenNonGangSchedulerSetupFunc(), 1); err != nil {
			return fmt.Errorf("set up the controller of %s: %w", kind, err)
		}
		if err := webhooks.SupportedSchemeWebhook[kind](mgr); err != nil {
			return fmt.Errorf("set up the webhook of %s: %w", kind, err)
		}
	}
	return mgr.Start(ctx)
}
