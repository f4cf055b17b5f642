package fluence

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/placement"
	"github.com/flux-k8s/fluence/test/objects"
)

// These are the messages for a group that is TooHard.
const (
	timedOut     = "the matcher answers, but matches for this namespace's groups took longer than 2s again and again: use fewer kinds of pods, affinity terms or spread constraints"
	whyTooHard   = "finding nodes for 2 pods of 1 kind takes more steps than the matcher may take for one request: use fewer kinds of pods, affinity terms or spread constraints"
	whyTooSlow   = "finding nodes for 40 pods of 40 kinds takes longer than 250ms: use fewer kinds of pods, affinity terms or spread constraints"
	whyForOthers = "for 40 pods of 40 kinds the filters take longer than 0.30s to read the anti-affinity of pods of other namespaces, once for each kind: use fewer kinds of pods"
)

var errTooHard = &match.Refusal{Err: match.ErrBusy, Reason: match.Reason{Code: match.TooHard, Level: "cluster", Wanted: 1, Nodes: 1, WaitingHelps: true, MayNeverFit: true}}

func TestTooHardBackoffDoubles(t *testing.T) {
	for name, edit := range map[string]func(*corev1.Pod){
		"alike": func(*corev1.Pod) {}, "spread": objects.SpreadOver(corev1.LabelHostname, "x", 1), "apart": objects.AwayFrom("x"),
	} {
		t.Run(name, func(t *testing.T) { checkTooHardBackoffDoubles(t, edit) })
	}
}

func checkTooHardBackoffDoubles(t *testing.T, edit func(*corev1.Pod)) {
	inRig(t, nil, func(r *rig) {
		r.node("n1", 8)
		pod := r.gang(2, 2, objects.OfApp("x"), edit)[0]
		r.matcherFake.OnMatch(func(match.Request) (*match.Allocation, error) { return nil, errTooHard })
		var asked []time.Duration
		begin, answered := time.Now(), r.pl.breaker.confirmedPingCount()
		for time.Since(begin) < time.Hour {
			if r.preEnqueueMessage(pod) == "" {
				_, _, status := r.preFilter(pod)
				r.wantStatus(status, fwk.Unschedulable, whyTooHard)
				asked = append(asked, time.Since(begin).Round(time.Second))
			}
			for _, ev := range gang.AllEvents() {
				r.pl.observeEvent(ev)
			}
			r.pass(time.Second)
		}
		want := "[0s 1s 3s 7s 15s 31s 1m3s 2m7s 4m15s 8m31s 17m3s 27m3s 37m3s 47m3s 57m3s]"
		if got := fmt.Sprint(asked); got != want {
			t.Errorf("asked at %s, want %s", got, want)
		}
		if len(r.matches()) != len(asked) {
			t.Errorf("%d matches in %d asks: one that is too hard is not made in other ways", len(r.matches()), len(asked))
		}
		if n := r.pl.breaker.confirmedPingCount() - answered; n > 0 {
			t.Errorf("others were kept from asking %d times", n)
		}
		if text := r.logged(0); !strings.Contains(text, `"A group is slow or too hard to place" group="ns/`) {
			t.Errorf("the log does not name the group: %s", text)
		}
	})
}

func TestAGroupThatChangesIsNotTooHardAnyMore(t *testing.T) {
	for name, change := range map[string]func(*rig){
		"an annotation": func(r *rig) {
			r.update("g-0", func(p *corev1.Pod) { p.Annotations = map[string]string{"simpler": "now"} })
		},
		"a label":         func(r *rig) { r.update("g-0", func(p *corev1.Pod) { p.Labels["simpler"] = "now" }) },
		"what it asks":    func(r *rig) { r.update("g-0", func(p *corev1.Pod) { p.Generation++ }) },
		"another pod":     func(r *rig) { r.pod("g-2", objects.InGroup("g")) },
		"one pod fewer":   func(r *rig) { r.pod("g-2", objects.InGroup("g")); r.remove("g-2") },
		"another minimum": func(r *rig) { r.podGroupAPI.put(aPodGroup("g", 1, "pg")) },
	} {
		t.Run(name, func(t *testing.T) { isNotTooHardAnyMore(t, change) })
	}
}

func isNotTooHardAnyMore(t *testing.T, change func(*rig)) {
	inRig(t, nil, func(r *rig) {
		pods := r.gang(2, 2)
		for range 10 {
			r.matcherFake.Answer(nil, errTooHard)
			r.preFilter(pods[0])
			r.pass(10 * time.Minute)
		}
		r.matcherFake.Answer(nil, errTooHard)
		r.preFilter(pods[0])
		r.wantHeld(pods[0], whyTooHard)
		change(r)
		r.pass(0)
		r.wantHeld(pods[0], whyTooHard)
		r.pass(10 * time.Second)
		r.wantPasses(pods[0])
	})
}

// A timed-out match does not show what the cause is. The second one
// shows that it is the group, if the matcher has answered in between.
func TestSecondTimeoutInARowIsBlamedOnTheGroup(t *testing.T) {
	cases := map[string]struct {
		between func(r *rig, pod *corev1.Pod)
		hard    bool
	}{
		"the matcher answered": {func(*rig, *corev1.Pod) {}, true},
		"the group was answered in between": {func(r *rig, pod *corev1.Pod) {
			r.matcherFake.Answer(nil, &match.Refusal{Err: match.ErrBusy})
			r.preFilter(pod)
			r.pass(time.Minute)
			r.pl.observeEvent(gang.Released)
			r.pass(time.Minute)
		}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, nil, func(r *rig) {
				pods := r.gang(2, 2)
				r.matcherFake.Answer(nil, context.DeadlineExceeded)
				_, _, status := r.preFilter(pods[0])
				r.wantStatus(status, fwk.Unschedulable, placement.WhyUnavailable)
				r.pass(time.Minute)
				r.wantPasses(pods[0])
				tc.between(r, pods[0])
				r.matcherFake.Answer(nil, context.DeadlineExceeded)
				// No ping is answered yet that would close the breaker again.
				r.matcher.hangs.Store(true)
				_, _, status = r.preFilter(pods[0])
				open, _ := r.pl.breaker.state()
				r.matcher.hangs.Store(false)
				if open == tc.hard {
					t.Errorf("the breaker is open, so that others wait: %t, want %t", open, !tc.hard)
				}
				if !tc.hard {
					r.wantStatus(status, fwk.Unschedulable, placement.WhyUnavailable)
					return
				}
				r.wantStatus(status, fwk.Unschedulable, timedOut)
				if got := len(r.matcherFake.Calls(matchtest.Release)); got != 2 {
					t.Errorf("%d matches were given back, want both", got)
				}
			})
		})
	}
}

// A recreated group does not clear its namespace: the third timeout
// is the namespace's fault, and it is charged for all of them.
func TestTimeoutsOfRecreatedGroupsAreBlamedOnTheNamespace(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.node("n1", 8)
		r.matcherFake.OnMatch(func(match.Request) (*match.Allocation, error) {
			time.Sleep(2 * time.Second)
			return nil, context.DeadlineExceeded
		})
		var told []string
		for i := range 4 {
			name := fmt.Sprint("p-", i)
			pod := r.pod(name)
			_, _, status := r.preFilter(pod)
			told = append(told, status.Message())
			if open, _ := r.pl.breaker.state(); open {
				r.Fatalf("the breaker stays open, as if the matcher did not answer")
			}
			if owed := r.pl.debts.byNamespace[ns]; (owed != nil) != (i >= 2) {
				t.Errorf("after %d matches it owes %+v", i+1, owed)
			}
			r.remove(name)
			r.pass(time.Second)
			r.pl.debts = debts{}
		}
		if want := []string{placement.WhyUnavailable, placement.WhyUnavailable, timedOut, timedOut}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
		other := r.pod("other", objects.Elsewhere)
		_, _, status := r.preFilter(other)
		r.wantStatus(status, fwk.Unschedulable, placement.WhyUnavailable)
	})
}

// No namespace is charged for the time in which the matcher
// works for others, and no group is TooHard for it.
func TestWaitingForTheMatcherDoesNotCount(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.node("n1", 8)
		r.node("n2", 8)
		pods := r.gang(2, 2, objects.OfApp("x"), objects.AwayFrom("x"))
		r.matcherFake.OnMatch(func(q match.Request) (*match.Allocation, error) {
			time.Sleep(400 * time.Millisecond)
			return &match.Allocation{Waited: 390 * time.Millisecond, Slots: []match.Slot{{Key: q.Keys[0], Label: "shape0", Node: "n1"}, {Key: q.Keys[1], Label: "shape0", Node: "n2"}}}, nil
		})
		_, _, status := r.preFilter(pods[0])
		r.wantStatus(status, fwk.Success, "")
		if owed := r.pl.debts.byNamespace[ns]; owed != nil {
			t.Errorf("it owes %+v", owed)
		}
	})
}

// slowFilters are plugins that take a while before they filter, depending on the pod.
type slowFilters struct {
	placement.PreFilters
	takes func(*corev1.Pod) time.Duration
}

func (f slowFilters) RunPreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	time.Sleep(f.takes(pod))
	return f.PreFilters.RunPreFilterPlugins(ctx, state, pod)
}

// The filters compare each pod with the terms of all existing pods, of all namespaces. No
// group is TooHard for that time or charged for it. The time for the group's own terms counts.
func TestFilterTimeForForeignPodsDoesNotCount(t *testing.T) {
	cases := map[string]struct {
		takes func(*corev1.Pod) time.Duration
		edit  func(*corev1.Pod)
		hard  bool
	}{
		"for others": {takes: func(*corev1.Pod) time.Duration { return 400 * time.Millisecond }, edit: objects.AwayFrom("x")},
		"for itself": {takes: func(p *corev1.Pod) time.Duration {
			if p.Spec.Affinity == nil {
				return 0
			}
			return 400 * time.Millisecond
		}, edit: objects.AwayFrom("x"), hard: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.pl.placer.PreFilters = slowFilters{r.pl.placer.PreFilters, tc.takes}
				r.node("n1", 8)
				r.node("n2", 8)
				r.pod("theirs", objects.Elsewhere, objects.OnNode("n1"), shunning(corev1.LabelOSStable, "nobody"))
				r.pass(settleTime)
				_, _, status := r.preFilter(r.gang(2, 2, objects.OfApp("x"), tc.edit)[0])
				if hard := status.Message() == "finding nodes for 2 pods of 1 kind takes longer than 250ms: use fewer kinds of pods, affinity terms or spread constraints"; hard != tc.hard || !hard && !status.IsSuccess() {
					t.Errorf("it is told %q, want that it is too hard: %t", status.Message(), tc.hard)
				}
				if owes := r.pl.debts.byNamespace[ns] != nil; owes != tc.hard {
					t.Errorf("its namespace owes something: %t, want %t", owes, tc.hard)
				}
			})
		})
	}
}

// kinds creates PodGroup g and pods of n shapes.
func (r *rig) kinds(n int) []*corev1.Pod {
	r.Helper()
	i := 0
	return r.gang(int32(n), n, objects.CPU("1m"), func(p *corev1.Pod) {
		i++
		p.Spec.Tolerations = []corev1.Toleration{{Key: fmt.Sprint("kind-", i)}}
	})
}

// The time that filters take for other namespaces holds up the loop for a limited time.
// If a user fills his own namespace with terms, their time counts for his groups.
func TestManyKindsOfPodsDoNotHoldUpTheLoopForOthers(t *testing.T) {
	const takes = 50 * time.Millisecond
	for name, tc := range map[string]struct {
		of   []func(*corev1.Pod)
		told string
		owes bool
		most time.Duration
	}{
		"terms of others": {of: []func(*corev1.Pod){objects.Elsewhere}, told: whyForOthers, most: 6*takes + 2*takes}, // as often as the filters run for one shape,
		"its own":         {told: whyTooSlow, owes: true, most: 250*time.Millisecond + 3*takes},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.pl.placer.PreFilters = slowFilters{r.pl.placer.PreFilters, func(*corev1.Pod) time.Duration { return takes }}
				r.node("n1", 8)
				r.pod("there", append(tc.of, objects.OnNode("n1"), shunning(corev1.LabelTopologyZone, "nobody"))...)
				r.pass(settleTime)
				pods := r.kinds(40)
				began := time.Now()
				_, _, status := r.preFilter(pods[0])
				if took := time.Since(began); took > tc.most {
					t.Errorf("the loop stands for %s, want %s at the most", took, tc.most)
				}
				r.wantStatus(status, fwk.Unschedulable, tc.told)
				d := r.pl.debts.byNamespace[ns]
				if owes := d != nil && d.owed > 100*time.Millisecond; owes != tc.owes || !tc.owes && d != nil && d.owed+d.failedTime > 0 {
					t.Errorf("its namespace owes %+v, want that it owes what they take: %t", d, tc.owes)
				}
				if tc.owes {
					return
				}
				if want := `"Filters took long for a group, because of the anti-affinity of pods of other namespaces" group="ns/g" pods="40"`; !strings.Contains(r.logged(0), want) {
					t.Errorf("the log says %s, want %s", r.logged(0), want)
				}
				r.update("g-0", func(p *corev1.Pod) { p.Labels["n"] = "another" })
				r.pass(10*time.Second - 1)
				r.wantHeld(pods[0], whyForOthers)
				r.pass(1)
				r.wantPasses(pods[0])
				for range 10 {
					r.pass(time.Minute)
					r.wantPasses(pods[0])
					r.preFilter(pods[0])
					r.wantHeld(pods[0], whyForOthers)
				}
			})
		})
	}
}

// What a measurement finds for several short runs counts for all of them.
func TestShortForeignRunsDoNotCount(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.pl.placer.PreFilters = slowFilters{r.pl.placer.PreFilters, func(*corev1.Pod) time.Duration { return 2*time.Millisecond - 1 }}
		r.node("n1", 8)
		r.pod("theirs", objects.Elsewhere, objects.OnNode("n1"), shunning(corev1.LabelOSStable, "nobody"))
		r.pass(settleTime)
		_, _, status := r.preFilter(r.kinds(50)[0])
		r.wantStatus(status, fwk.Success, "")
		if owed := r.pl.debts.byNamespace[ns]; owed != nil {
			t.Errorf("its namespace owes %+v", owed)
		}
	})
}

// The cases are when a namespace is to blame for timeouts, and what it is charged for.
func TestWhoIsToBlameForATimeout(t *testing.T) {
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	type step struct {
		group    string // ns/name; "" if the group before was answered
		minutes  int    // after noon
		answered uint64 // confirmed pings until then
		blame    bool
		owed     time.Duration
	}
	const took = 2 * time.Second
	cases := map[string][]step{
		"the first time, and the second in a row":   {{"a/x", 0, 1, false, 0}, {"a/x", 1, 2, true, took}},
		"the third pays for itself alone":           {{"a/x", 0, 1, false, 0}, {"a/x", 1, 2, true, took}, {"a/x", 2, 3, true, 0}},
		"it was answered in between":                {{"a/x", 0, 1, false, 0}, {}, {"a/x", 1, 2, false, 0}},
		"another of it was answered in between":     {{"a/x", 0, 1, false, 0}, {"a/y", 0, 2, false, 0}, {}, {"a/z", 1, 3, true, 2 * took}},
		"nobody was answered in between":            {{"a/x", 0, 1, false, 0}, {"a/x", 1, 1, false, 0}, {"a/x", 2, 2, true, took}},
		"three groups of a namespace":               {{"a/x", 0, 1, false, 0}, {"a/y", 1, 2, false, 0}, {"a/z", 2, 3, true, 2 * took}},
		"nobody was answered between the groups":    {{"a/x", 0, 1, false, 0}, {"a/y", 1, 1, false, 0}, {"a/z", 2, 1, false, 0}},
		"two groups, and one of another namespace":  {{"a/x", 0, 1, false, 0}, {"a/y", 1, 2, false, 0}, {"b/z", 2, 3, false, 0}},
		"ten minutes later":                         {{"a/x", 0, 1, false, 0}, {"a/x", 10, 2, true, took}},
		"more than that":                            {{"a/x", 0, 1, false, 0}, {"a/x", 11, 2, false, 0}},
		"somebody else was answered, of that group": {{"a/x", 0, 1, false, 0}, {"b/x", 0, 1, false, 0}, {}, {"a/x", 1, 2, true, took}},
	}
	for name, steps := range cases {
		t.Run(name, func(t *testing.T) {
			var s timeouts
			var last types.NamespacedName
			for i, x := range steps {
				if x.group == "" {
					s.clear(last)
					continue
				}
				last.Namespace, last.Name, _ = strings.Cut(x.group, "/")
				blame, owed := s.observe(last, x.answered, took, noon.Add(time.Duration(x.minutes)*time.Minute))
				if blame != x.blame || owed != x.owed {
					t.Errorf("step %d: to blame %t, for %s; want %t and %s", i, blame, owed, x.blame, x.owed)
				}
			}
		})
	}
}

// An answer clears the group of the match, and no group that timed out after it.
func TestAnAnswerClearsNoOtherGroup(t *testing.T) {
	var s timeouts
	x, y := types.NamespacedName{Namespace: ns, Name: "x"}, types.NamespacedName{Namespace: ns, Name: "y"}
	s.observe(x, 1, time.Second, time.Now())
	s.clear(y)
	if blame, _ := s.observe(x, 2, time.Second, time.Now()); !blame {
		t.Error("the answer to another group of its namespace has cleared it")
	}
}
