package endpoint_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/sidecar/endpoint"
	"github.com/flux-k8s/fluence/sidecar/endpoint/endpointtest"
)

// meet lets a server and a client shake hands. Each returns its own error.
func meet(t *testing.T, server, client *tls.Config) (serverErr, clientErr error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	done := make(chan error)
	go func() {
		err := tls.Server(a, server).HandshakeContext(ctx)
		a.Close()
		done <- err
	}()
	client = client.Clone()
	client.ServerName = "127.0.0.1"
	c := tls.Client(b, client)
	clientErr = c.HandshakeContext(ctx)
	// In TLS 1.3 a server checks its client after the client
	// has finished. The read gives the server time for it.
	_, _ = c.Read(make([]byte, 1))
	b.Close()
	return <-done, clientErr
}

func configs(t *testing.T, server, client endpoint.Identity) (*tls.Config, *tls.Config) {
	t.Helper()
	s, err := server.Server()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.Client()
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

func TestBothSidesProveWhoTheyAre(t *testing.T) {
	ours, theirs := endpointtest.NewAuthority(t), endpointtest.NewAuthority(t)
	server := ours.Issue(t, t.TempDir(), "server")

	t.Run("sides of one authority meet", func(t *testing.T) {
		s, c := configs(t, server, ours.Issue(t, t.TempDir(), "client"))
		if se, ce := meet(t, s, c); se != nil || ce != nil {
			t.Errorf("server: %v, client: %v", se, ce)
		}
	})
	t.Run("a server takes no client of another authority", func(t *testing.T) {
		client := theirs.Issue(t, t.TempDir(), "client")
		client.CA = server.CA
		s, c := configs(t, server, client)
		if se, _ := meet(t, s, c); se == nil {
			t.Error("the server took it")
		}
	})
	t.Run("a server takes no client without a certificate", func(t *testing.T) {
		s, c := configs(t, server, ours.Issue(t, t.TempDir(), "client"))
		c.GetClientCertificate = nil
		if se, _ := meet(t, s, c); se == nil {
			t.Error("the server took it")
		}
	})
	t.Run("a client takes no server of another authority", func(t *testing.T) {
		s, c := configs(t, server, theirs.Issue(t, t.TempDir(), "client"))
		if _, ce := meet(t, s, c); ce == nil {
			t.Error("the client took it")
		}
	})
}

func TestARenewedCertificateCountsWithoutARestart(t *testing.T) {
	a, dir := endpointtest.NewAuthority(t), t.TempDir()
	server := a.Issue(t, dir, "server")
	s, c := configs(t, server, a.Issue(t, t.TempDir(), "client"))
	var serials []string
	c.VerifyConnection = func(state tls.ConnectionState) error {
		serials = append(serials, state.PeerCertificates[0].SerialNumber.String())
		return nil
	}
	for range 2 {
		if se, ce := meet(t, s, c); se != nil || ce != nil {
			t.Fatalf("server: %v, client: %v", se, ce)
		}
		a.Issue(t, dir, "server")
	}
	if serials[0] == serials[1] {
		t.Error("the server showed its old certificate")
	}
}

func TestAnIdentityIsWholeOrNone(t *testing.T) {
	cases := map[string]struct {
		identity endpoint.Identity
		want     bool
		wrong    bool
	}{
		"none":               {},
		"all three":          {identity: endpoint.Identity{Cert: "c", Key: "k", CA: "a"}, want: true},
		"no key":             {identity: endpoint.Identity{Cert: "c", CA: "a"}, wrong: true},
		"no certificate":     {identity: endpoint.Identity{Key: "k", CA: "a"}, wrong: true},
		"no authority":       {identity: endpoint.Identity{Cert: "c", Key: "k"}, wrong: true},
		"only the authority": {identity: endpoint.Identity{CA: "a"}, wrong: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got, err := tc.identity.Enabled(); got != tc.want || (err != nil) != tc.wrong {
				t.Errorf("Set() = %v, %v", got, err)
			}
		})
	}
}

func TestFilesThatCannotBeReadShowAtTheStart(t *testing.T) {
	good := endpointtest.NewAuthority(t).Issue(t, t.TempDir(), "x")
	cases := map[string]struct {
		identity endpoint.Identity
		want     string
	}{
		"no such certificate": {endpoint.Identity{Cert: "/nowhere", Key: good.Key, CA: good.CA}, "/nowhere"},
		"no such key":         {endpoint.Identity{Cert: good.Cert, Key: "/nowhere", CA: good.CA}, "/nowhere"},
		"no such authority":   {endpoint.Identity{Cert: good.Cert, Key: good.Key, CA: "/nowhere"}, "/nowhere"},
		"a key for authority": {endpoint.Identity{Cert: good.Cert, Key: good.Key, CA: good.Key}, "no certificate in " + good.Key},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, se := tc.identity.Server()
			_, ce := tc.identity.Client()
			for side, err := range map[string]error{"server": se, "client": ce} {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%s: got %v, want %q in it", side, err, tc.want)
				}
			}
			if strings.HasPrefix(tc.want, "/") && !errors.Is(se, os.ErrNotExist) {
				t.Errorf("%v is not os.ErrNotExist", se)
			}
		})
	}
}
