package e2e

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/test/stack"
)

// A served is the FlowSchema and the priority level of a request.
type served struct{ schema, level string }

// These are the schemas of manifests/flowcontrol, with the levels of Kubernetes' own scheduler.
var (
	leases  = served{"fluence-leader-election", "leader-election"}
	allElse = served{"fluence", "workload-high"}
)

var dispatchedMetric = regexp.MustCompile(`(?m)^apiserver_flowcontrol_dispatched_requests_total\{flow_schema="([^"]*)",priority_level="([^"]*)"\} (\S+)$`)

// dispatched returns the number of requests that the API server's flow control let through.
func (s *story) dispatched() map[served]float64 {
	s.Helper()
	text, err := s.Client().CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	counts := map[served]float64{}
	for _, m := range dispatchedMetric.FindAllStringSubmatch(string(text), -1) {
		n, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			s.Fatal(err)
		}
		counts[served{m[1], m[2]}] += n
	}
	if len(counts) == 0 {
		s.Fatal("the API server has no metric of this name")
	}
	return counts
}

// asked returns the number of answered requests about objects by an account since a time. It
// counts requests about leases separately. It does not count watches, which are answered twice.
func (s *story) asked(account string, since time.Time) map[served]float64 {
	s.Helper()
	counts := map[served]float64{}
	for ev, err := range s.AuditEvents() {
		if err != nil {
			s.Fatal(err)
		}
		if ev.User.Username != "system:serviceaccount:"+stack.Namespace+":"+account || ev.ObjectRef == nil || ev.Verb == "watch" || ev.Received.Before(since) {
			continue
		}
		if ev.ResponseStatus.Code == http.StatusTooManyRequests {
			s.Errorf("%s was refused %s %s", account, ev.Verb, ev.RequestURI)
		}
		if ev.ObjectRef.Resource == "leases" {
			counts[leases]++
		} else {
			counts[allElse]++
		}
	}
	return counts
}

// The API server serves Fluence at the levels of Kubernetes' own
// scheduler, and never at the level of all service accounts.
func TestFluenceIsServedAsKubeSchedulerIs(t *testing.T) {
	s := tell(t)
	s.nodes("n", 2, "8")
	before, since := s.dispatched(), time.Now()
	s.applyText(job("gang", 4, "1"))
	s.running("gang-", 4)
	s.placed("job-gang-")
	scheduler, controller := map[served]float64{}, map[served]float64{}
	s.eventually("both accounts renew their leases and ask for more", func(context.Context) (bool, string) {
		scheduler, controller = s.asked(stack.Scheduler, since), s.asked(stack.Controller, since)
		all := min(scheduler[leases], scheduler[allElse], controller[leases], controller[allElse]) > 0
		return all, fmt.Sprintf("the scheduler: %v, the controller: %v", scheduler, controller)
	})
	after := s.dispatched()
	for _, at := range []served{leases, allElse} {
		if got, want := after[at]-before[at], scheduler[at]+controller[at]; got < want {
			t.Errorf("%g requests were dispatched by FlowSchema %s at %s, want the %g of Fluence at least", got, at.schema, at.level, want)
		}
	}
	for at := range after {
		ours := at == leases || at == allElse
		if strings.HasPrefix(at.schema, "fluence") && !ours {
			t.Errorf("FlowSchema %s leads to %s", at.schema, at.level)
		}
		if n := after[at] - before[at]; at.schema == "service-accounts" && n > 0 {
			t.Errorf("%g requests were dispatched by FlowSchema %s at %s, want none", n, at.schema, at.level)
		}
	}
	t.Logf("the scheduler asked %v, the controller %v", scheduler, controller)
}
