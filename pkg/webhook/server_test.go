package webhook

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/flux-k8s/fluence/test/eventually"
)

// The manager runs on without the webhook. The server tries
// again after a failure, and serves once the cause is gone.
func TestAServerThatCannotServeTriesAgain(t *testing.T) {
	cases := map[string]func(t *testing.T, c *Config) (mend func()){
		"another listens at its port": func(t *testing.T, c *Config) func() {
			write(t, c.CertDir)
			other, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", c.Port))
			if err != nil {
				t.Fatal(err)
			}
			return func() { other.Close() }
		},
		"there is no certificate in its folder": func(t *testing.T, c *Config) func() {
			return func() { write(t, c.CertDir) }
		},
	}
	for name, spoil := range cases {
		t.Run(name, func(t *testing.T) {
			c := DefaultConfig()
			c.Address, c.CertDir, c.Port = "127.0.0.1", t.TempDir(), unusedPort(t)
			mend := spoil(t, &c)
			clock := clocktesting.NewFakeClock(time.Now())
			log := &ktesting.BufferTL{}
			ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), ktesting.NewLogger(log, ktesting.NewConfig())))
			defer cancel()
			done := make(chan error, 1)
			s := &server{config: c, clock: clock, handler: &handler{}}
			go func() { done <- s.Start(ctx) }()

			for range 2 {
				until(t, "it waits to try again", func() bool {
					ended(t, done)
					return clock.HasWaiters()
				})
				clock.Step(c.CertificatePoll)
			}
			until(t, "it waits to try again", clock.HasWaiters)
			if s.ready(nil) == nil {
				t.Error("it is ready, and does not serve")
			}
			mend()
			clock.Step(c.CertificatePoll)
			until(t, "it serves", func() bool {
				ended(t, done)
				conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", c.Port), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // whether it serves is all that is asked
				if err == nil {
					conn.Close()
				}
				return err == nil
			})
			if err := s.ready(nil); err != nil {
				t.Errorf("it serves, and is not ready: %v", err)
			}
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Start() = %v, want nil when it is told to stop", err)
			}
			if n := strings.Count(log.String(), "Cannot serve the webhook"); n != 1 {
				t.Errorf("the same is told %d times, want once:\n%s", n, log.String())
			}
		})
	}
}

// A server that waits to try again stops when its context ends.
func TestAServerThatWaitsStops(t *testing.T) {
	c := DefaultConfig()
	c.Address, c.CertDir, c.Port = "127.0.0.1", t.TempDir(), unusedPort(t)
	clock := clocktesting.NewFakeClock(time.Now())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- (&server{config: c, clock: clock, handler: &handler{}}).Start(ctx) }()
	until(t, "it waits to try again", clock.HasWaiters)
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Start() = %v, want nil", err)
	}
}

func ended(t *testing.T, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		t.Fatalf("the server ended with %v", err)
	default:
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	eventually.True(t.Context(), t, what, func(context.Context) (bool, string) { return ok(), "not yet" })
}

// write puts a certificate into a folder.
func write(t *testing.T, folder string) {
	t.Helper()
	certificates, _ := newCertificates(nil)
	data, err := certificates.secret(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		if err := os.WriteFile(filepath.Join(folder, name), data[name], 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func unusedPort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
