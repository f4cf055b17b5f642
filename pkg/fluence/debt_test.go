package fluence

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
)

func TestADebtIsPaidByTheTimeThatPasses(t *testing.T) {
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return noon.Add(time.Duration(s * float64(time.Second))) }
	nobody := func(func(string) bool) bool { return false }
	others := func(counts func(string) bool) bool { return counts("c") }
	type ask struct {
		at          float64
		others      func(func(string) bool) bool
		owed, after time.Duration
	}
	cases := map[string]struct {
		took []time.Duration
		asks []ask
	}{
		"what is free":          {[]time.Duration{20 * time.Millisecond}, []ask{{0, others, 0, 0}}},
		"a second, and others":  {[]time.Duration{1020 * time.Millisecond}, []ask{{0, others, time.Second, time.Second}, {9, others, 100 * time.Millisecond, time.Second}, {10, others, 0, 0}}},
		"nobody else asks":      {[]time.Duration{1020 * time.Millisecond}, []ask{{0, nobody, 0, 0}, {0, nobody, time.Second, 2 * time.Second}, {1, nobody, 0, 0}}},
		"each its own time":     {[]time.Duration{1020 * time.Millisecond}, []ask{{0, others, time.Second, time.Second}, {0, others, time.Second, 2 * time.Second}, {0, others, time.Second, 3 * time.Second}}},
		"not after it is paid":  {[]time.Duration{120 * time.Millisecond}, []ask{{0, others, 100 * time.Millisecond, time.Second}, {0, others, 100 * time.Millisecond, time.Second}}},
		"no more than a minute": {[]time.Duration{50 * time.Second, 50 * time.Second}, []ask{{0, others, time.Minute, time.Second}, {599, others, 100 * time.Millisecond, time.Second}, {600, others, 0, 0}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var d debts
			for _, took := range tc.took {
				d.charge("a", took, false, noon)
			}
			for _, a := range tc.asks {
				if owed, after := d.ask("a", a.others, at(a.at)); owed != a.owed || after != a.after {
					t.Errorf("at %v: owed %s, again after %s; want %s and %s", a.at, owed, after, a.owed, a.after)
				}
				if owed, after := d.ask("b", a.others, at(a.at)); owed != 0 || after != 0 {
					t.Errorf("another namespace owes %s, and waits for %s", owed, after)
				}
			}
		})
	}
}

func TestWhatIsAskedInVainYieldsToOthers(t *testing.T) {
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	var d debts
	vain := func(namespace string, n int) {
		for range n {
			d.charge(namespace, freeAsk, true, noon)
		}
	}
	due := func(namespaces ...string) func(func(string) bool) bool {
		return func(counts func(string) bool) bool { return slices.ContainsFunc(namespaces, counts) }
	}
	want := func(what string, at time.Time, others func(func(string) bool) bool, owed, after time.Duration) {
		t.Helper()
		if o, a := d.ask("a", others, at); o != owed || a != after {
			t.Errorf("%s: owed %s, again after %s; want %s and %s", what, o, a, owed, after)
		}
	}
	vain("a", 50)
	want("a second at once is free", noon, due("b"), 0, 0)
	vain("a", 5)
	want("nobody else is due", noon, due("a"), 0, 0)
	want("another is due", noon, due("b"), 0, time.Second)
	want("the next group is told another time", noon, due("b"), 0, time.Second+yieldStep)
	vain("b", 60)
	want("the other has asked in vain for as long", noon, due("b"), 0, 0)
	want("a third is due", noon, due("b", "c"), 0, time.Second+2*yieldStep)
	later := noon.Add(time.Second)
	want("a fifth of the time has paid for it", later, due("c"), 0, 0)
	d.charge("c", time.Minute, false, later)
	for range 60 {
		d.charge("a", freeAsk, true, later)
	}
	want("one in debt may not ask itself", later, due("c"), 0, 0)
	d.charge("a", time.Second+freeAsk, false, later)
	want("nor does it stop another in debt", later, due("c"), 0, 0)
	want("but that asks once a second", later, due("c"), time.Second, 2*time.Second)
}

func TestANamespaceInDebtAsksAfterOthers(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.node("n1", 8)
		dear, next := r.pod("dear"), r.pod("next")
		other := r.pod("other", func(p *corev1.Pod) { p.Namespace = "elsewhere" })
		release := r.fake.Hold(matchtest.Match)
		time.AfterFunc(time.Second, release)
		r.fake.Answer(nil, &match.Refusal{Err: match.ErrBusy})
		r.preFilter(dear)
		_, _, status := r.preFilter(next)
		r.wantStatus(status, fwk.Unschedulable, "groups of namespace ns took 980ms more of the scheduler's time than is free for each: those of others ask first, and this one again in 1s")
		if got := len(r.matches()); got != 1 {
			t.Errorf("%d matches, want that of the first alone", got)
		}
		r.wantHeld(next, status.Message())
		r.give("n1")
		_, _, status = r.preFilter(other)
		r.wantStatus(status, fwk.Success, "")
		r.pass(time.Second)
		r.wantAsking(next)
		r.give("n1")
		_, _, status = r.preFilter(next)
		r.wantStatus(status, fwk.Success, "")
	})
}

func TestANamespaceThatIsGoneOwesNothing(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.pl.charge("gone", time.Second, true)
		r.pl.charge("here", time.Second, true)
		gone := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "gone"}}
		r.pl.namespaceGone(cache.DeletedFinalStateUnknown{Key: "gone", Obj: gone})
		if of := r.pl.debts.of; of["gone"] != nil || of["here"] == nil {
			t.Errorf("debts are %v, want that of the namespace that is there", of)
		}
	})
}

// An enquiry that takes no more than is free adds nothing, and takes nothing away; debts that are
// paid are forgotten.
func TestDebtsThatArePaidAreForgotten(t *testing.T) {
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	var d debts
	d.charge("a", freeAsk, false, noon)
	if len(d.of) != 0 {
		t.Fatalf("what is free is owed: %+v", d.of["a"])
	}
	d.charge("a", time.Second+freeAsk, false, noon)
	d.charge("a", freeAsk, false, noon.Add(9*time.Second))
	if got := d.get("a", noon.Add(9*time.Second)); got == nil || got.owed != 100*time.Millisecond {
		t.Errorf("owed %+v, want a tenth of a second", got)
	}
	d.charge("a", freeAsk, false, noon.Add(10*time.Second))
	if len(d.of) != 0 {
		t.Errorf("owed %+v after it is paid", d.of["a"])
	}
	for i := range sweepDebts {
		d.charge(fmt.Sprint("paid-", i), time.Second+freeAsk, false, noon.Add(time.Duration(i%2)*time.Minute))
	}
	d.charge("one more", time.Second+freeAsk, false, noon.Add(time.Minute))
	if got := len(d.of); got != sweepDebts/2+1 {
		t.Errorf("%d debts, want the half that is not paid and one more", got)
	}
}
