package endpoint

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// An Identity names the PEM files by which one side proves
// who it is and checks the other. The zero Identity is none.
type Identity struct {
	// Cert is this side's certificate. It is read at every
	// handshake, so that a renewed file counts without a restart.
	Cert string
	// Key is the private key of Cert. It is read at every handshake, too.
	Key string
	// CA has the authorities that must have signed the other side's certificate. It is read once.
	CA string
}

// Enabled reports whether files are named. It fails if some are named and some are missing.
func (i Identity) Enabled() (bool, error) {
	if i == (Identity{}) {
		return false, nil
	}
	if i.Cert == "" || i.Key == "" || i.CA == "" {
		return false, errors.New("mutual TLS needs a certificate, its key and an authority: all three or none")
	}
	return true, nil
}

// Server returns the configuration of a server that accepts only clients whose
// certificate the authorities have signed. It fails if a file cannot be read.
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

// Client returns the configuration of a client that proves who it is, and accepts only
// servers whose certificate the authorities have signed. It fails if a file cannot be read.
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
