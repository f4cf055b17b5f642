package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"
)

func TestLeaseTimes(t *testing.T) {
	cases := map[string]struct {
		args []string
		want string // the error
	}{
		"the defaults": {want: "read the kubeconfig"},
		"longer ones": {
			args: []string{"--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=40s", "--leader-elect-retry-period=5s"},
			want: "read the kubeconfig",
		},
		"a lease that ends before it is given up": {
			args: []string{"--leader-elect-lease-duration=10s"},
			want: "--leader-elect-lease-duration 10s: must be longer than --leader-elect-renew-deadline, 10s",
		},
		"no time for a second try": {
			args: []string{"--leader-elect-retry-period=9s"},
			want: "--leader-elect-renew-deadline 10s: must be longer than 1.2 times --leader-elect-retry-period, 9s",
		},
		"tries without end": {args: []string{"--leader-elect-retry-period=0s"}, want: "--leader-elect-retry-period 0s: must be more than 0"},
		"a deadline of no time": {
			args: []string{"--leader-elect-renew-deadline=-1s"},
			want: "--leader-elect-renew-deadline -1s: must be longer than 1.2 times --leader-elect-retry-period, 2s",
		},
		"a lease of no whole seconds": {args: []string{"--leader-elect-lease-duration=15500ms"}, want: "--leader-elect-lease-duration 15.5s: must be whole seconds"},
		"what is no time":             {args: []string{"--leader-elect-lease-duration=long"}, want: `"long"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := options{lease: defaultLeaseTimes(), logging: logsapi.NewLoggingConfiguration()}
			fs := pflag.NewFlagSet("", pflag.ContinueOnError)
			o.addFlags(fs)
			err := fs.Parse(append(tc.args, "--kubeconfig=/nowhere"))
			if err == nil {
				err = run(t.Context(), o)
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("it ends with %v, want %q", err, tc.want)
			}
		})
	}
}
