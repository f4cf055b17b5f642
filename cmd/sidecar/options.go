package main

import (
	"fmt"
	"net"
	"slices"

	"github.com/spf13/pflag"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/sidecar/endpoint"
)

// options are the values of the flags.
type options struct {
	// listen is where the service listens: unix:///path or tcp://host:port.
	listen string
	// tls names the files of mutual TLS. Defaults to none.
	tls endpoint.Identity
	// engine is embedded or fluxion.
	engine string
	// granules are the sizes of Fluxion's units by type. By default, which
	// is empty, the size depends on the unit in which a type is counted.
	granules map[string]int64
	// policy is the policy of requests that name none.
	policy string
	// graphOptions are Fluxion's initialisation options, as JSON, for graphs
	// of any shape that are added to the embedded engine. Options that are
	// left out are as in Fluxion, except that the policy is the one above.
	graphOptions string
	// metricsListen is the host:port of /metrics. Defaults to empty, which means none.
	// The metrics contain no secret and change nothing, so any address is allowed.
	metricsListen string
	// verbosity is 0 for what an operator must know, and 4 for every call.
	verbosity int
}

func defaults() *options {
	return &options{listen: "unix:///run/fluence/fluxion.sock", engine: defaultEngine(), policy: match.PolicyLonode, graphOptions: "{}"}
}

func (o *options) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.listen, "listen", o.listen,
		"where to serve: unix:///path, or tcp://host:port on a loopback address or with mutual TLS")
	f.StringVar(&o.tls.Cert, "tls-cert", "", "PEM file of the server's certificate, for mutual TLS; read at every handshake")
	f.StringVar(&o.tls.Key, "tls-key", "", "PEM file of its private key")
	f.StringVar(&o.tls.CA, "tls-client-ca", "", "PEM file of the authorities that clients' certificates must come from")
	f.StringVar(&o.engine, "engine", o.engine,
		fmt.Sprintf("what matches: %q, or %q where its library is part of the image", engineEmbedded, engineFluxion))
	f.StringToInt64Var(&o.granules, "granule", nil,
		"with Fluxion, how much of a type is one unit, in what the type is counted in: type=amount, several with commas;"+
			" by default 1000 of thousandths, 1 GiB of bytes, a page of huge pages, and 1 of all else")
	f.StringVar(&o.policy, "policy", o.policy,
		fmt.Sprintf("how nodes are chosen where a request does not say, one of %q", match.Policies()))
	f.StringVar(&o.graphOptions, "graph-options", o.graphOptions,
		"how graphs that are added to the embedded engine are matched: Fluxion's initialisation options, a JSON object")
	f.StringVar(&o.metricsListen, "metrics-listen", "", "host:port to serve /metrics at, in plain HTTP; without a host on all addresses; empty for none")
	f.IntVarP(&o.verbosity, "v", "v", 0, "how much to log: 0 what an operator must know, 4 every call")
}

// checkPolicy fails for an unknown policy.
func (o *options) checkPolicy() error {
	if !slices.Contains(match.Policies(), o.policy) {
		return fmt.Errorf("--policy %q: must be one of %q", o.policy, match.Policies())
	}
	return nil
}

// endpoints reads the addresses. An error names the flag
// and its value. metrics is nil if no metrics are wanted.
func (o *options) endpoints() (service endpoint.Endpoint, metrics *endpoint.Endpoint, err error) {
	secured, err := o.tls.Enabled()
	if err != nil {
		return service, nil, fmt.Errorf("--tls-cert %q, --tls-key %q, --tls-client-ca %q: %w", o.tls.Cert, o.tls.Key, o.tls.CA, err)
	}
	service, err = endpoint.Parse(o.listen, secured)
	if err != nil {
		return service, nil, fmt.Errorf("--listen %q: %w", o.listen, err)
	}
	if o.metricsListen == "" {
		return service, nil, nil
	}
	if _, _, err := net.SplitHostPort(o.metricsListen); err != nil {
		return service, nil, fmt.Errorf("--metrics-listen %q: want host:port: %w", o.metricsListen, err)
	}
	return service, &endpoint.Endpoint{Network: endpoint.TCP, Address: o.metricsListen}, nil
}
