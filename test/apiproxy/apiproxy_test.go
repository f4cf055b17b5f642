package apiproxy_test

import (
	"bufio"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"

	"github.com/flux-k8s/fluence/test/apiproxy"
	"github.com/flux-k8s/fluence/test/cluster/pki"
)

// patience bounds every wait.
const patience = 20 * time.Second

// before starts a server behind a proxy. It returns the proxy and a client that trusts it.
func before(t *testing.T, handler http.HandlerFunc) (*apiproxy.Proxy, *http.Client, *httptest.Server) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	ca, err := pki.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Server()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := pair.Write(dir, "proxy"); err != nil {
		t.Fatal(err)
	}
	config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}}
	p, err := apiproxy.Start(apiproxy.Config{Server: config, CertFile: filepath.Join(dir, "proxy.crt"), KeyFile: filepath.Join(dir, "proxy.key")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	client, err := rest.HTTPClientFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: ca.Pair().Cert}})
	if err != nil {
		t.Fatal(err)
	}
	return p, client, server
}

// ask makes a request through the proxy.
func ask(t *testing.T, p *apiproxy.Proxy, client *http.Client, method, path string) (*http.Response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, p.URL()+path, strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer mine")
	r.Header.Set("User-Agent", "me/1")
	return client.Do(r)
}

func TestAllOfARequestAndItsAnswerPasses(t *testing.T) {
	p, client, _ := before(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Kubernetes-Pf-Flowschema-Uid", "schema")
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, r.Method, r.URL.RequestURI(), r.Header.Get("Authorization"), r.Header.Get("User-Agent"), r.Header.Get("X-Forwarded-For"), string(body), r.Proto)
	})
	resp, err := ask(t, p, client, http.MethodPost, "/api/v1/pods?limit=1")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	const want = "POST/api/v1/pods?limit=1Bearer mineme/1bodyHTTP/2.0"
	if err != nil || string(body) != want {
		t.Errorf("the server saw %q, error %v, want %q", body, err, want)
	}
	if resp.StatusCode != http.StatusConflict || resp.Header.Get("X-Kubernetes-Pf-Flowschema-Uid") != "schema" || resp.ProtoMajor != 2 {
		t.Errorf("the answer came as %s %s with header %v", resp.Proto, resp.Status, resp.Header)
	}
}

func TestEachEventOfAWatchComesAtOnce(t *testing.T) {
	next := make(chan string)
	p, client, _ := before(t, func(w http.ResponseWriter, r *http.Request) {
		for {
			select {
			case line := <-next:
				fmt.Fprintln(w, line)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	go func() { next <- "one" }()
	resp, err := ask(t, p, client, http.MethodGet, "/api/v1/pods?watch=true")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	// The second event is sent when the first has been read. It is not refused any more.
	for i, want := range []string{"one\n", "two\n"} {
		if i == 1 {
			p.Refuse(func(*request.RequestInfo) bool { return true })
			next <- "two"
		}
		if got, err := lines.ReadString('\n'); got != want {
			t.Fatalf("read %q, error %v, want %q", got, err, want)
		}
	}
}

func TestARefusalIsThatOfPriorityAndFairness(t *testing.T) {
	p, client, _ := before(t, func(http.ResponseWriter, *http.Request) {})
	p.Refuse(func(*request.RequestInfo) bool { return true })
	resp, err := ask(t, p, client, http.MethodGet, "/version")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	got := fmt.Sprintf("%d %s %s %s", resp.StatusCode, resp.Header.Get("Retry-After"), resp.Header.Get("Content-Type"), string(body))
	if want := "429 1 text/plain; charset=utf-8 Too many requests, please try again later.\n"; got != want {
		t.Errorf("the answer was %q, want %q", got, want)
	}
}

func TestThatAloneIsRefusedWhichIsToBe(t *testing.T) {
	cases := map[string]struct {
		method, path string
		which        func(*request.RequestInfo) bool
		want         bool
	}{
		"a bind is": {http.MethodPost, "/api/v1/namespaces/ns/pods/p/binding", func(i *request.RequestInfo) bool {
			return i.Resource == "pods" && i.Subresource == "binding" && i.Namespace == "ns" && i.Name == "p"
		}, true},
		"a read of the pod is not": {http.MethodGet, "/api/v1/namespaces/ns/pods/p", func(i *request.RequestInfo) bool {
			return i.Subresource == "binding"
		}, false},
		"a watch is": {http.MethodGet, "/apis/apps/v1/deployments?watch=true", func(i *request.RequestInfo) bool {
			return i.Verb == "watch" && i.APIGroup == "apps"
		}, true},
		"a path that is no resource is": {http.MethodGet, "/version", func(i *request.RequestInfo) bool { return i.Path == "/version" }, true},
		"nothing is":                    {http.MethodGet, "/version", nil, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p, client, _ := before(t, func(http.ResponseWriter, *http.Request) {})
			p.Refuse(tc.which)
			resp, err := ask(t, p, client, tc.method, tc.path)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if got := resp.StatusCode == http.StatusTooManyRequests; got != tc.want || p.Refused() > 1 || (p.Refused() == 1) != tc.want {
				t.Errorf("answered %s, %d refused, want refused %t", resp.Status, p.Refused(), tc.want)
			}
		})
	}
}

func TestNobodyAnswersForAServerThatIsAway(t *testing.T) {
	p, client, server := before(t, func(http.ResponseWriter, *http.Request) {})
	server.Close()
	resp, err := ask(t, p, client, http.MethodGet, "/livez")
	if err == nil {
		resp.Body.Close()
		t.Errorf("the proxy answered %s", resp.Status)
	}
}

func TestAWaitForRefusalsEndsWhenTheyHaveCome(t *testing.T) {
	p, client, _ := before(t, func(http.ResponseWriter, *http.Request) {})
	p.Refuse(func(*request.RequestInfo) bool { return true })
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() { done <- p.WaitRefused(ctx, 2) }()
	for range 2 {
		resp, err := ask(t, p, client, http.MethodGet, "/version")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	if err := <-done; err != nil {
		t.Errorf("WaitRefused() = %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.WaitRefused(ended, 3); err == nil || !strings.Contains(err.Error(), "2 were") {
		t.Errorf("WaitRefused() = %v, want an error that says how many were", err)
	}
}
