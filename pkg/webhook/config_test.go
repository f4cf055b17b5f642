package webhook

import (
	"os"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestConfig(t *testing.T) {
	cases := map[string]struct {
		edit func(*Config)
		want string // part of the error; empty for none
	}{
		"the default":                      {edit: func(*Config) {}},
		"certificates of somebody else":    {edit: func(c *Config) { c.CertDir, c.Namespace = "/certs", "" }},
		"an address":                       {edit: func(c *Config) { c.Address = "::1" }},
		"no scheduler":                     {edit: func(c *Config) { c.SchedulerName = "" }, want: "schedulerName: "},
		"the default scheduler":            {edit: func(c *Config) { c.SchedulerName = "default-scheduler" }, want: "schedulerName: "},
		"an address that is a name":        {edit: func(c *Config) { c.Address = "localhost" }, want: `address: "localhost": `},
		"no port":                          {edit: func(c *Config) { c.Port = 0 }, want: "port: 0: "},
		"too high a port":                  {edit: func(c *Config) { c.Port = 65536 }, want: "port: 65536: "},
		"nowhere to keep the certificate":  {edit: func(c *Config) { c.Namespace = "" }, want: "namespace: "},
		"a name that is none":              {edit: func(c *Config) { c.DNSNames = []string{"a b"} }, want: `dnsNames: "a b": `},
		"no time between looks":            {edit: func(c *Config) { c.CertificatePoll = 0 }, want: "certificatePoll: 0s: "},
		"no time for a look":               {edit: func(c *Config) { c.CertificateTimeout = 0 }, want: "certificateTimeout: 0s: "},
		"nobody in particular":             {edit: func(c *Config) { c.WholeNodes = "some" }, want: `wholeNodes: "some": must be one of ["all" "labelled" "none"]`},
		"no time for looking up an object": {edit: func(c *Config) { c.LookupTimeout = -1 }, want: "lookupTimeout: -1ns: "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := DefaultConfig()
			c.Namespace = "ns"
			tc.edit(&c)
			err := c.validate()
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tc.want)) {
				t.Errorf("validate() = %v, want %q", err, tc.want)
			}
		})
	}
}

// The names in the manifests are the names in the code.
func TestManifests(t *testing.T) {
	var config admissionregistrationv1.MutatingWebhookConfiguration
	var service corev1.Service
	for file, into := range map[string]any{"configuration.yaml": &config, "service.yaml": &service} {
		text, err := os.ReadFile("../../manifests/webhook/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(text, into); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	if config.Name != ConfigurationName || service.Name != ServiceName || service.Spec.Ports[0].TargetPort.IntValue() != DefaultConfig().Port {
		t.Errorf("configuration %s, service %s at port %v", config.Name, service.Name, service.Spec.Ports[0].TargetPort)
	}
	for _, hook := range config.Webhooks {
		s := hook.ClientConfig.Service
		if s.Name != service.Name || s.Namespace != service.Namespace || *s.Path != Path {
			t.Errorf("webhook %s is at %v", hook.Name, s)
		}
		if *hook.FailurePolicy != admissionregistrationv1.Ignore || *hook.SideEffects != admissionregistrationv1.SideEffectClassNone || len(hook.MatchConditions) == 0 {
			t.Errorf("webhook %s: failure policy %s, side effects %s, %d conditions", hook.Name, *hook.FailurePolicy, *hook.SideEffects, len(hook.MatchConditions))
		}
	}
}
