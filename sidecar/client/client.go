// Package client implements match.Engine over gRPC, for an engine in another process
// that serves fluxionpb. It keeps one connection, which it opens in the background
// and opens again whenever it breaks. No call waits for longer than its deadline.
package client

import (
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/sidecar/endpoint"
	"github.com/flux-k8s/fluence/sidecar/fluxionpb"
)

const (
	// retryFirst is the shortest time between two attempts to connect.
	retryFirst = 50 * time.Millisecond
	// retryMax is the longest such time. It is short, so that
	// work goes on within a second of the sidecar's return.
	retryMax = 250 * time.Millisecond
	// connectTimeout bounds one attempt. The kernel of a stopped
	// process still accepts connections, but nothing answers on them.
	connectTimeout = time.Second
	// pingAfter is the time after which an idle connection is pinged. Pings find a connection whose
	// other end has vanished while no call is made.
	pingAfter = 10 * time.Second
	// pingTimeout is the time after which a ping without an answer fails.
	pingTimeout = 2 * time.Second
)

// Options are the options of a client. The zero Options are right for a unix socket.
type Options struct {
	// TLS names the files of mutual TLS, for a sidecar on another machine. Defaults to none.
	TLS endpoint.Identity
	// Timeout bounds a call whose context has no deadline. Defaults to 2s.
	Timeout time.Duration
	// LoadTimeout does the same for Update, PutNode, Jobs, AddSubgraph
	// and Find, which may carry a whole cluster. Defaults to 30s.
	LoadTimeout time.Duration
	// Brief is for callers that keep the slots of many matches. Match then returns no R of the
	// allocation, and R of a slot on one node has only types and amounts, as an Update takes
	// them. Slots share equal sets, which must not be changed. R of other slots is complete.
	Brief bool
}

// A Client is a match.GraphEngine over a connection. If no answer comes, or none in time, the error
// is match.ErrUnavailable. The call may have been carried out nevertheless, and may be repeated.
type Client struct {
	conn    *grpc.ClientConn
	rpc     fluxionpb.FluxionClient
	health  healthpb.HealthClient
	options Options
	brief   resource.Canon
}

var _ match.Engine = (*Client)(nil)

// Dial returns a client of the sidecar at unix:///path or tcp://host:port. It does not wait for
// a connection, and does not fail without one. It fails for any other target, for a TCP target
// that is no loopback address if there is no mutual TLS, and for files that cannot be read.
func Dial(target string, o Options) (*Client, error) {
	if o.Timeout == 0 {
		o.Timeout = 2 * time.Second
	}
	if o.LoadTimeout == 0 {
		o.LoadTimeout = 30 * time.Second
	}
	secured, err := o.TLS.Enabled()
	if err != nil {
		return nil, fmt.Errorf("dial %q: %w", target, err)
	}
	to, err := endpoint.Parse(target, secured)
	if err != nil {
		return nil, fmt.Errorf("dial %q: %w", target, err)
	}
	creds := insecure.NewCredentials()
	if secured {
		config, err := o.TLS.Client()
		if err != nil {
			return nil, fmt.Errorf("dial %q: %w", target, err)
		}
		creds = credentials.NewTLS(config)
	}
	conn, err := grpc.NewClient(address(to), dialOptions(creds)...)
	if err != nil {
		return nil, fmt.Errorf("dial %q: %w", target, err)
	}
	conn.Connect()
	return &Client{
		conn:    conn,
		rpc:     fluxionpb.NewFluxionClient(conn),
		health:  healthpb.NewHealthClient(conn),
		options: o,
	}, nil
}

// address returns the name of an endpoint in gRPC.
func address(e endpoint.Endpoint) string {
	if e.Network == endpoint.Unix {
		return "unix://" + e.Address
	}
	return "dns:///" + e.Address
}

func dialOptions(creds credentials.TransportCredentials) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: retryFirst, Multiplier: 2, Jitter: 0.2, MaxDelay: retryMax},
			MinConnectTimeout: connectTimeout,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: pingAfter, Timeout: pingTimeout, PermitWithoutStream: true,
		}),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallSendMsgSize(fluxionpb.MaxMessage),
			grpc.MaxCallRecvMsgSize(fluxionpb.MaxMessage),
		),
		// Only the options count: no proxy of the environment, no
		// configuration from DNS. The connection is kept while it is idle.
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
	}
}

// Close ends the connection and every call on it.
func (c *Client) Close() error { return c.conn.Close() }
