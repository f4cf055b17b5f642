package pki

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"testing"
)

func TestCertificates(t *testing.T) {
	ca, err := NewAuthority("ca")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := ca.Pair().Write(dir, "ca"); err != nil {
		t.Fatal(err)
	}
	loaded, err := LoadAuthority(dir, "ca")
	if err != nil {
		t.Fatal(err)
	}
	client, err := loaded.Client("someone", "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	server, err := loaded.Server("kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewAuthority("other")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		pair    Pair
		roots   *Authority
		use     x509.ExtKeyUsage
		name    string
		wantErr bool
	}{
		"a client":                        {pair: client, roots: ca, use: x509.ExtKeyUsageClientAuth},
		"a client of another authority":   {pair: client, roots: other, use: x509.ExtKeyUsageClientAuth, wantErr: true},
		"a client that poses as a server": {pair: client, roots: ca, use: x509.ExtKeyUsageServerAuth, wantErr: true},
		"a server by name":                {pair: server, roots: ca, use: x509.ExtKeyUsageServerAuth, name: "kubernetes"},
		"a server by address":             {pair: server, roots: ca, use: x509.ExtKeyUsageServerAuth, name: "127.0.0.1"},
		"a server by a name it has not":   {pair: server, roots: ca, use: x509.ExtKeyUsageServerAuth, name: "example.org", wantErr: true},
		"a server that poses as a client": {pair: server, roots: ca, use: x509.ExtKeyUsageClientAuth, wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pair, err := tls.X509KeyPair(tc.pair.Cert, tc.pair.Key)
			if err != nil {
				t.Fatal(err)
			}
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(tc.roots.Pair().Cert)
			_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: tc.name, KeyUsages: []x509.ExtKeyUsage{tc.use}})
			if (err != nil) != tc.wantErr {
				t.Errorf("Verify() = %v", err)
			}
		})
	}
	pair, err := tls.X509KeyPair(client.Cert, client.Key)
	if err != nil {
		t.Fatal(err)
	}
	if s := pair.Leaf.Subject; s.CommonName != "someone" || !slices.Equal(s.Organization, []string{"a", "b"}) {
		t.Errorf("the client is %v", s)
	}
}
