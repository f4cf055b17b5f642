package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/credentials"

	"github.com/flux-k8s/fluence/sidecar/server"
)

// stopTimeout is how long running calls may take to end.
const stopTimeout = 5 * time.Second

// A loader is an engine that loads its graph in the background.
type loader interface {
	Loading() (loading, overdue bool)
}

// run serves until ctx ends, and then returns nil.
func run(ctx context.Context, o *options, out io.Writer) error {
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.Level(-o.verbosity)}))
	at, metricsAt, err := o.endpoints()
	if err != nil {
		return err
	}
	if err := o.checkPolicy(); err != nil {
		return err
	}
	e, err := newEngine(o, log)
	if err != nil {
		return err
	}
	m := measure(e)
	so := server.Options{Log: log, Metrics: m.text}
	if o.engine == engineEmbedded {
		so.Panicked = m.panics.Inc
	}
	if l, ok := e.(loader); ok {
		so.Loading = l.Loading
	}
	if o.tls.Cert != "" {
		config, err := o.tls.Server()
		if err != nil {
			return fmt.Errorf("--tls-cert %q, --tls-key %q, --tls-client-ca %q: %w", o.tls.Cert, o.tls.Key, o.tls.CA, err)
		}
		so.Credentials = credentials.NewTLS(config)
	}

	l, err := listen(ctx, at)
	if err != nil {
		return fmt.Errorf("--listen %q: %w", o.listen, err)
	}
	g, ctx := errgroup.WithContext(ctx)
	if metricsAt != nil {
		ml, err := listen(ctx, *metricsAt)
		if err != nil {
			return errors.Join(fmt.Errorf("--metrics-listen %q: %w", o.metricsListen, err), l.Close())
		}
		g.Go(func() error { return serveMetrics(ctx, ml, m.handler()) })
		log.InfoContext(ctx, "Serving metrics", "address", ml.Addr())
	}
	log.InfoContext(ctx, "Serving", "listen", at.Network+"://"+l.Addr().String(), "engine", o.engine, "policy", o.policy, "version", version)
	g.Go(func() error { return serve(ctx, l, server.New(m.served(), so), log) })
	return g.Wait()
}

// serve serves l until ctx ends.
func serve(ctx context.Context, l net.Listener, s *server.Server, log *slog.Logger) error {
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	log.InfoContext(ctx, "Stopping: waiting for running calls to end", "timeout", stopTimeout)
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := s.Stop(bound); errors.Is(err, context.DeadlineExceeded) {
		log.WarnContext(ctx, "Calls were cut off", "timeout", stopTimeout)
	}
	return <-failed
}
