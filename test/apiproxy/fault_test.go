package apiproxy_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/flux-k8s/fluence/test/apiproxy"
)

func TestAFaultDecidesWhatTheServerAndItsClientSee(t *testing.T) {
	cases := map[string]struct {
		fault   apiproxy.Fault
		want    string
		reaches bool
	}{
		"none":       {apiproxy.None, "201", true},
		"too many":   {apiproxy.TooMany, "429", false},
		"conflict":   {apiproxy.Conflict, "409", false},
		"failed":     {apiproxy.Failed, "500", false},
		"timed out":  {apiproxy.TimedOut, "504", true},
		"broken off": {apiproxy.BrokenOff, "no answer", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var reached atomic.Bool
			p, client, _ := before(t, func(w http.ResponseWriter, _ *http.Request) { reached.Store(true); w.WriteHeader(http.StatusCreated) })
			p.Disturb(func(r apiproxy.Request) apiproxy.Fault {
				if r.FieldManager == "mine" && r.Resource == "pods" && r.Verb == "patch" {
					return tc.fault
				}
				return apiproxy.None
			})
			got := "no answer"
			if resp, err := ask(t, p, client, http.MethodPatch, "/api/v1/namespaces/ns/pods/p?fieldManager=mine"); err == nil {
				resp.Body.Close()
				got = fmt.Sprint(resp.StatusCode)
			}
			if got != tc.want || reached.Load() != tc.reaches {
				t.Errorf("answered %s, reached the server: %t, want %s and %t", got, reached.Load(), tc.want, tc.reaches)
			}
		})
	}
}

func TestARequestThatIsHeldGoesOnWhenFaultsChange(t *testing.T) {
	p, client, _ := before(t, func(http.ResponseWriter, *http.Request) {})
	p.Disturb(func(apiproxy.Request) apiproxy.Fault { return apiproxy.Held })
	done := make(chan error, 1)
	go func() {
		resp, err := ask(t, p, client, http.MethodGet, "/version")
		if err == nil {
			err = resp.Body.Close()
		}
		done <- err
	}()
	if err := p.WaitRefused(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		t.Fatalf("the request was not held: %v", err)
	default:
	}
	p.Disturb(nil)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
