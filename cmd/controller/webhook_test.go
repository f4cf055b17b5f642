package main

import (
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/flux-k8s/fluence/pkg/controller/podgroup"
	"github.com/flux-k8s/fluence/pkg/webhook"
)

func TestWebhookFlags(t *testing.T) {
	cases := map[string]struct {
		edit func(*options)
		want string // the error; empty for none
	}{
		"the namespace of the lease is the webhook's": {edit: func(o *options) { o.leaseNamespace = "fluence-system" }},
		"certificates in a folder need no namespace":  {edit: func(o *options) { o.webhook.CertDir = "/certs" }},
		"outside a cluster without a namespace": {
			edit: func(*options) {}, want: "--webhook-namespace: needed outside a cluster, unless --webhook=false",
		},
		"a wrong port": {
			edit: func(o *options) { o.leaseNamespace, o.webhook.Port = "fluence-system", -1 },
			want: "set up the webhook: port: -1: must be from 1 to 65535",
		},
		"a wrong rule for whole nodes": {
			edit: func(o *options) { o.leaseNamespace, o.webhook.WholeNodes = "fluence-system", "x" },
			want: `set up the webhook: wholeNodes: "x": must be one of`,
		},
		"the scheduler's name is the webhook's": {
			edit: func(o *options) { o.leaseNamespace, o.podGroup.SchedulerName = "fluence-system", "" },
			want: "set up the webhook: schedulerName: must not be empty",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			mgr, err := ctrl.NewManager(&rest.Config{Host: "https://127.0.0.1:1"}, ctrl.Options{
				Scheme: scheme.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
			})
			if err != nil {
				t.Fatal(err)
			}
			o := options{podGroup: podgroup.DefaultConfig(), webhook: webhook.DefaultConfig()}
			tc.edit(&o)
			got := ""
			if err := addWebhook(mgr, o); err != nil {
				got = err.Error()
			}
			if !strings.HasPrefix(got, tc.want) || (tc.want == "") != (got == "") {
				t.Errorf("addWebhook() = %q, want %q", got, tc.want)
			}
		})
	}
}
