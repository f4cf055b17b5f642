package fluence

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/placement"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
)

// Nodes of a promise may be found, and be refused by the scheduler's own filters for a moment, or a search may fail. The promise
// stands meanwhile.
func TestAPromiseStandsWhileItsNodesAreRefused(t *testing.T) {
	inPromiseRig(t, nil, func(r *rig, began time.Time) {
		key := types.NamespacedName{Namespace: ns, Name: "big"}
		for _, refused := range []gang.Refusal{{Reason: reason.NodeRefused, NodesFound: true}, {Reason: reason.TooHard}, {Reason: reason.MatchError}} {
			if !promiseRoom(r.ctx, &r.pl.groupPlacer, gang.Plan{Key: key}, placement.Result{}, &refused) {
				t.Errorf("the promise ends at once after %s", refused.Reason)
			}
			if p := r.pl.promises.get(key); p == nil || p.doubtSince.IsZero() {
				t.Errorf("the promise is %+v, want it to stand and to be in doubt", p)
			}
		}
	})
}

// A group has found nodes, and a filter refuses one of them before all its pods are there. Its promise stands until it has
// started.
func TestAPromiseStandsUntilItsGroupHasStarted(t *testing.T) {
	var refuses atomic.Bool // the next pod with an assigned node
	inPromiseRig(t, nil, func(r *rig, began time.Time) {
		r.gangFor("longer", 1, 0, "20m")
		r.pass(3 * time.Second)
		refuses.Store(true)
		r.ends("running", 2)
		r.pass(5 * time.Second)
		if refuses.Load() || !r.starts("big", 4) || r.starts("longer", 1) {
			t.Errorf("these run: %v; big waits with %q", r.assigned(), r.why("big"))
		}
		if p := r.pl.promises.get(types.NamespacedName{Namespace: ns, Name: "big"}); p != nil {
			t.Errorf("the promise of a group that has started is %+v", p)
		}
	}, &unpredictableFilter{none: func(string) bool { return refuses.CompareAndSwap(true, false) }})
}

// A group of which it was not found out when it will fit asks again by itself.
func TestAPromiseIsSearchedForAgain(t *testing.T) {
	inPromiseRig(t, nil, func(r *rig, began time.Time) {
		r.ends("big", 4)
		r.pass(2 * time.Second)
		r.matcherFake.FailNext(matchtest.Match, nil, context.DeadlineExceeded)
		r.gangFor("next", 4, 0, "10m")
		r.pass(5 * time.Second)
		if why := r.why("next"); !strings.HasPrefix(why, "promised 4 nodes from ") || from(t, why, began) != 10*time.Minute {
			t.Errorf("it waits with %q, want it promised after ten minutes", why)
		}
	})
}

// A group finds nodes again and again, and never starts on them. Its promise keeps others from its room for a while only.
func TestAPromiseEndsWhoseGroupNeverStarts(t *testing.T) {
	inPromiseRig(t, nil, func(r *rig, _ time.Time) {
		r.gangFor("longer", 1, 0, "20m")
		r.pass(3 * time.Second)
		r.ends("running", 2)
		r.pass(maxUnused + askPromisedEvery)
		if !r.starts("longer", 1) {
			t.Errorf("longer waits with %q", r.why("longer"))
		}
		if why := r.why("big"); !strings.Contains(why, "room for 1 more if group ns/longer ends") {
			t.Errorf("big waits with %q", why)
		}
	}, &refusingReserve{prefix: "big-3"})
	t.Run("a filter refuses its nodes", func(t *testing.T) {
		inPromiseRig(t, nil, func(r *rig, _ time.Time) {
			r.ends("running", 2)
			r.pass(maxUnused + askPromisedEvery)
			if p := r.pl.promises.get(types.NamespacedName{Namespace: ns, Name: "big"}); p != nil || strings.HasPrefix(r.why("big"), "promised") {
				t.Errorf("big waits with %q and the promise %+v", r.why("big"), p)
			}
		}, &unpredictableFilter{none: is("n3")})
	})
}

// A promise in doubt does not end by time alone while the matcher does not answer.
func TestDoubtDoesNotLastWhileTheMatcherIsAway(t *testing.T) {
	now, key := time.Now(), types.NamespacedName{Namespace: ns, Name: "big"}
	p := &promise{madeAt: now}
	var s promises
	s.set(key, p)
	s.doubt(p, now)
	waits := func(types.NamespacedName) bool { return true }
	for i := range 20 {
		if _, unused := s.over(now.Add(time.Duration(i)*10*time.Second), false, waits); len(unused) > 0 {
			t.Fatalf("it ends after %d0 s without a matcher", i)
		}
	}
	now = now.Add(200 * time.Second)
	if _, unused := s.over(now, true, waits); len(unused) > 0 {
		t.Error("it ends as soon as the matcher is back")
	}
	if _, unused := s.over(now.Add(maxUnused+time.Second), true, waits); len(unused) != 1 {
		t.Error("it stands, whatever happens")
	}
}

// A refusal names the promise while nothing new is known of the room, so that an end of the scheduler in that time loses nothing.
func TestAPromiseIsToldWhileTheMatcherIsAway(t *testing.T) {
	inPromiseRig(t, nil, func(r *rig, began time.Time) {
		key := types.NamespacedName{Namespace: ns, Name: "big"}
		refused := gang.Refusal{Reason: reason.MatcherUnavailable, Message: "the matcher does not answer"}
		promiseRoom(r.ctx, &r.pl.groupPlacer, gang.Plan{Key: key}, placement.Result{}, &refused)
		if !strings.HasPrefix(refused.Message, "promised 4 nodes from ") || !strings.HasSuffix(refused.Message, "; the matcher does not answer") {
			t.Errorf("it waits with %q", refused.Message)
		}
	})
}

// The annotation of a running pod counts where its PodGroup has none. A change of it moves a promise within seconds.
func TestAPromiseFollowsTheAnnotationsOfPods(t *testing.T) {
	inPromiseRig(t, nil, func(r *rig, began time.Time) {
		r.podGroupAPI.put(aPodGroup("running", 2, "running"))
		for _, pod := range []string{"running-0", "running-1"} {
			r.update(pod, annotated(group.DurationAnnotation, "20m"))
		}
		r.pass(askAgainAfter + 3*time.Second)
		if why := r.why("big"); !strings.HasPrefix(why, "promised 4 nodes from ") || from(t, why, began) != 20*time.Minute {
			t.Errorf("it waits with %q, want it promised after twenty minutes", why)
		}
		r.update("running-0", annotated(group.DurationAnnotation, "30m"))
		r.pass(askAgainAfter + 3*time.Second)
		if why := r.why("big"); from(t, why, began) != 30*time.Minute || !strings.Contains(why, "pod ns/running-0 ends later now, at ") {
			t.Errorf("it waits with %q, want it promised after thirty minutes", why)
		}
	})
}

// A promise that would begin in more than a week ends, and says what has moved it.
func TestAPromiseDoesNotMoveBeyondAWeek(t *testing.T) {
	inPromiseRig(t, nil, func(r *rig, began time.Time) {
		pg := aPodGroup("running", 2, "running")
		pg.Annotations = map[string]string{group.DurationAnnotation: "8d"}
		r.podGroupAPI.put(pg)
		r.pass(askAgainAfter + 3*time.Second)
		const lost = "; no longer promised room: it fits in more than 7 days at the earliest, since "
		if why := r.why("big"); strings.HasPrefix(why, "promised") || !strings.Contains(why, lost) || !strings.Contains(why, "pod ns/running-0 ends later now, at ") {
			t.Errorf("it waits with %q, want %q", why, lost)
		}
	})
}

// The end that a Job's deadline makes counts when a duration before it is over that nobody keeps.
func TestADeadlineCountsWhenAWishIsOver(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.pl.args.Promises.Depth = 1
		r.node("n", 8)
		r.owners.create("jobs", "solo", "job-uid", group.Owner{})
		r.pass(settleTime)
		r.schedule()
		began := time.Now().Truncate(time.Second)
		r.pod("solo-0", controlledBy("batch/v1", "Job", "solo", "job-uid"), annotated(group.DurationAnnotation, "10m"), objects.CPU("8"), objects.OnNode("n"), withoutGrace)
		r.owners.setDeadline("solo", deadline{3600, began})
		differences := drifts()
		r.pass(10*time.Minute + maxOverrun + 30*time.Second)
		r.gangFor("next", 1, 0, "10m")
		r.pass(maxDoubt + 2*askPromisedEvery)
		if why := r.why("next"); !strings.HasPrefix(why, "promised 1 node from ") || from(t, why, began) != time.Hour {
			t.Errorf("it waits with %q, want it promised after an hour", why)
		}
		if n := drifts() - differences; n > 0 {
			t.Errorf("the audit finds %v differences", n)
		}
	})
}

// After a restart, promised groups ask in their order. One that has let another ask is woken when that has its answer.
func TestPromisedGroupsAskInOrderAfterARestart(t *testing.T) {
	now := time.Now()
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: ns, Name: name} }
	first, second := gang.Rank{Priority: 2}, gang.Rank{Priority: 1}
	var s promises
	s.expect([]types.NamespacedName{key("first"), key("second"), key("third")})
	if s.mustLetAsk(key("first"), first, now) {
		t.Error("the first lets others ask")
	}
	if !s.mustLetAsk(key("second"), second, now) {
		t.Error("the second asks before the first has its answer")
	}
	if !s.asked(key("first")) {
		t.Error("nobody wakes the second when the first has its answer")
	}
	if s.mustLetAsk(key("second"), second, now) {
		t.Error("the second waits for one that has not asked")
	}
}
