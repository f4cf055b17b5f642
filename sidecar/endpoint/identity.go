package endpoint

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// An Identity names the PEM files by which one side proves who it is and knows
// the other. The zero Identity is none.
type Identity struct {
	// Cert and Key are this side's certificate and its private key. They are read
	// at every handshake, so that renewed files count without a restart.
	Cert string
	Key  string
	// CA holds the authorities that the other side's certificate must come from.
	// It is read once.
	CA string
}

// Enabled says whether files are named. It fails if some are and some are missing.
func (i Identity) Enabled() (bool, error) {
	if i == (Identity{}) {
		return false, nil
	}
	if i.Cert == "" || i.Key == "" || i.CA == "" {
		return false, errors.New("mutual TLS needs a certificate, its key and an authority: all three or none")
	}
	return true, nil
}

// Server returns what a server needs to take only the calls of clients that the
// authorities vouch for. It fails if a file cannot be read.
func (i Identity) Server() (*tls.Config, error) {
	pool, err := i.check()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs:  pool,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return i.pair()
		},
	}, nil
}

// Client returns what a client needs to prove who it is, and to talk only to
// servers that the authorities vouch for. It fails if a file cannot be read.
func (i Identity) Client() (*tls.Config, error) {
	pool, err := i.check()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		RootCAs:    pool,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return i.pair()
		},
	}, nil
}

// check reads all files once, so that a mistake in them shows at the start.
func (i Identity) check() (*x509.CertPool, error) {
	if _, err := i.pair(); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(i.CA)
	if err != nil {
		return nil, fmt.Errorf("read authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read authorities: no certificate in %s", i.CA)
	}
	return pool, nil
}

func (i Identity) pair() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(i.Cert, i.Key)
	if err != nil {
		return nil, fmt.Errorf("read certificate and key: %w", err)
	}
	return &pair, nil
}
