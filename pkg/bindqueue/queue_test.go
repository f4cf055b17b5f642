package bindqueue

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/gang"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// A queueTest is a bind queue with a clock. Groups are named by letters and rank by
// these. Pod 3 of group b is "b3".
type queueTest struct {
	*testing.T
	*Queue
	now time.Time
}

func newQueueTest(t *testing.T, max int) *queueTest {
	t.Helper()
	return &queueTest{T: t, Queue: New(max), now: noon}
}

func key(name string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: name} }

// rankOf orders groups by name and pods by number.
func rankOf(name string) gang.Rank {
	return gang.Rank{Since: noon, Key: key(name[:1]), Pod: fmt.Sprintf("%6s", name[1:])}
}

// podsOf names n pods of a group.
func podsOf(name string, n int) []types.UID {
	uids := make([]types.UID, n)
	for i := range uids {
		uids[i] = types.UID(fmt.Sprintf("%s%d", name, i))
	}
	return uids
}

// matched lets n pods of a group arrive together.
func (s *queueTest) matched(name string, n int) {
	s.Helper()
	uids := podsOf(name, n)
	s.Expect(uids, s.now)
	for _, uid := range uids {
		s.arrive(string(uid))
	}
}

func (s *queueTest) arrive(pod string) {
	s.Arrive(Pod{UID: types.UID(pod), Group: key(pod[:1]), Rank: rankOf(pod)}, s.now)
}

// leave lets as many pods leave as may, at most n, and names them.
func (s *queueTest) leave(n int) string {
	var all []string
	for range n {
		p, ok := s.Next(s.now)
		if !ok {
			break
		}
		all = append(all, string(p.UID))
	}
	return strings.Join(all, " ")
}

func (s *queueTest) wantLeave(n int, want string) {
	s.Helper()
	if got := s.leave(n); got != want {
		s.Errorf("pods leave: %q, want %q", got, want)
	}
}

// bound records that pods were bound.
func (s *queueTest) bound(pods ...string) {
	for _, p := range pods {
		s.Bound(types.UID(p), s.now)
	}
}

// throttled records that the binds of pods were answered with 429.
func (s *queueTest) throttled(after time.Duration, pods ...string) {
	for _, p := range pods {
		s.Throttled(Pod{UID: types.UID(p), Group: key(p[:1]), Rank: rankOf(p), GroupIncomplete: true}, after, s.now)
	}
}

func (s *queueTest) pass(d time.Duration) { s.now = s.now.Add(d) }

// admit calls Admit for groups, such as "a8" for eight pods
// of group a, and names the groups that were admitted.
func (s *queueTest) admit(groups ...string) string {
	var may []string
	for _, a := range groups {
		var pods int
		if _, err := fmt.Sscan(a[1:], &pods); err != nil {
			s.Fatal(err)
		}
		if s.Admit(Candidate{Group: key(a[:1]), Rank: rankOf(a[:1] + "0"), Pods: pods}, s.now) {
			may = append(may, a[:1])
		}
	}
	return strings.Join(may, " ")
}

// admitWaiting names the waiting groups that are admitted now.
func (s *queueTest) admitWaiting() string {
	var names []string
	for _, k := range s.AdmitWaiting(s.now) {
		names = append(names, k.Name)
	}
	return strings.Join(names, " ")
}

func (s *queueTest) want(what, got, want string) {
	s.Helper()
	if got != want {
		s.Errorf("%s: %q, want %q", what, got, want)
	}
}

// wantNothing fails if the bind queue has not forgotten everything.
func (s *queueTest) wantNothing() {
	s.Helper()
	if !s.IsIdle() || len(s.pods) > 0 {
		s.Errorf("the gate keeps %d pods of %d groups, %d in flight", len(s.pods), len(s.groups), len(s.inFlight))
	}
	for _, l := range Lanes() {
		if got := s.lanes[l]; got.ahead() != 0 || got.inFlight != 0 || len(got.admissions.byGroup) > 0 || got.admissions.waiting.Len() > 0 {
			s.Errorf("lane %s keeps %d expected, %d standing, %d admitted, %d in flight, %d turns", l, got.expected, got.waiting, got.admitted, got.inFlight, len(got.admissions.byGroup))
		}
	}
}

func uidsOf(text string) []string {
	return slices.DeleteFunc(strings.Split(text, " "), func(s string) bool { return s == "" })
}
