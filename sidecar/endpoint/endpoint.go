// Package endpoint defines where the sidecar's service is reached, and who may reach it. A client
// that reaches the service controls the resource graph. So the endpoint is a socket that one user
// can open, an address of this machine alone, or protected by mutual TLS.
package endpoint

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
)

// The networks of an Endpoint.
const (
	Unix = "unix"
	TCP  = "tcp"
)

// maxPath is the longest path of a socket in bytes. sun_path has 108 bytes, and the last is a zero.
const maxPath = 107

// An Endpoint is an address at which to listen, or to dial.
type Endpoint struct {
	// Network is Unix or TCP.
	Network string
	// Address is an absolute path, or host and port.
	Address string
}

// String is the inverse of Parse.
func (e Endpoint) String() string { return e.Network + "://" + e.Address }

// Parse reads unix:///path or tcp://host:port. It fails for everything else, and
// for TCP without mutual TLS unless the host is a loopback address. A host name
// is not accepted, because DNS could resolve it to another machine. mutualTLS
// means that both sides prove who they are. It is allowed with TCP only.
func Parse(text string, mutualTLS bool) (Endpoint, error) {
	network, address, ok := strings.Cut(text, "://")
	if !ok {
		return Endpoint{}, errors.New("want unix:///path or tcp://host:port")
	}
	e := Endpoint{Network: network, Address: address}
	switch network {
	case Unix:
		return e, checkUnix(address, mutualTLS)
	case TCP:
		return e, checkTCP(address, mutualTLS)
	}
	return Endpoint{}, fmt.Errorf("scheme %q: want unix:///path or tcp://host:port", network)
}

func checkUnix(path string, mutualTLS bool) error {
	switch {
	case mutualTLS:
		return errors.New("mutual TLS goes with tcp:// only")
	case !filepath.IsAbs(path):
		return fmt.Errorf("path %q is not absolute", path)
	case len(path) > maxPath:
		return fmt.Errorf("the path has %d bytes, a socket's has at most %d", len(path), maxPath)
	}
	return nil
}

func checkTCP(address string, mutualTLS bool) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("port %q is not a number from 0 to 65535", port)
	}
	if ip, err := netip.ParseAddr(host); mutualTLS || err == nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("host %q is not a loopback address, as it must be without mutual TLS", host)
}
