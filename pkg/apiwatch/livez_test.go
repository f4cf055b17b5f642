package apiwatch

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// says gives every request this answer.
func says(code int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}
}

// endless answers with a body that does not end before the client stops reading.
func endless(w http.ResponseWriter, _ *http.Request) {
	for chunk := make([]byte, 4<<10); ; {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// servers serve a handler over HTTP/1, and over HTTP/2 as an API server does.
var servers = map[string]func(*testing.T, http.Handler) *rest.Config{
	"HTTP/1": func(t *testing.T, h http.Handler) *rest.Config {
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		return &rest.Config{Host: server.URL}
	},
	"HTTP/2": func(t *testing.T, h http.Handler) *rest.Config {
		server := httptest.NewUnstartedServer(h)
		server.EnableHTTP2 = true
		server.StartTLS()
		t.Cleanup(server.Close)
		return &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: authority(server)}}
	},
}

func authority(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

func TestLivezTakesEveryAnswer(t *testing.T) {
	cases := map[string]http.HandlerFunc{
		"all is well":                          says(http.StatusOK, "ok"),
		"all is well, in no words":             says(http.StatusOK, ""),
		"a check has failed":                   says(http.StatusInternalServerError, "[-]etcd failed", "Content-Type", "text/plain; charset=utf-8"),
		"who asks may not":                     says(http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","code":403}`, "Content-Type", "application/json"),
		"flow control refuses":                 says(http.StatusTooManyRequests, "Too many requests, please try again later.\n", "Content-Type", "text/plain; charset=utf-8", "Retry-After", "1"),
		"a proxy has nobody to ask":            says(http.StatusServiceUnavailable, "no backend", "Content-Type", "text/plain"),
		"a proxy in its own words":             says(http.StatusBadGateway, "<html>", "Content-Type", "text/html"),
		"a kind of content that nobody knows":  says(http.StatusServiceUnavailable, "x", "Content-Type", "///"),
		"elsewhere, where nobody answers":      says(http.StatusFound, "", "Location", "http://127.0.0.1:1/livez"),
		"elsewhere, which cannot be read":      says(http.StatusMovedPermanently, "", "Location", "http://%zz"),
		"elsewhere, it does not say where":     says(http.StatusTemporaryRedirect, ""),
		"an answer that never comes to an end": endless,
	}
	for over, serve := range servers {
		for name, handler := range cases {
			t.Run(over+": "+name, func(t *testing.T) {
				ping, err := Livez(serve(t, handler))
				if err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if err := ping(t.Context()); err != nil {
						t.Errorf("an answer was taken for silence: %v", err)
					}
				}
			})
		}
	}
}

func TestLivezTellsOfSilence(t *testing.T) {
	gone := httptest.NewServer(says(http.StatusOK, "ok"))
	gone.Close()
	silent := servers["HTTP/2"](t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	breaks := servers["HTTP/1"](t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	stranger := servers["HTTP/2"](t, says(http.StatusOK, "ok"))
	stranger.CAData = nil
	cases := map[string]struct {
		config *rest.Config
		want   string
	}{
		"nobody listens":                          {&rest.Config{Host: gone.URL}, "connection refused"},
		"no answer before the deadline":           {silent, "deadline exceeded"},
		"the connection breaks before the answer": {breaks, "EOF"},
		"somebody else under its address":         {stranger, "certificate"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ping, err := Livez(tc.config)
			if err != nil {
				t.Fatal(err)
			}
			limit := time.Minute
			if tc.config == silent {
				limit = time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			if err := ping(ctx); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "/livez") {
				t.Errorf("ping() = %v, want an error that says %q, and what was asked", err, tc.want)
			}
		})
	}
}

// A server may be reached below a path of a proxy.
func TestLivezAsksBelowThePathOfTheServer(t *testing.T) {
	var asked []string
	config := servers["HTTP/1"](t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked = append(asked, r.Method+" "+r.URL.Path) }))
	for _, path := range []string{"", "/", "/clusters/one", "/clusters/one/"} {
		below := *config
		below.Host += path
		ping, err := Livez(&below)
		if err != nil {
			t.Fatal(err)
		}
		if err := ping(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if got, want := strings.Join(asked, ", "), "GET /livez, GET /livez, GET /clusters/one/livez, GET /clusters/one/livez"; got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
}
