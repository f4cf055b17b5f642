// Package apiproxy stands between clients and a Kubernetes API server. It passes all
// through, watches included, and refuses what it is told to refuse as a server with too
// many requests does.
//
// Clients keep their names if they bring tokens: those travel in the requests. Client
// certificates end at the proxy.
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
	// retryAfter is what a refused client is told to wait, in seconds.
	retryAfter = "1"
	// pingAfter and pingTimeout are those of client-go: a connection on which the server
	// says nothing is found dead by the proxy when its clients would find it.
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second
	// headerTimeout bounds the arrival of a request's header.
	headerTimeout = 10 * time.Second
	// maxIdle is how many connections to the server are kept for the next request.
	maxIdle = 64
)

// Config says for which server the proxy stands, and how clients know it.
type Config struct {
	// Server has the address of the API server and the authority that signed its
	// certificate. Its credentials are not used.
	Server *rest.Config
	// CertFile and KeyFile are the proxy's own, for 127.0.0.1.
	CertFile, KeyFile string
}

// A Proxy listens on a port of loopback. Its methods may be called from several
// goroutines.
type Proxy struct {
	url     string
	server  *http.Server
	resolve *request.RequestInfoFactory
	pass    http.Handler
	ended   chan error

	mu      sync.Mutex
	refuse  func(*request.RequestInfo) bool
	refused int
	changed chan struct{} // closed at the next refusal
}

// Start begins to pass requests through, and refuses none.
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
	}
	p.server = &http.Server{
		Handler:           p,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{own}},
		ReadHeaderTimeout: headerTimeout,
		ErrorLog:          log.New(io.Discard, "", 0), // who hangs up is no news
	}
	go func() { p.ended <- p.server.ServeTLS(listener, "", "") }()
	return p, nil
}

// through passes requests to the server. One that the server does not answer is broken
// off: any answer of the proxy's own would say that a server is there.
func through(target *url.URL, trust *tls.Config) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		FlushInterval: -1, // each event of a watch at once
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

// URL is the address of the proxy.
func (p *Proxy) URL() string { return p.url }

// Refuse has those requests refused from now on of which the function says so; nil
// refuses none. It is asked from several goroutines. A watch that was begun goes on.
func (p *Proxy) Refuse(which func(*request.RequestInfo) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = which
}

// Refused is how many requests have been refused so far.
func (p *Proxy) Refused() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused
}

// WaitRefused returns when so many requests have been refused since the start, or with
// ctx's error.
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

// Close breaks all connections off. A second call does nothing.
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
	if err != nil || !p.refuses(info) {
		p.pass.ServeHTTP(w, r)
		return
	}
	// To the letter what priority and fairness answers.
	w.Header().Set("Retry-After", retryAfter)
	http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
}

// refuses decides on a request, and counts.
func (p *Proxy) refuses(info *request.RequestInfo) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse == nil || !p.refuse(info) {
		return false
	}
	p.refused++
	close(p.changed)
	p.changed = make(chan struct{})
	return true
}
