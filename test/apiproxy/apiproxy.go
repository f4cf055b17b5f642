// Package apiproxy is a proxy between clients and a Kubernetes API server. It passes requests
// through, watches included. It refuses chosen requests, as a server with too many requests does,
// or lets them meet another Fault.
//
// Clients with tokens keep their identity, because tokens
// travel in the requests. Client certificates end at the proxy.
package apiproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
)

const (
	// retryAfter is the wait that a refusal demands, in seconds.
	retryAfter = "1"
	// pingAfter and pingTimeout are the values of client-go. So the proxy finds
	// a connection to a silent server dead when its clients would find it dead.
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second
	// headerTimeout bounds the arrival of a request's header.
	headerTimeout = 10 * time.Second
	// maxIdle is the number of idle connections to the server that are kept.
	maxIdle = 64
)

// Config is the server behind the proxy, and the proxy's certificate.
type Config struct {
	// Server has the address of the API server and the authority
	// that signed its certificate. Its credentials are not used.
	Server *rest.Config
	// CertFile and KeyFile are the proxy's certificate and key, for 127.0.0.1.
	CertFile, KeyFile string
}

// A Proxy listens on a port of loopback. Its methods may be called from several goroutines.
type Proxy struct {
	url     string
	server  *http.Server
	resolve *request.RequestInfoFactory
	pass    http.Handler
	ended   chan error

	mu      sync.Mutex
	faultOf func(Request) Fault
	refused int
	changed chan struct{} // closed at the next refusal
	reset   chan struct{} // closed when faultOf is set
}

// Start starts a proxy that refuses nothing.
func Start(cfg Config) (*Proxy, error) {
	target, err := url.Parse(cfg.Server.Host)
	if err != nil {
		return nil, fmt.Errorf("start the proxy: %w", err)
	}
	trust, err := rest.TLSConfigFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: cfg.Server.CAData, CAFile: cfg.Server.CAFile}})
	if err != nil {
		return nil, fmt.Errorf("start the proxy: %w", err)
	}
	own, err := tls.LoadX509KeyPair(cfg.CertFile, cfg.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("start the proxy: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the proxy: %w", err)
	}
	p := &Proxy{
		url: "https://" + listener.Addr().String(),
		resolve: &request.RequestInfoFactory{
			APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
		},
		pass:    through(target, trust),
		ended:   make(chan error, 1),
		changed: make(chan struct{}),
		reset:   make(chan struct{}),
	}
	p.server = &http.Server{
		Handler:           p,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{own}},
		ReadHeaderTimeout: headerTimeout,
		ErrorLog:          log.New(io.Discard, "", 0), // a client that hangs up is not worth a log
	}
	go func() { p.ended <- p.server.ServeTLS(listener, "", "") }()
	return p, nil
}

// through passes requests to the server. If the server does not answer, it breaks
// off the connection. Any answer by the proxy would look like an answer of a server.
func through(target *url.URL, trust *tls.Config) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		FlushInterval: -1, // send each event of a watch at once
		Transport: &http.Transport{
			TLSClientConfig:     trust,
			ForceAttemptHTTP2:   true,
			MaxIdleConnsPerHost: maxIdle,
			HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     log.New(io.Discard, "", 0),
	}
}

// URL returns the address of the proxy.
func (p *Proxy) URL() string { return p.url }

// Refuse sets the function that returns true for the requests to refuse. Nil refuses
// none. The function is called from several goroutines. A watch that has begun continues.
func (p *Proxy) Refuse(which func(*request.RequestInfo) bool) {
	if which == nil {
		p.Disturb(nil)
		return
	}
	p.Disturb(func(r Request) Fault {
		if which(r.RequestInfo) {
			return TooMany
		}
		return None
	})
}

// Disturb sets the function that returns the faults of requests, as Refuse does. Requests
// that are held are judged again by the new function.
func (p *Proxy) Disturb(faultOf func(Request) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faultOf = faultOf
	close(p.reset)
	p.reset = make(chan struct{})
}

// Refused returns how many requests have been refused so far, or have met another fault.
func (p *Proxy) Refused() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused
}

// WaitRefused returns when n requests have been refused since
// the start. It returns ctx's error if ctx is done before.
func (p *Proxy) WaitRefused(ctx context.Context, n int) error {
	for {
		p.mu.Lock()
		refused, changed := p.refused, p.changed
		p.mu.Unlock()
		if refused >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for %d refused requests (%d were): %w", n, refused, ctx.Err())
		}
	}
}

// Close breaks off all connections. A second call does nothing.
func (p *Proxy) Close() error {
	err := p.server.Close()
	if ended := <-p.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	p.ended <- http.ErrServerClosed // for a second call
	return err
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	info, err := p.resolve.NewRequestInfo(r)
	if err != nil {
		p.pass.ServeHTTP(w, r)
		return
	}
	about := Request{info, r.URL.Query().Get("fieldManager")}
	fault, reset := p.judge(about)
	for fault == Held {
		select {
		case <-reset:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
		fault, reset = p.judge(about)
	}
	p.answer(fault, w, r)
}

// judge returns the fault of a request, and counts it. The channel is closed at the next call of Disturb.
func (p *Proxy) judge(about Request) (Fault, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.faultOf == nil {
		return None, p.reset
	}
	fault := p.faultOf(about)
	if fault != None {
		p.refused++
		close(p.changed)
		p.changed = make(chan struct{})
	}
	return fault, p.reset
}
