package e2e

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/flux-k8s/fluence/test/stack"
)

// A span is the time from one moment to another.
type span struct{ from, to time.Time }

// without returns the length of a span without its overlap with another.
func (a span) without(b span) time.Duration {
	from, to := a.from, a.to
	if b.from.After(from) {
		from = b.from
	}
	if b.to.Before(to) {
		to = b.to
	}
	return a.to.Sub(a.from) - max(0, to.Sub(from))
}

// bindTimes returns when the pods of the Jobs were bound, by name, from the API server's log.
// The log does not show whether a bind succeeded if its client was killed: it has a 504.
func (l *load) bindTimes() map[string]time.Time {
	l.Helper()
	times := map[string]time.Time{}
	for ev, err := range l.AuditEvents() {
		if err != nil {
			l.Fatal(err)
		}
		ref := ev.ObjectRef
		if ref == nil || ref.Subresource != "binding" || ref.Namespace != l.ns {
			continue
		}
		_, known := times[ref.Name]
		switch code := ev.ResponseStatus.Code; {
		case code == http.StatusCreated, code == http.StatusGatewayTimeout && !known:
			times[ref.Name] = ev.Answered
		}
	}
	return times
}

// binding returns for each Job the span from its first
// bind to its last, and how many of its pods were bound.
func (l *load) binding() (spans map[string]span, pods map[string]int) {
	l.Helper()
	spans, pods = map[string]span{}, map[string]int{}
	for pod, at := range l.bindTimes() {
		job := pod[:strings.LastIndexByte(pod, '-')]
		b := spans[job]
		if pods[job]++; b.from.IsZero() || at.Before(b.from) {
			b.from = at
		}
		if at.After(b.to) {
			b.to = at
		}
		spans[job] = b
	}
	return spans, pods
}

// boundAfter returns how many pods were bound after a moment.
func (l *load) boundAfter(moment time.Time) (n int) {
	l.Helper()
	for _, at := range l.bindTimes() {
		if at.After(moment) {
			n++
		}
	}
	return n
}

// neverInHalves fails unless each Job was bound completely, and its binds
// took at most p99 and worst. The time of an outage does not count. With
// fewer than 100 Jobs the 99th percentile is the maximum, and is not judged.
func (l *load) neverInHalves(p99, worst time.Duration, outage span) {
	l.Helper()
	spans, pods := l.binding()
	var took []time.Duration
	var all span
	for job, b := range spans {
		if pods[job] != loadSize {
			l.Errorf("%s: %d pods were bound, want %d", job, pods[job], loadSize)
		}
		took = append(took, b.without(outage))
		if all.from.IsZero() || b.from.Before(all.from) {
			all.from = b.from
		}
		if b.to.After(all.to) {
			all.to = b.to
		}
	}
	if len(took) != l.jobs {
		l.Fatalf("%d Jobs have been bound, want %d", len(took), l.jobs)
	}
	slices.Sort(took)
	at := func(percent int) time.Duration {
		return took[(len(took)*percent+99)/100-1].Round(time.Millisecond)
	}
	l.Logf("%d pods were bound in %.1fs; from the first to the last of each Job: median %v, 99%% within %v, at most %v",
		l.size(), all.to.Sub(all.from).Seconds(), at(50), at(99), at(100))
	if len(took) >= 100 && at(99) > p99 || at(100) > worst {
		l.Errorf("99%% of the Jobs were in halves for up to %v and one for %v, want at most %v and %v", at(99), at(100), p99, worst)
	}
}

// tooMany returns how many requests the API server has
// answered 429 since the load began, by account of Fluence.
func (l *load) tooMany() map[string]int {
	l.Helper()
	refused := map[string]int{}
	for ev, err := range l.AuditEvents() {
		if err != nil {
			l.Fatal(err)
		}
		account, ours := strings.CutPrefix(ev.User.Username, "system:serviceaccount:"+stack.Namespace+":")
		if ours && ev.ResponseStatus.Code == http.StatusTooManyRequests && ev.Received.After(l.start) {
			refused[account]++
		}
	}
	return refused
}
