// Package server answers the service of fluxionpb with an engine. It checks what
// comes in and passes on what comes back; what a call means is the engine's to
// know. A panic of the engine is a broken invariant and ends the process, unless the engine
// stands it.
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
	// pingAfter and pingTimeout find connections whose other end has vanished.
	pingAfter   = 10 * time.Second
	pingTimeout = 5 * time.Second
	// minPingInterval is how often a client may ping: more often than it does.
	minPingInterval = 5 * time.Second
	// handshakeTimeout bounds the time until a connection speaks HTTP/2.
	handshakeTimeout = 5 * time.Second
	// maxStreams bounds the calls that run at the same time on one connection.
	maxStreams = 256
)

// Options are what a server is made with.
type Options struct {
	// Credentials secure the connections. Defaults to none, as is right on a unix
	// socket or a loopback address.
	Credentials credentials.TransportCredentials
	// Log takes a line for each call at debug level. Required.
	Log *slog.Logger
	// Metrics writes the figures of the process as Prometheus' text. It may wait for the
	// engine, and is called once at a time. Defaults to none.
	Metrics func() ([]byte, error)
	// Panicked is called after a call has panicked, which is logged and answered with
	// codes.Internal. It is for engines that no call finds half changed after a panic. Defaults
	// to none: a panic ends the process.
	Panicked func()
}

// A Server serves one engine, and the standard health service beside it, which
// says SERVING until Stop. A check of it is answered when the engine takes calls, or is at work for
// one: an engine that hangs lets it wait.
type Server struct {
	grpc   *grpc.Server
	health *grpchealth.Server
	calls  calls
	// stopping ends the health watches, which have no end of their own.
	stopping context.Context
	stop     context.CancelFunc
}

// New returns a server that answers with an engine once Serve is called.
func New(e match.Engine, o Options) *Server {
	if o.Credentials == nil {
		o.Credentials = insecure.NewCredentials()
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
		grpc.ChainUnaryInterceptor(logUnary(o.Log), s.calls.unary, rescueUnary(&o), encodeErrorsUnary),
		grpc.ChainStreamInterceptor(s.watchUntilStop, logStream(o.Log), s.calls.stream, rescueStream(&o), encodeErrorsStream),
	)
	fluxionpb.RegisterFluxionServer(s.grpc, &service{engine: e, metrics: o.Metrics, gathering: make(chan struct{}, 1)})
	healthpb.RegisterHealthServer(s.grpc, &health{Server: s.health, engine: e, calls: &s.calls, rescue: o.rescue})
	s.health.SetServingStatus(fluxionpb.Fluxion_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_SERVING)
	return s
}

// Serve takes calls from a listener until Stop, and closes it. It returns nil
// after Stop, also where that came first, and why it could not go on otherwise.
func (s *Server) Serve(l net.Listener) error {
	if err := s.grpc.Serve(l); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// Stop takes no more calls, lets those that run come to their end, and returns
// nil. When ctx ends first it cuts them off and returns the error of ctx.
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
