package fluence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/placement"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
)

func TestEveryErrorOfAMatchIsARefusal(t *testing.T) {
	const full = "needs 2 pods with cpu 1; room for 1: cpu is short on 1 of 2 nodes (500m free)"
	short := match.Reason{
		Code: match.TooFew, Level: "node", Wanted: 2, Found: 1, Nodes: 2, WaitingHelps: true,
		Shortages: []match.Shortage{{Type: "core", Unit: "m", Wanted: 1000, MaxOnNode: 500, Nodes: 1}},
	}
	cases := map[string]struct {
		err      error
		code     fwk.Code
		message  string
		reason   string
		until    []gang.Event
		again    time.Duration // without any event; 0 means never
		released bool
		trips    bool
	}{
		"no room": {
			err: &match.Refusal{Err: match.ErrBusy, Reason: short}, code: fwk.Unschedulable, message: full, reason: "NoRoom",
			until: []gang.Event{gang.Released, gang.NodeChanged, gang.MatcherBack},
		},
		"never room": {
			err: &match.Refusal{Err: match.ErrUnsatisfiable, Reason: short}, code: fwk.UnschedulableAndUnresolvable, message: full, reason: "NeverFits",
			until: []gang.Event{gang.NodeChanged, gang.MatcherBack},
		},
		"no answer": {
			err: fmt.Errorf("dial: %w", match.ErrUnavailable), code: fwk.Unschedulable, message: placement.WhyUnavailable, reason: "MatcherUnavailable",
			until: []gang.Event{gang.MatcherBack}, released: true, trips: true,
		},
		"no answer in time": {
			err: context.DeadlineExceeded, code: fwk.Unschedulable, message: placement.WhyUnavailable, reason: "MatcherUnavailable",
			until: []gang.Event{gang.MatcherBack}, released: true, trips: true,
		},
		"too much work": {
			err:  &match.Refusal{Err: match.ErrBusy, Reason: match.Reason{Code: match.TooHard, Level: "cluster", Wanted: 2, Nodes: 2, WaitingHelps: true, MayNeverFit: true}},
			code: fwk.Unschedulable, message: whyTooHard, reason: "TooHard", again: time.Second,
		},
		"found, and overtaken": {
			err:  &match.Refusal{Err: match.ErrBusy, Reason: match.Reason{Code: match.Overtaken, Level: "cluster", Wanted: 2, Nodes: 2, WaitingHelps: true}},
			code: fwk.Unschedulable, message: "nodes were found, but they were taken or changed during the search", reason: "NoRoom",
			until: []gang.Event{gang.Released, gang.NodeChanged, gang.MatcherBack}, again: time.Second,
		},
		"another graph": {
			err: match.ErrStale, code: fwk.Unschedulable, message: placement.WhyLoading, reason: "MatcherUnavailable",
			until: []gang.Event{gang.MatcherBack},
		},
		"a graph that is being loaded": {
			err: fmt.Errorf("match job 7: %w", match.ErrLoading), code: fwk.Unschedulable, message: placement.WhyLoading, reason: "MatcherUnavailable",
			until: []gang.Event{gang.MatcherBack}, trips: true,
		},
		"a policy that this sidecar does not offer": {
			err:  fmt.Errorf("%w %q: must be one of low, lonode", match.ErrPolicy, "first"),
			code: fwk.Unschedulable, message: `the matcher does not offer the policy "first": must be one of low, lonode`, reason: "InvalidMatchPolicy",
			until: gang.ClusterEvents(), again: time.Second,
		},
		"another allocation": {
			err: match.ErrConflict, code: fwk.Unschedulable, message: "match: the job already holds an allocation for a different request", reason: "MatchError",
			until: gang.ClusterEvents(), again: time.Second, released: true,
		},
		"an error nobody expects": {
			err: errors.New("oops"), code: fwk.Unschedulable, message: "match: oops", reason: "MatchError",
			again: time.Second, released: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, nil, func(r *rig) {
				pods := r.gang(2, 2)
				r.matcherFake.Answer(nil, tc.err)
				// The ping that closes the breaker is an event itself.
				r.matcher.silence(tc.trips)
				_, result, status := r.preFilter(pods[0])
				r.wantStatus(status, tc.code, tc.message)
				if result != nil {
					t.Errorf("nodes = %v, want none", result.NodeNames)
				}
				if open, _ := r.pl.breaker.state(); open != tc.trips {
					t.Errorf("the breaker is open: %v, want %v", open, tc.trips)
				}
				releases := r.matcherFake.Calls(matchtest.Release)
				if got := len(releases) == 1 && releases[0].ID == r.matches()[0].ID && len(releases[0].Keys) == 0; got != tc.released {
					t.Errorf("releases = %+v; want the job given back: %v", releases, tc.released)
				}
				conditions := r.podGroupAPI.get(g).Status.Conditions
				if len(conditions) != 1 || conditions[0].Reason != tc.reason || conditions[0].Message != tc.message {
					t.Errorf("conditions = %+v, want one with reason %s and message %q", conditions, tc.reason, tc.message)
				}
				if tc.again > 0 {
					r.pass(tc.again - time.Millisecond)
					r.wantHeld(pods[0], tc.message)
					r.pass(time.Millisecond)
					r.wantPasses(pods[0])
				}
			})
			for _, ev := range gang.AllEvents() {
				inRig(t, nil, func(r *rig) {
					pods := r.gang(2, 2)
					r.matcherFake.Answer(nil, tc.err)
					r.matcher.silence(tc.trips)
					r.preFilter(pods[0])
					r.pl.observeEvent(ev)
					r.pass(990 * time.Millisecond)
					asks := r.pl.groups.PreEnqueue(pods[0].UID, time.Now()).Pass
					if want := slices.Contains(tc.until, ev) && tc.again == 0; asks != want {
						t.Errorf("after event %d the group asks again: %v, want %v", ev, asks, want)
					}
				})
			}
		})
	}
}

// A request that breaks the matcher costs other groups the graph. Its
// group retries ever more rarely, and its namespace is placed after
// others. A request that the matcher rejects costs others nothing.
func TestMatchErrorIsCharged(t *testing.T) {
	for err, paid := range map[error]bool{errors.New("oops"): true, match.ErrConflict: false, match.ErrInvalid: false} {
		inRig(t, nil, func(r *rig) {
			pods := r.gang(2, 2)
			ask := func() (owes bool) {
				r.pl.debts = debts{}
				r.matcherFake.Answer(nil, err)
				r.preFilter(pods[0])
				d := r.pl.debts.byNamespace[ns]
				return d != nil && d.owed > 0
			}
			if got := ask(); got != paid {
				t.Errorf("%v is paid for: %v, want %v", err, got, paid)
			}
			for range 7 {
				r.pass(10 * time.Minute)
				ask()
			}
			r.pl.observeEvent(gang.NodeChanged)
			r.pass(90 * time.Second)
			if asks := r.pl.groups.PreEnqueue(pods[0].UID, time.Now()).Pass; asks == paid {
				t.Errorf("%v: after an event the group asks again: %v, want %v", err, asks, !paid)
			}
		})
	}
}

func TestAMatcherThatHangsCostsOneCycle(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		first, second := r.pod("first"), r.pod("second")
		r.give("n1")
		release := r.matcherFake.Hold(matchtest.Match)
		r.matcher.silence(true)
		before := time.Now()
		_, _, status := r.preFilter(first)
		r.wantStatus(status, fwk.Unschedulable, placement.WhyUnavailable)
		if took := time.Since(before); took != 2*time.Second {
			t.Errorf("the cycle took %v, want matchTimeout, 2s", took)
		}
		before = time.Now()
		_, _, status = r.preFilter(second)
		r.wantStatus(status, fwk.Unschedulable, placement.WhyUnavailable)
		r.wantHeld(second, placement.WhyUnavailable)
		if took := time.Since(before); took != 0 {
			t.Errorf("the next cycle took %v", took)
		}
		release()
		r.matcher.silence(false)
		r.pass(time.Second)
		for _, p := range []string{"first", "second"} {
			r.wantPasses(objects.Pod(p))
		}
		if got := len(r.matches()); got != 1 {
			t.Errorf("the matcher was asked %d times, want once", got)
		}
	})
}

func TestStaleMatchResyncsInventory(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		pod := r.pod("lone")
		r.matcherFake.Answer(nil, match.ErrStale)
		r.matcherFake.FailNext(matchtest.Update, match.ErrStale)
		r.matcherFake.Forget()
		r.preFilter(pod)
		r.pass(100 * time.Millisecond) // less than until the next probe
		if got := r.matcherFake.Calls(matchtest.Reset); len(got) != 1 {
			t.Errorf("the graph was loaded again %d times, want once", len(got))
		}
		r.wantPasses(pod)
	})
}

func TestARefusalIsAnsweredFromMemory(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		pods := r.gang(2, 2)
		r.matcherFake.Refuse(match.ErrBusy, match.Reason{Code: match.TooFew, Wanted: 2})
		_, _, first := r.preFilter(pods[0])
		for _, p := range pods {
			_, _, status := r.preFilter(p)
			r.wantStatus(status, fwk.Unschedulable, first.Message())
			r.wantHeld(p, first.Message())
		}
		if got := len(r.matches()); got != 1 {
			t.Errorf("the matcher was asked %d times, want once", got)
		}
	})
}

func TestAnEventDuringAMatchIsNotLost(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		pods := r.gang(2, 2)
		r.matcherFake.OnMatch(func(match.Request) (*match.Allocation, error) {
			r.pl.observeEvent(gang.Released)
			return nil, &match.Refusal{Err: match.ErrBusy}
		})
		r.preFilter(pods[0])
		r.pass(time.Second)
		r.wantPasses(pods[0])
	})
}

func TestAssignmentsOfReloadedGraphAreRevoked(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		pods := r.gang(2, 2)
		r.matcherFake.OnMatch(func(req match.Request) (*match.Allocation, error) {
			r.loseGraph()
			r.pass(time.Second)
			return &match.Allocation{Slots: []match.Slot{{Key: "g-0", Node: "n1"}, {Key: "g-1", Node: "n1"}}}, nil
		})
		_, _, status := r.preFilter(pods[0])
		r.wantStatus(status, fwk.Unschedulable, "the matcher's graph was reloaded during the match")
		r.pass(0)
		if got := r.pl.groups.Tentative(); len(got) != 0 {
			t.Errorf("tentative seats: %+v", got)
		}
		got := r.matcherFake.Calls(matchtest.Release)
		if len(got) != 1 || got[0].Epoch != 2 || got[0].ID != r.matches()[0].ID || len(got[0].Keys) != 2 {
			t.Errorf("releases = %+v, want both seats in the new graph", got)
		}
		r.pass(time.Second)
		r.wantPasses(pods[0])
		if c := r.podGroupAPI.get(g).Status.Conditions; len(c) != 1 || c[0].Reason != reason.MatcherUnavailable {
			t.Errorf("conditions = %+v, want reason %s", c, reason.MatcherUnavailable)
		}
	})
}

func TestAMemberDeletedDuringTheMatchFailsIt(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		pods := r.gang(2, 2)
		r.matcherFake.OnMatch(func(req match.Request) (*match.Allocation, error) {
			r.remove("g-1")
			return &match.Allocation{Slots: []match.Slot{{Key: "g-0", Node: "n1"}, {Key: "g-1", Node: "n1"}}}, nil
		})
		_, _, status := r.preFilter(pods[0])
		if status.Code() != fwk.Unschedulable || !strings.Contains(status.Message(), "group ns/g changed during the match: only 1 of the 2 pods that start together still exist") {
			t.Errorf("status = %v %q", status.Code(), status.Message())
		}
		r.pass(0)
		var keys []string
		for _, c := range r.matcherFake.Calls(matchtest.Release) {
			keys = append(keys, c.Keys...)
		}
		slices.Sort(keys)
		if !slices.Equal(keys, []string{"g-0", "g-1"}) {
			t.Errorf("released %v, want both seats", keys)
		}
	})
}
