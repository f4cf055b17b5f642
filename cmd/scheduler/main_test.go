package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"

	"github.com/flux-k8s/fluence/pkg/fluence"
)

func TestCommandIsKubeSchedulerWithoutEarlyNominations(t *testing.T) {
	command := newCommand()
	if command.Name() != "fluence-scheduler" {
		t.Errorf("the command is %s", command.Name())
	}
	for _, flag := range []string{"config", "leader-elect", "secure-port", "logging-format", "version"} {
		if command.Flag(flag) == nil {
			t.Errorf("the command has no flag --%s", flag)
		}
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.NominatedNodeNameForExpectation) {
		t.Error("a waiting pod would get its node nominated")
	}
}

func TestTheGateOfNativePodGroupsIsRefused(t *testing.T) {
	cases := map[string]struct {
		gates   string
		refused bool
	}{
		"by its name":                  {"GenericWorkload=true", true},
		"by a switch for many":         {"AllBeta=true", true},
		"not if it is off":             {"AllBeta=true,GenericWorkload=false", false},
		"not if others are on":         {"OpportunisticBatching=true", false},
		"nor if nothing is set at all": {"", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			gates := featuregate.NewFeatureGate()
			if err := gates.Add(map[featuregate.Feature]featuregate.FeatureSpec{
				features.GenericWorkload:       {PreRelease: featuregate.Beta},
				features.OpportunisticBatching: {PreRelease: featuregate.Beta},
			}); err != nil {
				t.Fatal(err)
			}
			if err := gates.Set(tc.gates); err != nil {
				t.Fatal(err)
			}
			err := refuseGate(gates)
			if (err != nil) != tc.refused {
				t.Fatalf("refuseGate() = %v with --feature-gates=%s, want an error: %t", err, tc.gates, tc.refused)
			}
			if err != nil && !strings.Contains(err.Error(), "GenericWorkload") {
				t.Errorf("the error does not name the gate: %v", err)
			}
		})
	}
}

func TestDialRefuses(t *testing.T) {
	cases := map[string]struct {
		args fluence.Args
		want string
	}{
		"a remote host without TLS":       {fluence.Args{Endpoint: "tcp://192.0.2.1:4242"}, "not a loopback address"},
		"what is no address":              {fluence.Args{Endpoint: "fluxion.sock"}, `"fluxion.sock"`},
		"a certificate that is not there": {fluence.Args{Endpoint: "tcp://192.0.2.1:4242", TLS: &fluence.TLS{CertFile: "no-cert", KeyFile: "no-key", CAFile: "no-ca"}}, "no-c"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m, err := dial(t.Context(), &tc.args)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("dial = %v, %v; want an error with %q", m, err, tc.want)
			}
			if m != nil {
				t.Errorf("a matcher that is not nil: %v", m)
			}
		})
	}
}

func TestDialWaitsForNobodyAndEndsWithTheScheduler(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m, err := dial(ctx, &fluence.Args{
		Endpoint:     "unix://" + filepath.Join(t.TempDir(), "nobody.sock"),
		MatchTimeout: metav1.Duration{Duration: time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	const closed = "the client connection is closing"
	for {
		// A separate goroutine closes the connection. Before that nobody answers.
		err := m.Ping(t.Context())
		if err == nil {
			t.Fatal("somebody answers")
		}
		if strings.Contains(err.Error(), closed) {
			return
		}
	}
}

func TestLeadingIsWhatTheLeaseSays(t *testing.T) {
	l := &lease{}
	if l.held() {
		t.Error("one that has yet to ask for the lease leads")
	}
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: "kube-system", Name: "lock"},
		Client:     fake.NewClientset().CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: "me"},
	}
	leads := make(chan bool, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: "test", Lock: lock, ReleaseOnCancel: true,
		LeaseDuration: time.Minute, RenewDeadline: 30 * time.Second, RetryPeriod: time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { leads <- l.held() },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if l.held() {
		t.Error("it leads before it holds the lease")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(ctx)
	}()
	if !<-leads {
		t.Error("it does not lead though it holds the lease")
	}
	cancel()
	<-ended
	l.unwanted.Store(true)
	if !l.held() {
		t.Error("without leader election the one scheduler does not lead")
	}
}
