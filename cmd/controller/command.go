package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flux-k8s/fluence/pkg/controller/podgroup"
	"github.com/flux-k8s/fluence/pkg/webhook"
)

// options are the flags of the command line.
type options struct {
	kubeconfig     string
	leaderElect    bool
	leaseNamespace string
	lease          leaseTimes
	metricsAddr    string
	probeAddr      string
	podGroup       podgroup.Config
	withQueues     bool
	withWebhook    bool
	webhook        webhook.Config
	logging        *logsapi.LoggingConfiguration
}

// newCommand returns the command of the program. It runs until the
// context that signals returns ends, and then returns no error.
func newCommand(signals func() context.Context) *cobra.Command {
	o := options{lease: defaultLeaseTimes(), podGroup: podgroup.DefaultConfig(), webhook: webhook.DefaultConfig(), logging: logsapi.NewLoggingConfiguration()}
	cmd := &cobra.Command{
		Use:          "fluence-controller",
		Short:        "Creates the PodGroups of Jobs and labelled pods that use the Fluence scheduler, and labels new objects",
		Version:      version,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			if err := logsapi.ValidateAndApply(o.logging, nil); err != nil {
				return fmt.Errorf("set up logging: %w", err)
			}
			ctrl.SetLogger(klog.Background())
			return run(signals(), o)
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *options) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "Path of a kubeconfig file. Empty: the service account of the pod.")
	fs.StringVar(&o.podGroup.SchedulerName, "scheduler-name", o.podGroup.SchedulerName, "The spec.schedulerName of the pods to make groups of. The match conditions of the webhook name it, too.")
	fs.DurationVar(&o.podGroup.EmptyDelay, "empty-group-delay", o.podGroup.EmptyDelay, "How long after its last pod a PodGroup that was created for labelled pods is deleted.")
	fs.BoolVar(&o.podGroup.EnforceDuration, "enforce-duration", o.podGroup.EnforceDuration, "End pods that have held their nodes for longer than the annotation fluence.flux-framework.org/duration of their group says. Jobs are ended by their deadline, other pods are evicted. What is still there half a minute later is deleted.")
	fs.DurationVar(&o.podGroup.IncompleteTimeout, "incomplete-timeout", o.podGroup.IncompleteTimeout, "How long a group that has started may lack members before its condition Incomplete is set and its incomplete-policy applies. An annotation of the group can set another time.")
	fs.BoolVar(&o.withQueues, "queues", true, "Let Jobs and pods wait in queues, once the CRDs of Queue and FluxJob are installed.")
	fs.BoolVar(&o.leaderElect, "leader-elect", true, "Elect a leader, so that only one replica works at a time.")
	fs.StringVar(&o.leaseNamespace, "leader-elect-resource-namespace", "", "Namespace of the lease. Empty: that of the pod; needed outside a cluster.")
	o.lease.addFlags(fs)
	fs.StringVar(&o.metricsAddr, "metrics-bind-address", "127.0.0.1:8443", `Address of the metrics, over HTTPS, for users who may get the URL /metrics. "0": none.`)
	fs.StringVar(&o.probeAddr, "health-probe-bind-address", ":8081", `Address of /healthz and /readyz. "0": none.`)
	fs.BoolVar(&o.withWebhook, "webhook", true, "Serve the webhook that labels pods and workloads when they are created; needs manifests/webhook.")
	fs.StringVar(&o.webhook.Address, "webhook-bind-address", o.webhook.Address, "IP address that the webhook listens on. Empty: all.")
	fs.IntVar(&o.webhook.Port, "webhook-port", o.webhook.Port, "Port that the webhook listens on.")
	fs.StringVar(&o.webhook.CertDir, "webhook-cert-dir", o.webhook.CertDir, "Folder with the webhook's tls.crt and tls.key, whose authority is written into the MutatingWebhookConfiguration by others. Empty: the controller makes them and writes it.")
	fs.StringVar(&o.webhook.Namespace, "webhook-namespace", o.webhook.Namespace, "Namespace of the webhook's Service and Secret. Empty: that of the lease.")
	fs.StringSliceVar(&o.webhook.DNSNames, "webhook-dns-names", o.webhook.DNSNames, "Names of the webhook in its certificate, beside the Service's.")
	fs.StringVar(&o.webhook.WholeNodes, "whole-nodes", o.webhook.WholeNodes, "The scheduler's argument wholeNodes: all, labelled or none. The webhook warns users who ask for whole nodes by annotation and may not have them. Set all if the scheduler's matchPolicy gives whole nodes to all.")
	logsapi.AddFlags(o.logging, fs)
}
