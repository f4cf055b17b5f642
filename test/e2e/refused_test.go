package e2e

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/flux-k8s/fluence/test/apiproxy"
	"github.com/flux-k8s/fluence/test/stack"
)

// refuseFor is how long the API server refuses Fluence's
// requests. It is longer than any lease may go without renewal.
var refuseFor = flag.Duration("load.refused", 20*time.Second, "for how long the API server refuses what Fluence asks, in the tests of that")

// refusedJobs is the number of Jobs that come while the API server refuses.
const refusedJobs = 24

// proxied makes the scheduler and the controller reach the
// API server through a proxy for the rest of the story.
func (s *story) proxied() *apiproxy.Proxy {
	s.Helper()
	cert, key, err := s.ServingCertificate("apiproxy")
	if err != nil {
		s.Fatal(err)
	}
	proxy, err := apiproxy.Start(apiproxy.Config{Server: s.RESTConfig(), CertFile: cert, KeyFile: key})
	if err != nil {
		s.Fatal(err)
	}
	reach := func(server string) {
		for _, process := range []string{stack.Scheduler, stack.Controller} {
			s.restart(process, func(c *stack.Config) { c.Server = server })
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), patience)
		defer cancel()
		if err := s.WaitWebhook(ctx); err != nil {
			s.Fatal(err)
		}
	}
	s.Cleanup(func() {
		proxy.Refuse(nil)
		reach("")
		if err := proxy.Close(); err != nil {
			s.Errorf("close the proxy: %v", err)
		}
	})
	reach(proxy.URL())
	return proxy
}

// arrives waits until a request is held by the proxy.
func (s *story) arrives(reached <-chan struct{}) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	select {
	case <-reached:
	case <-ctx.Done():
		s.Fatalf("the step was not reached: %v", ctx.Err())
	}
}

// asksHealth reports whether a request is for one of the paths that flow control exempts.
func asksHealth(r *request.RequestInfo) bool {
	return slices.Contains([]string{"/livez", "/readyz", "/healthz"}, r.Path)
}

// binds reports whether a request binds a pod.
func binds(r *request.RequestInfo) bool { return r.Resource == "pods" && r.Subresource == "binding" }

// The API server refuses all requests of Fluence, while Jobs are bound and others come. With
// its leases Fluence continues where it was. Without them its leaders end, and start anew.
func TestTheAPIServerRefusesWhatFluenceAsks(t *testing.T) {
	cases := map[string]struct {
		refuses func(*request.RequestInfo) bool
		// ends reports whether the leaders lose their leases.
		ends bool
		// worst is how long a Job may be half bound in addition.
		worst time.Duration
	}{
		"but leases": {
			refuses: func(r *request.RequestInfo) bool { return !asksHealth(r) && r.Resource != "leases" },
			worst:   loadWorst,
		},
		"leases too": {
			refuses: func(r *request.RequestInfo) bool { return !asksHealth(r) },
			ends:    true, worst: takenOver,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := tell(t)
			proxy := s.proxied()
			l := s.load(refusedJobs, 0)
			l.submit(0, l.jobs/2)
			l.seen(0, l.size()/8)
			if !tc.ends {
				l.guard(stack.Scheduler, stack.Controller, stack.Sidecar)
			}
			outage := span{from: time.Now()}
			proxy.Refuse(tc.refuses)
			l.submit(l.jobs/2, l.jobs)
			ended := map[string]int{}
			s.within(*refuseFor+patience, "the end of the refusals", time.Second, func(context.Context) (bool, string) {
				s.supervise(ended)
				return time.Since(outage.from) >= *refuseFor, fmt.Sprintf("%s passed", time.Since(outage.from))
			})
			t.Logf("%d requests were refused; processes that ended: %v", proxy.Refused(), ended)
			for _, leader := range []string{stack.Scheduler, stack.Controller} {
				if tc.ends && ended[leader] == 0 {
					t.Errorf("%s outlived its lease", leader)
				}
			}
			proxy.Refuse(nil)
			outage.to = time.Now()
			// A process that met the last refusals at its start ends once more.
			s.within(l.patience(), "all pods bound", 200*time.Millisecond, func(context.Context) (bool, string) {
				if tc.ends {
					s.supervise(ended)
				}
				bound := l.onNode()
				return bound == l.size(), fmt.Sprintf("%d of %d are", bound, l.size())
			})
			l.allPlaced()
			l.neverInHalves(tc.worst, tc.worst, outage)
			l.nothingDoubled()
		})
	}
}
