// Command fake-kubelet admits and rejects the pods of a cluster's simulated
// nodes. Package cluster runs it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/flux-k8s/fluence/test/cluster/kubelet"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "path of the kubeconfig file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *kubeconfig)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fake-kubelet:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig string) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	cfg.QPS = -1
	cfg.UserAgent = "fake-kubelet"
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	return kubelet.Run(ctx, client)
}
