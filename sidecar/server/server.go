// Package server serves an engine by the service of fluxionpb. It checks
// arguments and encodes results. The engine alone knows what a call means.
// A panic of the engine ends the process, unless Options.Panicked is set.
package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/sidecar/fluxionpb"
)

const (
	// pingAfter is the time after which an idle connection is pinged. Pings find connections whose
	// other end has vanished.
	pingAfter = 10 * time.Second
	// pingTimeout is the time after which a ping without an answer fails.
	pingTimeout = 5 * time.Second
	// minPingInterval is the shortest allowed interval between a
	// client's pings. The client of package client pings every 10s.
	minPingInterval = 5 * time.Second
	// handshakeTimeout bounds the time until a connection speaks HTTP/2.
	handshakeTimeout = 5 * time.Second
	// maxStreams bounds the calls that run at the same time on one connection.
	maxStreams = 256
)

// Options are the options of a server.
type Options struct {
	// Credentials secure the connections. Defaults to none,
	// as is right on a unix socket or a loopback address.
	Credentials credentials.TransportCredentials
	// Log gets a line for each call at debug level, and a warning for each new reason for which Ready
	// fails. Required.
	Log *slog.Logger
	// Metrics returns the metrics of the process in the text format of Prometheus. It may wait for
	// the engine. Only one call runs at a time. Defaults to none.
	Metrics func() ([]byte, error)
	// Loading reports whether the engine loads its graph in the background, so that it takes calls but
	// no matches, and whether that takes longer than it should. Defaults to never.
	Loading func() (loading, overdue bool)
	// Panicked is called after a call has panicked. The panic is logged, and the
	// call answered with codes.Internal. Set it only if a panic cannot leave the
	// engine half changed. Defaults to none: a panic ends the process.
	Panicked func()
}

// A Server serves one engine, and the standard health service, which answers
// SERVING until Stop. A health check is answered if the engine accepts calls,
// works on one or loads its graph. If the engine hangs, the check gets no answer.
type Server struct {
	grpc   *grpc.Server
	health *grpchealth.Server
	calls  calls
	// stopping ends when the server stops. It ends the
	// health watches, which would never end by themselves.
	stopping context.Context
	stop     context.CancelFunc
}

// New returns a server that answers with an engine once Serve is called.
func New(e match.Engine, o Options) *Server {
	if o.Credentials == nil {
		o.Credentials = insecure.NewCredentials()
	}
	if o.Loading == nil {
		o.Loading = func() (loading, overdue bool) { return false, false }
	}
	s := &Server{health: grpchealth.NewServer()}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.grpc = grpc.NewServer(
		grpc.Creds(o.Credentials),
		grpc.ForceServerCodecV2(fluxionpb.Codec()),
		grpc.MaxRecvMsgSize(fluxionpb.MaxMessage),
		grpc.MaxSendMsgSize(fluxionpb.MaxMessage),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPingInterval, PermitWithoutStream: true}),
		grpc.ChainUnaryInterceptor(logUnary(o.Log), s.calls.unary, recoverUnary(&o), encodeErrorsUnary),
		grpc.ChainStreamInterceptor(s.watchUntilStop, logStream(o.Log), s.calls.stream, recoverStream(&o), encodeErrorsStream),
	)
	fluxionpb.RegisterFluxionServer(s.grpc, &service{
		engine: e, metrics: o.Metrics, gathering: make(chan struct{}, 1), readiness: readinessLog{log: o.Log},
	})
	healthpb.RegisterHealthServer(s.grpc, &health{Server: s.health, engine: e, loading: o.Loading, calls: &s.calls, recoverPanic: o.recoverPanic})
	s.health.SetServingStatus(fluxionpb.Fluxion_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_SERVING)
	return s
}

// Serve accepts calls from a listener until Stop, and closes the listener. It returns
// nil after Stop, also if Stop came first. Otherwise it returns the error that ended it.
func (s *Server) Serve(l net.Listener) error {
	if err := s.grpc.Serve(l); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// Stop accepts no more calls, waits until the running calls end, and returns
// nil. If ctx ends first, it cuts them off and returns the error of ctx.
func (s *Server) Stop(ctx context.Context) error {
	s.health.Shutdown()
	s.stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.grpc.GracefulStop()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		s.grpc.Stop()
		return ctx.Err()
	}
}
