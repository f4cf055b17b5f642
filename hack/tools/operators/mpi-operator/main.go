// Command mpi-operator runs the controller of MPIJob. The program of its module serves its health on a
// fixed port of all addresses, and ends when it loses its lease. This one does neither: a test
// cluster has one of it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/kubeflow/mpi-operator/cmd/mpi-operator/app/options"
	mpijobclient "github.com/kubeflow/mpi-operator/pkg/client/clientset/versioned"
	mpijobscheme "github.com/kubeflow/mpi-operator/pkg/client/clientset/versioned/scheme"
	mpijobinformers "github.com/kubeflow/mpi-operator/pkg/client/informers/externalversions"
	"github.com/kubeflow/mpi-operator/pkg/controller"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	podgroupclient "sigs.k8s.io/scheduler-plugins/pkg/generated/clientset/versioned"
)

func main() {
	opt := options.NewServerOption()
	opt.AddFlags(flag.CommandLine)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, opt)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mpi-operator:", err)
		os.Exit(1)
	}
}

// run runs the controller until ctx ends.
func run(ctx context.Context, opt *options.ServerOption) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", opt.Kubeconfig)
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	cfg.QPS, cfg.Burst = float32(opt.QPS), opt.Burst
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	mpiJobs, err := mpijobclient.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("make a client of MPIJobs: %w", err)
	}
	podGroups, err := podgroupclient.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("make a client of PodGroups: %w", err)
	}
	if err := mpijobscheme.AddToScheme(scheme.Scheme); err != nil {
		return fmt.Errorf("register MPIJobs for events: %w", err)
	}
	ours := informers.NewSharedInformerFactory(kube, 0)
	theirs := mpijobinformers.NewSharedInformerFactory(mpiJobs, 0)
	c, err := controller.NewMPIJobController(ctx, kube, mpiJobs, nil, podGroups,
		ours.Core().V1().ConfigMaps(), ours.Core().V1().Secrets(), ours.Core().V1().Services(), ours.Batch().V1().Jobs(),
		ours.Core().V1().Pods(), ours.Scheduling().V1().PriorityClasses(), theirs.Kubeflow().V2beta1().MPIJobs(), opt)
	if err != nil {
		return fmt.Errorf("make the controller: %w", err)
	}
	ours.Start(ctx.Done())
	theirs.Start(ctx.Done())
	if c.PodGroupCtrl != nil {
		c.PodGroupCtrl.StartInformerFactory(ctx.Done())
	}
	return c.Run(opt.Threadiness, ctx.Done())
}
