package matchtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// Now is the time of the suite's requests. It has whole seconds, because R counts time in seconds.
var Now = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// A subject is an engine under test.
type subject struct {
	match.Engine
	can   Capabilities
	epoch match.Epoch
}

// load resets the engine, puts these nodes and calls Ready.
func (s *subject) load(t *testing.T, nodes ...*resource.Graph) {
	t.Helper()
	s.reset(t)
	s.put(t, nodes...)
	s.ready(t)
}

func (s *subject) reset(t *testing.T) {
	t.Helper()
	e, err := s.Reset(t.Context())
	if err != nil {
		t.Fatalf("Reset() = %v", err)
	}
	s.epoch = e
}

func (s *subject) ready(t *testing.T) {
	t.Helper()
	if err := s.Ready(t.Context(), s.epoch); err != nil {
		t.Fatalf("Ready() = %v", err)
	}
}

func (s *subject) put(t *testing.T, nodes ...*resource.Graph) {
	t.Helper()
	if err := s.PutNode(t.Context(), s.epoch, nodes...); err != nil {
		t.Fatalf("PutNode() = %v", err)
	}
}

func (s *subject) remove(t *testing.T, name string) {
	t.Helper()
	if err := s.RemoveNode(t.Context(), s.epoch, name); err != nil {
		t.Fatalf("RemoveNode(%q) = %v", name, err)
	}
}

func (s *subject) setStatus(t *testing.T, name string, status resource.Status) {
	t.Helper()
	if err := s.SetStatus(t.Context(), s.epoch, name, status); err != nil {
		t.Fatalf("SetStatus(%q, %d) = %v", name, status, err)
	}
}

func (s *subject) release(t *testing.T, id match.JobID, keys ...string) {
	t.Helper()
	if err := s.Release(t.Context(), s.epoch, id, keys...); err != nil {
		t.Fatalf("Release(%d, %q) = %v", id, keys, err)
	}
}

func (s *subject) update(t *testing.T, id match.JobID, slots ...match.Slot) {
	t.Helper()
	if err := s.Update(t.Context(), s.epoch, match.Job{ID: id, Slots: slots}); err != nil {
		t.Fatalf("Update(%d) = %v", id, err)
	}
}

// An option changes a request.
type option func(*match.Request)

func keys(k ...string) option           { return func(r *match.Request) { r.Keys = k } }
func nearTo(n ...string) option         { return func(r *match.Request) { r.Near = n } }
func lasting(d time.Duration) option    { return func(r *match.Request) { r.Duration = d } }
func at(now time.Time) option           { return func(r *match.Request) { r.Now = now } }
func as(op match.Op) option             { return func(r *match.Request) { r.Op = op } }
func without(ids ...match.JobID) option { return func(r *match.Request) { r.Ignore = ids } }
func underPolicy(p string) option       { return func(r *match.Request) { r.Policy = p } }
func forHolder(h string) option         { return func(r *match.Request) { r.Holder = h } }

// terse leaves out numbers of a refusal.
func terse(r *match.Request) { r.Terse = true }

// wanting makes the request take whole nodes for a holder.
func wanting(holder string) option {
	return func(r *match.Request) { r.Policy, r.Holder = match.PolicyLonodex, holder }
}

// try requests a jobspec, and returns what Match returns.
func (s *subject) try(ctx context.Context, id match.JobID, js *jobspec.Jobspec, how ...option) (*match.Allocation, error) {
	r := match.Request{Epoch: s.epoch, ID: id, Jobspec: js, Now: Now}
	for _, h := range how {
		h(&r)
	}
	return s.Match(ctx, r)
}

// match requests a jobspec that must fit, and returns the allocation.
func (s *subject) match(t *testing.T, id match.JobID, js *jobspec.Jobspec, how ...option) *match.Allocation {
	t.Helper()
	a, err := s.try(t.Context(), id, js, how...)
	if err != nil {
		t.Fatalf("Match(%d) = %v", id, err)
	}
	if a == nil {
		t.Fatalf("Match(%d) gave neither allocation nor error", id)
	}
	return a
}

// places requests a jobspec that must fit, and checks the node of each slot: "a@n1 b@n2".
func (s *subject) places(t *testing.T, id match.JobID, js *jobspec.Jobspec, want string, how ...option) *match.Allocation {
	t.Helper()
	a := s.match(t, id, js, how...)
	if got := standing(a.Slots); got != want {
		t.Errorf("Match(%d) placed %q, want %q", id, got, want)
	}
	return a
}

// refuses requests a jobspec that must not fit, and returns the reason.
func (s *subject) refuses(t *testing.T, id match.JobID, js *jobspec.Jobspec, verdict error, how ...option) match.Reason {
	t.Helper()
	a, err := s.try(t.Context(), id, js, how...)
	if !errors.Is(err, verdict) {
		t.Fatalf("Match(%d) = %v, %v, want the error %q", id, a, err, verdict)
	}
	var refusal *match.Refusal
	if !errors.As(err, &refusal) {
		t.Fatalf("Match(%d) = %v, which is no *match.Refusal", id, err)
	}
	return refusal.Reason
}

// fails requests a jobspec that must fail with the error want.
func (s *subject) fails(t *testing.T, id match.JobID, js *jobspec.Jobspec, want error, how ...option) {
	t.Helper()
	if a, err := s.try(t.Context(), id, js, how...); !errors.Is(err, want) {
		t.Errorf("Match(%d) = %v, %v, want the error %q", id, a, err, want)
	}
}

// standing renders the node of each slot.
func standing(slots []match.Slot) string {
	words := make([]string, len(slots))
	for i, s := range slots {
		words[i] = s.Key + "@" + s.Node
	}
	return strings.Join(words, " ")
}

// held renders the jobs with their slots: "1: a@n1 b@n2; 2: 0@n1".
func (s *subject) held(t *testing.T) string {
	t.Helper()
	jobs := s.jobs(t)
	words := make([]string, len(jobs))
	for i, j := range jobs {
		words[i] = fmt.Sprintf("%d: %s", j.ID, standing(j.Slots))
	}
	return strings.Join(words, "; ")
}

func (s *subject) jobs(t *testing.T) []match.Job {
	t.Helper()
	jobs, err := s.Jobs(t.Context(), s.epoch)
	if err != nil {
		t.Fatalf("Jobs() = %v", err)
	}
	return jobs
}

// holding checks the jobs and their slots, as rendered by held.
func (s *subject) holding(t *testing.T, want string) {
	t.Helper()
	if got := s.held(t); got != want {
		t.Errorf("held is %q, want %q", got, want)
	}
}

// same fails the test if two values differ in anything except Waited.
func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(match.Allocation{}, "Waited")); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", what, diff)
	}
}

// gone returns a context that has ended.
func gone(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
