package fluence

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/test/objects"
)

// readyNamespaces lists these namespaces as those with groups that may be placed, all of priority 0.
func readyNamespaces(namespaces ...string) readyLister {
	var all []gang.ReadyNamespace
	for _, namespace := range namespaces {
		all = append(all, gang.ReadyNamespace{Namespace: namespace})
	}
	return func() []gang.ReadyNamespace { return all }
}

func TestADebtIsPaidByTheTimeThatPasses(t *testing.T) {
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return noon.Add(time.Duration(s * float64(time.Second))) }
	nobody, others := readyNamespaces(), readyNamespaces("c")
	type ask struct {
		at          float64
		others      readyLister
		owed, after time.Duration
	}
	cases := map[string]struct {
		took []time.Duration
		asks []ask
	}{
		"what is free":          {[]time.Duration{20 * time.Millisecond}, []ask{{0, others, 0, 0}}},
		"what one may owe":      {[]time.Duration{220 * time.Millisecond}, []ask{{0, others, 0, 0}}},
		"a second, and others":  {[]time.Duration{1220 * time.Millisecond}, []ask{{0, others, time.Second, time.Second}, {9, others, 100 * time.Millisecond, time.Second}, {10, others, 0, 0}}},
		"nobody else asks":      {[]time.Duration{1220 * time.Millisecond}, []ask{{0, nobody, 0, 0}, {0, nobody, time.Second, 2 * time.Second}, {1, nobody, 0, 0}}},
		"each its own time":     {[]time.Duration{1220 * time.Millisecond}, []ask{{0, others, time.Second, time.Second}, {0, others, time.Second, 2 * time.Second}, {0, others, time.Second, 3 * time.Second}}},
		"then one by one":       {[]time.Duration{320 * time.Millisecond}, []ask{{0, others, 100 * time.Millisecond, time.Second}, {0, others, 100 * time.Millisecond, time.Second + deferralStep}}},
		"no more than a minute": {[]time.Duration{50 * time.Second, 50 * time.Second}, []ask{{0, others, time.Minute - overrunBurst, time.Second}, {597, others, 100 * time.Millisecond, time.Second}, {598, others, 0, 0}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var d debts
			for _, took := range tc.took {
				d.charge("a", took, false, noon)
			}
			for _, a := range tc.asks {
				clock := func() time.Time { return at(a.at) }
				if got := d.delayFor(gang.ReadyNamespace{Namespace: "a"}, a.others, clock); got.excess != a.owed || got.after != a.after {
					t.Errorf("at %v: %+v, want %s owed and again after %s", a.at, got, a.owed, a.after)
				}
				if got := d.delayFor(gang.ReadyNamespace{Namespace: "b"}, a.others, clock); got != (delay{}) {
					t.Errorf("another namespace waits: %+v", got)
				}
			}
		})
	}
}

func TestFailedAttemptsThrottleNamespace(t *testing.T) {
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	var d debts
	fail := func(namespace string, n int) {
		for range n {
			d.charge(namespace, freePerAttempt, true, noon)
		}
	}
	due := readyNamespaces
	want := func(what string, at time.Time, others readyLister, owed, after time.Duration) {
		t.Helper()
		if got := d.delayFor(gang.ReadyNamespace{Namespace: "a"}, others, func() time.Time { return at }); got.excess != owed || got.after != after {
			t.Errorf("%s: %+v, want %s owed and again after %s", what, got, owed, after)
		}
	}
	fail("a", 50)
	want("a second at once is free", noon, due("b"), 0, 0)
	fail("a", 5)
	want("nobody else is due", noon, due("a"), 0, 0)
	want("another is due", noon, due("b"), 0, time.Second)
	want("the next group is told another time", noon, due("b"), 0, time.Second+deferralStep)
	fail("b", 60)
	want("the other has asked in vain for as long", noon, due("b"), 0, 0)
	want("a third is due", noon, due("b", "c"), 0, time.Second+2*deferralStep)
	later := noon.Add(time.Second)
	want("a fifth of the time has paid for it", later, due("c"), 0, 0)
	d.charge("c", time.Minute, false, later)
	for range 60 {
		d.charge("a", freePerAttempt, true, later)
	}
	want("one in debt may not ask itself", later, due("c"), 0, 0)
	d.charge("a", time.Second+overrunBurst+freePerAttempt, false, later)
	want("nor does it stop another in debt", later, due("c"), 0, 0)
	want("but that asks once a second", later, due("c"), time.Second, 2*time.Second)
}

// A namespace with failed attempts is not overtaken by groups of a lower
// priority. A namespace that owes more than failed time waits for all.
func TestFailedAttemptsGiveWayOnlyToEqualOrHigherPriority(t *testing.T) {
	noon := func() time.Time { return time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC) }
	var d debts
	for range 60 {
		d.charge("queue", freePerAttempt, true, noon())
		d.charge("vain", freePerAttempt, true, noon())
	}
	asks := func(priority int32, others ...gang.ReadyNamespace) bool {
		return d.delayFor(gang.ReadyNamespace{Namespace: "queue", Priority: priority}, func() []gang.ReadyNamespace { return others }, noon).after == 0
	}
	cases := map[string]struct {
		others []gang.ReadyNamespace
		want   bool
	}{
		"a lower one":                        {[]gang.ReadyNamespace{{Namespace: "b", Priority: 9}}, true},
		"one of the same":                    {[]gang.ReadyNamespace{{Namespace: "b", Priority: 10}}, false},
		"a higher one":                       {[]gang.ReadyNamespace{{Namespace: "b", Priority: 11}}, false},
		"a higher one of its own":            {[]gang.ReadyNamespace{{Namespace: "queue", Priority: 11}, {Namespace: "b", Priority: 9}}, true},
		"one that asks in vain, and another": {[]gang.ReadyNamespace{{Namespace: "vain", Priority: 11}, {Namespace: "b", Priority: 10}}, false},
		"a lower one after one in vain":      {[]gang.ReadyNamespace{{Namespace: "vain", Priority: 11}, {Namespace: "b", Priority: 9}}, true},
	}
	for name, tc := range cases {
		if got := asks(10, tc.others...); got != tc.want {
			t.Errorf("%s: the queue's group may ask: %v, want %v", name, got, tc.want)
		}
	}
	d.charge("queue", time.Second, false, noon())
	d.byNamespace["queue"].nextAttempt = noon().Add(time.Second)
	if asks(10, cases["a lower one"].others...) {
		t.Error("one in debt asks before one of a lower priority")
	}
}

// A group of a namespace with many failed attempts is placed before
// one of a lower priority, and after one of the same priority.
func TestLowerPriorityIsNotPlacedBeforeFailedAttempts(t *testing.T) {
	for of, refused := range map[int32]bool{-1: false, 0: true} {
		inRig(t, nil, func(r *rig) {
			r.node("n1", 8)
			r.give("n1")
			queued := r.pod("queued")
			r.pod("other", func(p *corev1.Pod) { p.Namespace, p.Spec.Priority = "elsewhere", &of })
			for range 60 {
				r.pl.charge(ns, freePerAttempt, true)
			}
			_, _, status := r.preFilter(queued)
			if got := !status.IsSuccess(); got != refused {
				t.Errorf("beside one of priority %d the group is refused: %v (%s)", of, got, status.Message())
			}
		})
	}
}

// The time of failed attempts is reported and counted if it exceeds what they may take.
func TestTheTimeOfFailedAttemptsIsReported(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.node("n1", 8)
		counted := func() float64 {
			n, err := testutil.GetCounterMetricValue(r.pl.counters.failedTime.WithLabelValues(ns))
			r.must(err)
			return n
		}
		first, late := r.pod("first"), r.pod("late")
		r.pod("other", objects.Elsewhere)
		before := counted()
		for range 50 {
			r.pass(10 * time.Millisecond)
			r.pl.charge(ns, 10*time.Millisecond, true)
		}
		if n := counted() - before; n != 0 {
			t.Errorf("%v seconds are counted of half a second in vain", n)
		}
		for range 150 {
			r.pass(10 * time.Millisecond)
			r.pl.charge(ns, 10*time.Millisecond, true)
		}
		// After 1.25 seconds the failed attempts take one more than a fifth of the time.
		if n := counted() - before; n < 0.74 || n > 0.76 {
			t.Errorf("%v seconds are counted, want 0.75", n)
		}
		_, _, status := r.preFilter(first)
		r.wantStatus(status, fwk.Unschedulable, "groups of namespace ns took 2.0s of the scheduler's last 2.0s and found no nodes: groups of other namespaces with the same or a higher priority are placed first, and this group is retried in 1s")
		r.pass(time.Second)
		_, _, status = r.preFilter(late)
		r.wantStatus(status, fwk.Unschedulable, "groups of namespace ns took 2.0s of the scheduler's last 3.0s and found no nodes: groups of other namespaces with the same or a higher priority are placed first, and this group is retried in 1s")
		r.pass(9 * time.Second)
		r.give("n1")
		_, _, status = r.preFilter(late)
		r.wantStatus(status, fwk.Success, "")
		if d := r.pl.debts.get(ns, r.pl.now()); d != nil {
			t.Errorf("it owes %+v once it is paid", d)
		}
	})
}

// slowly is a plugin whose PreFilter takes long for the pods of one namespace.
type slowly struct {
	namespace string
	refuses   bool
}

func (slowly) Name() string { return "Slowly" }

func (s slowly) PreFilter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if pod.Namespace != s.namespace {
		return nil, nil
	}
	time.Sleep(150 * time.Millisecond)
	if s.refuses {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "no")
	}
	return nil, nil
}

func (slowly) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// The time of other plugins before Fluence is charged to the pod's namespace too. Other
// namespaces are placed first then, and no plugin runs for a pod that is throttled.
func TestTimeOfOtherPluginsIsCharged(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		inRig(t, realEngine(t), func(r *rig) {
			r.node("n1", 8)
			r.pod("stays", objects.Never, objects.In("third"), objects.OnNode("n1"))
			r.pass(settleTime)
			for i := range 300 {
				r.pod(fmt.Sprintf("long-%03d", i), objects.CPU("8"))
			}
			r.schedule()
			// When a pod ends, the waiting pods retry.
			ends := func(n int) {
				for i := range n {
					name := fmt.Sprintf("ends-%d", i)
					r.pod(name, objects.OnNode("n1"), objects.In("third"))
					r.pass(time.Second)
					r.removeFrom("third", name)
				}
			}
			ends(300)
			r.pod("other", objects.Elsewhere)
			ends(5)
			if !r.runs("other") {
				t.Errorf("the plugin refuses them itself: %t: a pod of another namespace does not run after 5s", refuses)
			}
		}, slowly{ns, refuses})
	}
}

// A pod that gets a node is charged for the time like a refused pod, but not for the time that
// plugins take for pods of other namespaces. Measuring that time takes a limited share of the time.
func TestTimeForForeignPodsIsNotCharged(t *testing.T) {
	for theirs, pays := range map[bool]bool{true: false, false: true} {
		inRig(t, realEngine(t), func(r *rig) {
			r.node("n1", 8)
			if theirs {
				r.pod("theirs", objects.Elsewhere, objects.OnNode("n1"), shunning(corev1.LabelOSStable, "nobody"))
			}
			r.pass(settleTime)
			pod := r.pod("mine")
			if _, _, status := r.preFilter(pod); !status.IsSuccess() {
				t.Fatalf("it is refused: %s", status.Message())
			}
			if owes := r.pl.debts.byNamespace[ns] != nil; owes != pays {
				t.Errorf("beside terms of others: %t: its namespace owes something: %t, want %t", theirs, owes, pays)
			}
			began := time.Now()
			for range 5 {
				r.pl.placer.ForeignTime(r.ctx, pod, time.Second)
			}
			if took := time.Since(began); took > 150*time.Millisecond {
				t.Errorf("beside terms of others: %t: to measure them five times takes %v", theirs, took)
			}
		}, slowly{ns, false})
	}
}

// Listing the namespaces that may be placed takes a limited
// share of the time, however many groups are refused.
func TestReadyNamespacesAreListedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d debts
		d.charge("a", time.Minute, false, time.Now())
		took, looks := 5*time.Millisecond, 0
		look := func() []gang.ReadyNamespace {
			looks++
			time.Sleep(took)
			return []gang.ReadyNamespace{{Namespace: "b"}}
		}
		told := map[time.Duration]bool{}
		began := time.Now()
		for range 5000 {
			told[time.Since(began)+d.delayFor(gang.ReadyNamespace{Namespace: "a"}, look, time.Now).after] = true
			time.Sleep(time.Millisecond)
		}
		if most := int(time.Since(began)/(listReadyFactor*took)) + 1; looks > most {
			t.Errorf("%d looks, want at most %d", looks, most)
		}
		// Once a second until the debt is paid, and then
		// each a hundredth of a second after the one before.
		if len(told) < 5000 {
			t.Errorf("5000 groups are told of %d times, want one for each", len(told))
		}
	})
}

func TestNamespaceInDebtIsPlacedAfterOthers(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.node("n1", 8)
		expensive, next := r.pod("dear"), r.pod("next")
		other := r.pod("other", objects.Elsewhere)
		release := r.matcherFake.Hold(matchtest.Match)
		time.AfterFunc(time.Second, release)
		r.matcherFake.Answer(nil, &match.Refusal{Err: match.ErrBusy})
		r.preFilter(expensive)
		_, _, status := r.preFilter(next)
		r.wantStatus(status, fwk.Unschedulable, "groups of namespace ns took 0.78s more of the scheduler's time than they may: groups of other namespaces are placed first, and this group is retried in 1s")
		if got := len(r.matches()); got != 1 {
			t.Errorf("%d matches, want that of the first alone", got)
		}
		r.wantHeld(next, status.Message())
		r.give("n1")
		_, _, status = r.preFilter(other)
		r.wantStatus(status, fwk.Success, "")
		r.pass(time.Second)
		r.wantPasses(next)
		r.give("n1")
		_, _, status = r.preFilter(next)
		r.wantStatus(status, fwk.Success, "")
	})
}

// An attempt that ends after the namespace is gone does not bring its debt or its metrics back.
func TestANamespaceThatIsGoneOwesNothing(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		namespaces := r.client.CoreV1().Namespaces()
		series := func(namespace string) (n int) {
			all, err := legacyregistry.DefaultGatherer.Gather()
			r.must(err)
			for _, f := range all {
				for _, m := range f.GetMetric() {
					for _, l := range m.GetLabel() {
						if l.GetName() == "namespace" && l.GetValue() == namespace {
							n++
						}
					}
				}
			}
			return n
		}
		charge := func() {
			for range 60 {
				r.pl.charge("gone", time.Second, true)
				r.pl.charge("here", time.Second, true)
			}
		}
		want := func(when string, debt bool, n int) {
			r.Helper()
			if got := r.pl.debts.byNamespace["gone"] != nil; got != debt || series("gone") != n {
				t.Errorf("%s: a debt %v, %d series, want %v and %d", when, got, series("gone"), debt, n)
			}
			if r.pl.debts.byNamespace["here"] == nil || series("here") != 2 {
				t.Errorf("%s: the other namespace has %d series and owes %+v", when, series("here"), r.pl.debts.byNamespace["here"])
			}
		}
		for _, name := range []string{"gone", "here"} {
			_, err := namespaces.Create(r.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			r.must(err)
		}
		r.pass(0)
		charge()
		want("before", true, 2)
		r.must(namespaces.Delete(r.ctx, "gone", metav1.DeleteOptions{}))
		r.pass(0)
		want("once it is gone", false, 0)
		charge()
		want("after one more attempt", false, 0)
		here := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "here"}}
		r.pl.namespaceGone(cache.DeletedFinalStateUnknown{Key: "here", Obj: here})
		if r.pl.debts.byNamespace["here"] != nil || series("here") != 0 {
			t.Errorf("the other namespace has %d series and owes %+v once it is said to be gone", series("here"), r.pl.debts.byNamespace["here"])
		}
	})
}

// An attempt within the free time adds nothing to a debt,
// and takes nothing away. Paid debts are forgotten.
func TestDebtsThatArePaidAreForgotten(t *testing.T) {
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	var d debts
	d.charge("a", freePerAttempt, false, noon)
	if len(d.byNamespace) != 0 {
		t.Fatalf("what is free is owed: %+v", d.byNamespace["a"])
	}
	d.charge("a", time.Second+freePerAttempt, false, noon)
	d.charge("a", freePerAttempt, false, noon.Add(9*time.Second))
	if got := d.get("a", noon.Add(9*time.Second)); got == nil || got.owed != 100*time.Millisecond {
		t.Errorf("owed %+v, want a tenth of a second", got)
	}
	d.charge("a", freePerAttempt, false, noon.Add(10*time.Second))
	if len(d.byNamespace) != 0 {
		t.Errorf("owed %+v after it is paid", d.byNamespace["a"])
	}
	for i := range sweepAtEntries {
		d.charge(fmt.Sprint("paid-", i), time.Second+freePerAttempt, false, noon.Add(time.Duration(i%2)*time.Minute))
	}
	d.charge("one more", time.Second+freePerAttempt, false, noon.Add(time.Minute))
	if got := len(d.byNamespace); got != sweepAtEntries/2+1 {
		t.Errorf("%d debts, want the half that is not paid and one more", got)
	}
}
