package fluence

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/eviction"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
)

// podNames returns the names of the four pods of each of some gangs, sorted.
func podNames(gangs ...string) (names []string) {
	for _, g := range gangs {
		for i := range 4 {
			names = append(names, fmt.Sprintf("%s-%d", g, i))
		}
	}
	slices.Sort(names)
	return names
}

// inPreemptionRig runs a test on 12 nodes of 8 CPUs, which three gangs of 4 with priority 0 have: a and b
// started after c.
func inPreemptionRig(t *testing.T, test func(*rig), more ...fwk.Plugin) {
	t.Helper()
	inPreemptionRigOver(t, realEngine(t), test, more...)
}

// inPreemptionRigOver is inPreemptionRig with an engine.
func inPreemptionRigOver(t *testing.T, engine match.Engine, test func(*rig), more ...fwk.Plugin) {
	t.Helper()
	inRig(t, engine, func(r *rig) {
		r.pl.args.Preemption.Mode = PreemptionLowerPriority
		for i := range 12 {
			r.node(fmt.Sprintf("n%02d", i), 8)
		}
		r.pass(settleTime)
		r.schedule()
		for _, g := range []string{"c", "b", "a"} {
			r.gangOf(g, 4, 0)
			r.pass(3 * time.Second)
			if !r.starts(g, 4) {
				t.Fatalf("%s does not run: %v", g, r.assigned())
			}
		}
		test(r)
	}, more...)
}

// conditionOf returns a condition of a PodGroup. It is empty if the PodGroup does not have it.
func (r *rig) conditionOf(name, kind string) metav1.Condition {
	pg := r.podGroupAPI.get(types.NamespacedName{Namespace: ns, Name: name})
	if c := meta.FindStatusCondition(pg.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// A group claims the room of two others, they are evicted as wholes, and it starts. Nobody else ends.
func TestAGroupEvictsTwoOthersAndStarts(t *testing.T) {
	inPreemptionRig(t, func(r *rig) {
		r.podAPI.grace = 20 * time.Second
		r.gangOf("urgent", 8, 1000)
		r.pass(5 * time.Second)
		if got, want := r.podAPI.deleted(), podNames("a", "b"); !slices.Equal(got, want) {
			t.Fatalf("deleted: %v, want %v", got, want)
		}
		for _, victim := range []string{"a", "b"} {
			if c := r.conditionOf(victim, eviction.ConditionPreempted); c.Status != metav1.ConditionTrue || !strings.HasPrefix(c.Message, "4 pods evicted for group ns/urgent (priority 1000, this one has 0)") {
				t.Errorf("while its pods end, %s has the condition %q: %q", victim, c.Status, c.Message)
			}
		}
		if c := r.conditionOf("urgent", "Scheduled"); c.Reason != reason.Preempting || !strings.Contains(c.Message, "waits for group ns/") {
			t.Errorf("the group waits with %s: %q", c.Reason, c.Message)
		}
		r.gangOf("late", 2, 0)
		r.pass(30 * time.Second)
		if !r.starts("urgent", 8) || r.runs("late-0") {
			t.Errorf("after the victims have gone these run: %v", r.assigned())
		}
		if got, want := r.podAPI.deleted(), podNames("a", "b"); !slices.Equal(got, want) {
			t.Errorf("deleted in all: %v, want %v", got, want)
		}
		if c := r.conditionOf("a", eviction.ConditionPreempted); c.Status != metav1.ConditionFalse {
			t.Errorf("when its pods have gone, a has the condition %q: %q", c.Status, c.Message)
		}
		var told []string
		for _, e := range r.recorder.of("PodGroup") {
			if e.reason == reason.Preempting || e.reason == reason.Preempted {
				// The last pods may have been asked to end already, or not yet.
				told = append(told, e.name+" "+e.reason+": "+strings.Replace(e.message, "(20s at the longest)", "(0s at the longest)", 1))
			}
		}
		slices.Sort(told)
		want := []string{
			"a Preempted: 4 pods evicted for group ns/urgent (priority 1000, this one has 0)",
			"b Preempted: 4 pods evicted for group ns/urgent (priority 1000, this one has 0)",
			"urgent Preempting: waits for group ns/a (4 pods, priority 0) and group ns/b (4 pods, priority 0) to end, evicted for it 0s ago; 8 of 8 pods are still ending (0s at the longest)",
		}
		if !slices.Equal(told, want) {
			t.Errorf("events:\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
		}
	})
}

// While its victims end, a group asks again. Its plan goes on, although it relies on what the quick search for ending
// room does not try.
func TestAPlanGoesOnWhileItHelps(t *testing.T) {
	spread := objects.All(objects.SpreadOver(objects.ZoneKey, "urgent", 1), objects.OfApp("urgent"), objects.CPU("8"))
	cases := map[string]struct {
		// zones are those of the nodes, which have 8 CPUs each and one pod of priority 0.
		zones []string
		low   func(*corev1.Pod)
		group func(*corev1.Pod)
	}{
		"the filters rule out the nodes because of the victims": {
			zones: []string{"a", "a"}, low: objects.HostPort(80), group: objects.All(objects.HostPort(80), objects.CPU("1")),
		},
		"the first zone has room for fewer pods":  {zones: []string{"a", "b", "b"}, low: objects.CPU("8"), group: spread},
		"the second zone has room for fewer pods": {zones: []string{"a", "a", "b"}, low: objects.CPU("8"), group: spread},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.pl.args.Preemption.Mode = PreemptionLowerPriority
				for i, zone := range tc.zones {
					r.node(fmt.Sprintf("n%d", i), 8, objects.InZone(zone))
				}
				r.pass(settleTime)
				r.schedule()
				var low []string
				for i := range tc.zones {
					low = append(low, fmt.Sprintf("low-%d", i))
					r.pod(low[i], tc.low, atPriority(0))
				}
				r.pass(5 * time.Second)
				r.podAPI.grace = time.Minute
				n := len(tc.zones)
				r.podGroupAPI.put(aPodGroup("urgent", int32(n), "urgent"))
				for i := range n {
					r.pod(fmt.Sprintf("urgent-%d", i), objects.InGroup("urgent"), atPriority(1000), tc.group)
				}
				for range 5 {
					r.pass(10 * time.Second)
					if c := r.conditionOf("urgent", "Scheduled"); c.Reason != reason.Preempting {
						t.Fatalf("while its victims end, the group waits with %s: %q", c.Reason, c.Message)
					}
				}
				r.pass(30 * time.Second)
				if got := r.podAPI.deleted(); !slices.Equal(got, low) || !r.starts("urgent", n) {
					t.Errorf("deleted: %v; these run: %v", got, r.assigned())
				}
			})
		})
	}
}

// New pods of a victim wait until the last of those that are evicted has gone, and then for room.
func TestNewPodsOfAVictimWait(t *testing.T) {
	inPreemptionRig(t, func(r *rig) {
		r.podAPI.grace = 20 * time.Second
		r.gangOf("urgent", 4, 1000)
		r.pass(5 * time.Second)
		again := r.pod("a-4", objects.InGroup("a"), objects.CPU("8"), atPriority(0))
		r.wantHeld(again, "the group is evicted for a group of higher priority; waits until its pods have gone and that group has room")
		r.pass(30 * time.Second)
		if !r.starts("urgent", 4) || r.runs("a-4") {
			t.Errorf("these run: %v", r.assigned())
		}
	})
}

// Without a use for it, nobody is evicted.
func TestNobodyIsEvicted(t *testing.T) {
	never := corev1.PreemptNever
	cases := map[string]struct {
		change func(*rig)
		comes  func(*rig)
	}{
		"for a group that does not fit even then": {comes: func(r *rig) { r.gangOf("urgent", 13, 1000) }},
		"for a group of the same priority":        {comes: func(r *rig) { r.gangOf("urgent", 4, 0) }},
		"if the mode is Never": {
			change: func(r *rig) { r.pl.args.Preemption.Mode = PreemptionNever },
			comes:  func(r *rig) { r.gangOf("urgent", 4, 1000) },
		},
		"if a pod of each other group waits at its priority": {
			change: func(r *rig) {
				for _, g := range []string{"a", "b", "c"} {
					r.pod(g+"-4", objects.InGroup(g), objects.CPU("8"), atPriority(1000))
				}
				r.pass(time.Second)
			},
			comes: func(r *rig) { r.gangOf("urgent", 4, 1000) },
		},
		"for a pod whose policy is Never": {comes: func(r *rig) {
			r.pod("urgent", objects.CPU("8"), atPriority(1000), func(p *corev1.Pod) { p.Spec.PreemptionPolicy = &never })
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inPreemptionRig(t, func(r *rig) {
				if tc.change != nil {
					tc.change(r)
				}
				tc.comes(r)
				r.pass(30 * time.Second)
				if got := r.podAPI.deleted(); len(got) > 0 {
					t.Errorf("deleted: %v", got)
				}
				if c := r.conditionOf("a", eviction.ConditionPreempted); c.Type != "" {
					t.Errorf("a is marked: %q", c.Message)
				}
			})
		})
	}
}

// A group that is about to be bound is no victim yet. It is one as soon as its pods are bound, although
// nothing else changes then.
func TestAGroupThatIsBeingBoundIsAVictimLater(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.pl.args.Preemption.Mode = PreemptionLowerPriority
		for i := range 4 {
			r.node(fmt.Sprintf("n%02d", i), 8)
		}
		r.pass(settleTime)
		r.binds.set(5*time.Second, nil)
		r.schedule()
		r.gangOf("low", 4, 0)
		r.pass(time.Second)
		r.gangOf("urgent", 4, 1000)
		r.pass(2 * time.Second)
		if len(r.podAPI.deleted()) > 0 {
			t.Errorf("deleted before they were bound: %v", r.podAPI.deleted())
		}
		r.pass(30 * time.Second)
		if got := r.podAPI.deleted(); !slices.Equal(got, podNames("low")) || !r.starts("urgent", 4) {
			t.Errorf("deleted: %v; these run: %v", got, r.assigned())
		}
	})
}

// The plan of a group that goes before its victims were touched is taken back.
func TestAPlanIsTakenBack(t *testing.T) {
	inPreemptionRig(t, func(r *rig) {
		r.podAPI.answer = func(string) *http.Response { return failed(apierrors.NewForbidden(corev1.Resource("pods"), "", nil)) }
		r.gangOf("urgent", 4, 1000)
		r.pass(2 * time.Second)
		if c := r.conditionOf("a", eviction.ConditionPreempted); c.Status != metav1.ConditionTrue {
			t.Fatalf("a has the condition %q: %q", c.Status, c.Message)
		}
		for _, pod := range podNames("urgent") {
			r.remove(pod)
		}
		r.pass(30 * time.Second)
		if c := r.conditionOf("a", eviction.ConditionPreempted); c.Type != "" || !r.starts("a", 4) {
			t.Errorf("a has the condition %q: %q; these run: %v", c.Status, c.Message, r.assigned())
		}
	})
}

// The condition of a group says why the evictions for it do not go on.
func TestAGroupIsToldWhyItsEvictionsFail(t *testing.T) {
	inPreemptionRig(t, func(r *rig) {
		r.podAPI.answer = func(string) *http.Response {
			return failed(apierrors.NewInternalError(errors.New("no storage")))
		}
		r.gangOf("urgent", 4, 1000)
		r.pass(20 * time.Second)
		if c := r.conditionOf("urgent", "Scheduled"); c.Reason != reason.Preempting || !strings.Contains(c.Message, "; a request has failed and is tried again: delete pod a-") {
			t.Errorf("the group waits with %s: %q", c.Reason, c.Message)
		}
	})
}

// Nobody may be evicted for whom the API server refuses it. The group says so, and others are evicted instead.
func TestAVictimThatMayNotBeEvictedIsLeftOut(t *testing.T) {
	inPreemptionRig(t, func(r *rig) {
		r.podAPI.answer = func(pod string) *http.Response {
			if strings.HasPrefix(pod, "a-") {
				return failed(apierrors.NewForbidden(corev1.Resource("pods"), pod, errors.New("a policy")))
			}
			return nil
		}
		r.gangOf("urgent", 4, 1000)
		r.pass(10 * time.Second)
		if c := r.conditionOf("urgent", "Scheduled"); c.Reason != reason.NoRoom || !strings.Contains(c.Message, " (the last eviction was refused: Forbidden)") {
			t.Errorf("the group waits with %s: %q", c.Reason, c.Message)
		}
		if c := r.conditionOf("a", eviction.ConditionPreempted); c.Type != "" {
			t.Errorf("a has the condition %q: %q", c.Status, c.Message)
		}
		r.pass(20 * time.Second)
		if !r.starts("urgent", 4) || !slices.Equal(r.podAPI.deleted(), podNames("b")) {
			t.Errorf("these run: %v; deleted: %v", r.assigned(), r.podAPI.deleted())
		}
	})
}

// While its victims end, a group asks again, so that its message is up to date. Others that wait for room do not ask for
// that: nothing is free.
func TestOthersDoNotAskWhileVictimsEnd(t *testing.T) {
	inPreemptionRig(t, func(r *rig) {
		r.podAPI.grace = 2 * time.Minute
		r.gangOf("urgent", 8, 1000)
		r.gangOf("other", 4, 0)
		r.pass(30 * time.Second)
		// Those of the preempting group are counted as Preempting.
		asked := func() float64 { return gaugeValues("fluence_refusals_total")[reason.NoRoom] }
		before := asked()
		if before == 0 {
			t.Fatal("the other group was not refused")
		}
		r.pass(30 * time.Second)
		if c := r.conditionOf("urgent", "Scheduled"); c.Reason != reason.Preempting || !strings.Contains(c.Message, "evicted for it 5") {
			t.Errorf("the group waits with %s: %q, want the age of the eviction", c.Reason, c.Message)
		}
		if again := asked() - before; again > 0 {
			t.Errorf("the other group asked %v times in 30s", again)
		}
		if n := len(r.podAPI.deleted()); n != 8 {
			t.Errorf("%d deletions, want one for each of the 8 pods", n)
		}
	})
}

// Each plan is counted when it is made and when it ends, and each victim when its pods begin to end.
func TestEvictionsAreServedAsMetrics(t *testing.T) {
	inPreemptionRig(t, func(r *rig) {
		names := []string{"fluence_preemptions_total", "fluence_preemption_victims_total", "fluence_failed_writes_total", "fluence_writes_throttled_total"}
		before := map[string]float64{}
		for _, name := range names {
			before[name] = counted(name)
		}
		wantRise := func(when string, want ...float64) {
			t.Helper()
			for i, name := range names {
				if got := counted(name) - before[name]; got != want[i] {
					t.Errorf("%s, %s rose by %v, want %v", when, name, got, want[i])
				}
			}
		}
		var tooBusy, refused bool
		r.podAPI.grace = 20 * time.Second
		r.podAPI.answer = func(pod string) *http.Response {
			switch {
			case pod == "a-0" && !tooBusy:
				tooBusy = true
				return failed(apierrors.NewTooManyRequests("busy", 1))
			case pod == "a-1" && !refused:
				refused = true
				return failed(apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, pod, errors.New("no")))
			}
			return nil
		}
		r.gangOf("urgent", 8, 1000)
		r.pass(10 * time.Second)
		wantRise("while the victims end", 1, 10, 1, 1)
		r.pass(snapshotEvery)
		if age := gaugeValues("fluence_oldest_eviction_age_seconds")[""]; age < 10 || age > 20 {
			t.Errorf("the oldest eviction is %vs old, want a bit more than 10s", age)
		}
		r.pass(30 * time.Second)
		if !r.starts("urgent", 8) {
			t.Fatalf("these run: %v", r.assigned())
		}
		wantRise("when the group has started", 2, 10, 1, 1)
		r.wantGauges("when the group has started", map[string]gaugeByLabel{"fluence_oldest_eviction_age_seconds": {}})
	})
}

// A JobSet resumes a Job that is suspended at once. So the JobSet is suspended, and no pod is deleted. If the API
// server does not serve the kind, the scheduler works, and the pods are deleted.
func TestAVictimIsSuspendedByTheOwnerAtTheTop(t *testing.T) {
	jobSet := group.Owner{Group: "jobset.x-k8s.io", Kind: "JobSet", Name: "set", UID: "u-set"}
	cases := map[string]struct {
		served      bool
		wantPatched []string
		wantDeleted []string
	}{
		"the kind is served":     {served: true, wantPatched: []string{"/apis/jobset.x-k8s.io/v1alpha2/namespaces/ns/jobsets/set"}},
		"the kind is not served": {wantDeleted: podNames("low")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRigOf(t, realEngine(t), func(r *rig) {
				r.pl.args.Preemption.Mode = PreemptionLowerPriority
				r.owners.unserved = map[string]bool{"jobsets": !tc.served}
				r.owners.create("jobsets", jobSet.Name, jobSet.UID, group.Owner{})
				r.owners.create("jobs", "job", "u-job", jobSet)
				r.podGroupAPI.put(aPodGroup("low", 4, "low"))
				for i := range 4 {
					r.add(objects.ReadyNode(fmt.Sprintf("n%02d", i), 8))
					r.pod(fmt.Sprintf("low-%d", i), objects.InGroup("low"), objects.CPU("8"), atPriority(0), objects.OnNode(fmt.Sprintf("n%02d", i)),
						objects.OwnedBy(group.Owner{Group: "batch", Kind: "Job", Name: "job", UID: "u-job"}))
				}
			}, func(r *rig) {
				r.schedule()
				r.gangOf("urgent", 4, 1000)
				r.pass(5 * time.Second)
				r.owners.mu.Lock()
				defer r.owners.mu.Unlock()
				if !slices.Equal(r.owners.patched, tc.wantPatched) {
					t.Errorf("patched: %v, want %v", r.owners.patched, tc.wantPatched)
				}
				if got := r.podAPI.deleted(); !slices.Equal(got, tc.wantDeleted) {
					t.Errorf("deleted: %v, want %v", got, tc.wantDeleted)
				}
			})
		})
	}
}

// A pod may have been alone when an earlier scheduler marked it. Its mark would say for ever that it is evicted.
func TestAPodOfAGroupWithoutAMarkLosesItsOwn(t *testing.T) {
	inRigOf(t, realEngine(t), func(r *rig) {
		r.add(objects.ReadyNode("n00", 8))
		r.podGroupAPI.put(aPodGroup("low", 1, "low"))
		r.pod("low-0", objects.InGroup("low"), objects.CPU("8"), atPriority(0), objects.OnNode("n00"), func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
				Message: "1 pod evicted for group ns/urgent (priority 1000, this one has 0); preemptor urgent",
			})
		})
	}, func(r *rig) {
		r.schedule()
		r.pass(20 * time.Second)
		pod, err := r.pl.pods.Pods(objects.Namespace).Get("low-0")
		if err != nil {
			t.Fatal(err)
		}
		if m, is := eviction.OfPod(pod); is {
			t.Errorf("the pod is marked still: %+v", m)
		}
	})
}

// A scheduler that begins to lead finishes what an earlier one has begun, and takes back what it has not.
func TestMarksOfAnEarlierScheduler(t *testing.T) {
	const mark = "4 pods evicted for group ns/urgent (priority 1000, this one has 0); preemptor urgent"
	cases := map[string]struct {
		// pods are the pods of the victim that are left.
		pods []int
		// ending are those of them that are being deleted already.
		ending      []int
		wantMarked  metav1.ConditionStatus
		wantGone    bool
		wantDeleted []string
	}{
		"a pod is gone: the others go too": {pods: []int{1, 2, 3}, wantMarked: metav1.ConditionFalse, wantGone: true, wantDeleted: []string{"low-1", "low-2", "low-3"}},
		"two are ending: the others go, and these are not deleted again": {
			pods: []int{0, 1, 2, 3}, ending: []int{0, 1}, wantMarked: metav1.ConditionTrue, wantDeleted: []string{"low-2", "low-3"},
		},
		"all are gone: the mark is closed":      {wantMarked: metav1.ConditionFalse, wantGone: true},
		"all are there: the mark is taken back": {pods: []int{0, 1, 2, 3}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRigOf(t, realEngine(t), func(r *rig) {
				for i := range 4 {
					r.add(objects.ReadyNode(fmt.Sprintf("n%02d", i), 8))
				}
				pg := aPodGroup("low", 4, "low")
				pg.Status.Conditions = []metav1.Condition{{Type: eviction.ConditionPreempted, Status: metav1.ConditionTrue, Reason: reason.Preempted, Message: mark}}
				r.podGroupAPI.put(pg)
				for _, i := range tc.pods {
					r.pod(fmt.Sprintf("low-%d", i), objects.InGroup("low"), objects.CPU("8"), atPriority(0), objects.OnNode(fmt.Sprintf("n%02d", i)), func(p *corev1.Pod) {
						if slices.Contains(tc.ending, i) {
							p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: r.pl.now().Add(time.Minute)}, []string{"example.com/slow"}
						}
					})
				}
			}, func(r *rig) {
				r.schedule()
				r.pass(20 * time.Second)
				if c := r.conditionOf("low", eviction.ConditionPreempted); c.Status != tc.wantMarked {
					t.Errorf("the condition is %q: %q, want %q", c.Status, c.Message, tc.wantMarked)
				}
				if got := r.podAPI.deleted(); !slices.Equal(got, tc.wantDeleted) {
					t.Errorf("deleted: %v, want %v", got, tc.wantDeleted)
				}
				if gone := len(r.assigned()) == 0; gone != tc.wantGone {
					t.Errorf("these run: %v", r.assigned())
				}
			})
		})
	}
}

// A scheduler that begins to lead does not know at once whether the eviction of a marked group has begun, and the API
// server may not answer at first. It evicts no other group in its place, and says what it waits for.
func TestTheVictimOfAnEarlierSchedulerIsThatOfTheNext(t *testing.T) {
	inRigOf(t, realEngine(t), func(r *rig) {
		r.pl.args.Preemption.Mode = PreemptionLowerPriority
		r.podAPI.grace = 20 * time.Second
		r.podGroupAPI.broken = func(nth int) error {
			if nth > 3 {
				return nil
			}
			return apierrors.NewInternalError(errors.New("away"))
		}
		for i := range 8 {
			r.add(objects.ReadyNode(fmt.Sprintf("n%02d", i), 8))
		}
		low := aPodGroup("low", 4, "low")
		low.Status.Conditions = []metav1.Condition{{
			Type: eviction.ConditionPreempted, Status: metav1.ConditionTrue, Reason: reason.Preempted,
			Message: "4 pods evicted for group ns/urgent (priority 1000, this one has 0); preemptor urgent",
		}}
		r.podGroupAPI.put(low)
		r.podGroupAPI.put(aPodGroup("other", 4, "other"))
		r.podGroupAPI.put(aPodGroup("urgent", 4, "urgent"))
		for i := range 4 {
			r.pod(fmt.Sprintf("low-%d", i), objects.InGroup("low"), objects.CPU("8"), atPriority(0), objects.OnNode(fmt.Sprintf("n%02d", i)))
			r.pod(fmt.Sprintf("other-%d", i), objects.InGroup("other"), objects.CPU("8"), atPriority(5), objects.OnNode(fmt.Sprintf("n%02d", 4+i)))
			r.pod(fmt.Sprintf("urgent-%d", i), objects.InGroup("urgent"), objects.CPU("8"), atPriority(1000))
		}
	}, func(r *rig) {
		r.schedule()
		r.pass(10 * time.Second)
		if c := r.conditionOf("urgent", "Scheduled"); c.Reason != reason.Preempting || !strings.Contains(c.Message, "waits for group ns/low (4 pods, priority 0) to end") {
			t.Errorf("the group waits with %s: %q", c.Reason, c.Message)
		}
		r.pass(30 * time.Second)
		if got, want := r.podAPI.deleted(), podNames("low"); !slices.Equal(got, want) {
			t.Errorf("deleted: %v, want %v", got, want)
		}
		if !r.starts("urgent", 4) {
			t.Errorf("these run: %v", r.assigned())
		}
	})
}

// refusingReserve refuses the nodes of pods whose names have a prefix, as a volume does that cannot be had. No
// filter does, so the plan does not know of it.
type refusingReserve struct {
	prefix  string
	refused atomic.Int32
}

func (*refusingReserve) Name() string { return "RefusingReserve" }

func (p *refusingReserve) Reserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) *fwk.Status {
	if !strings.HasPrefix(pod.Name, p.prefix) {
		return nil
	}
	p.refused.Add(1)
	return fwk.NewStatus(fwk.Unschedulable, "no volume")
}

func (*refusingReserve) Unreserve(context.Context, fwk.CycleState, *corev1.Pod, string) {}

// A group that is given the room of its victims, and cannot be bound there, does not evict others again at once.
func TestAGroupThatCannotBeBoundEvictsNobodyForAWhile(t *testing.T) {
	refuses := refusingReserve{prefix: "urgent"}
	inPreemptionRig(t, func(r *rig) {
		outcomes := func(o eviction.Outcome) float64 {
			n, err := testutil.GetCounterMetricValue(r.pl.counters.preemptions.WithLabelValues(string(o)))
			r.must(err)
			return n
		}
		started, unhelpful := outcomes(eviction.Started), outcomes(eviction.Unhelpful)
		r.gangOf("urgent", 4, 1000)
		r.pass(4 * time.Second)
		if refuses.refused.Load() == 0 {
			t.Fatal("the group was given no nodes")
		}
		if s, u := outcomes(eviction.Started)-started, outcomes(eviction.Unhelpful)-unhelpful; s != 0 || u != 1 {
			t.Errorf("%v plans count as started and %v as unhelpful, want 0 and 1", s, u)
		}
		r.pl.preemptions.mu.Lock()
		defer r.pl.preemptions.mu.Unlock()
		for _, is := range r.pl.preemptions.all {
			if is.key.Name == "urgent" && is.failures > 0 && !is.notBefore.IsZero() {
				return
			}
		}
		t.Error("the group may evict others again at once")
	}, &refuses)
}

// deletingReserve deletes the first pod whose name begins with "urgent" when it has a node, and waits until that is known.
type deletingReserve struct {
	rig  *rig
	once sync.Once
}

func (*deletingReserve) Name() string { return "DeletingReserve" }

func (p *deletingReserve) Reserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) *fwk.Status {
	if strings.HasPrefix(pod.Name, "urgent") {
		p.once.Do(func() {
			p.rig.must(p.rig.client.CoreV1().Pods(ns).Delete(p.rig.ctx, pod.Name, metav1.DeleteOptions{}))
			time.Sleep(time.Second)
		})
	}
	return nil
}

func (*deletingReserve) Unreserve(context.Context, fwk.CycleState, *corev1.Pod, string) {}

// The plan for a group of which a pod is deleted before it is bound is abandoned: the eviction has helped.
func TestAPlanForAGroupThatIsDeletedBeforeItsBindIsAbandoned(t *testing.T) {
	var deletes deletingReserve
	inPreemptionRig(t, func(r *rig) {
		deletes.rig = r
		outcomes := func(o eviction.Outcome) float64 {
			n, err := testutil.GetCounterMetricValue(r.pl.counters.preemptions.WithLabelValues(string(o)))
			r.must(err)
			return n
		}
		abandoned, unhelpful := outcomes(eviction.Abandoned), outcomes(eviction.Unhelpful)
		r.gangOf("urgent", 4, 1000)
		r.pass(10 * time.Second)
		if len(r.podAPI.deleted()) == 0 || r.starts("urgent", 3) {
			t.Fatalf("deleted: %v; these run: %v", r.podAPI.deleted(), r.assigned())
		}
		if a, u := outcomes(eviction.Abandoned)-abandoned, outcomes(eviction.Unhelpful)-unhelpful; a != 1 || u != 0 {
			t.Errorf("%v plans count as abandoned and %v as unhelpful, want 1 and 0", a, u)
		}
	}, &deletes)
}

// While pods that were evicted for a group are overdue, it does not evict others in their place for a while.
func TestAGroupWhoseVictimsAreOverdueEvictsNobodyElse(t *testing.T) {
	cases := map[string]struct {
		late        time.Duration
		wait        time.Duration
		wantDeleted []string
		wantStarted bool
		wantSaid    string
	}{
		"they go in the end": {late: 2 * time.Minute, wait: 3 * time.Minute, wantDeleted: podNames("a"), wantStarted: true},
		"they are overdue":   {late: time.Hour, wait: 4 * time.Minute, wantDeleted: podNames("a"), wantSaid: ": 4 pods evicted for it should have gone at "},
		"they never go":      {late: time.Hour, wait: 6 * time.Minute, wantDeleted: podNames("a", "b")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inPreemptionRig(t, func(r *rig) {
				r.podAPI.grace, r.podAPI.late = 10*time.Second, tc.late
				r.gangOf("urgent", 4, 1000)
				r.pass(tc.wait)
				if got := r.podAPI.deleted(); !slices.Equal(got, tc.wantDeleted) {
					t.Errorf("deleted: %v, want %v", got, tc.wantDeleted)
				}
				if got := r.starts("urgent", 4); got != tc.wantStarted {
					t.Errorf("the group has started: %t, want %t", got, tc.wantStarted)
				}
				if c := r.conditionOf("urgent", "Scheduled"); !strings.Contains(c.Message, tc.wantSaid) {
					t.Errorf("the group waits with %s: %q", c.Reason, c.Message)
				}
			})
		})
	}
}

// Room of pods that should have gone is in no plan, and the message says so.
func TestThePodsThatShouldHaveGoneAreNamed(t *testing.T) {
	inPreemptionRig(t, func(r *rig) {
		r.terminate(time.Second, podNames("c")...)
		r.pass(time.Minute)
		r.gangOf("urgent", 12, 1000)
		r.pass(5 * time.Second)
		const want = "; room for 8 even without all of lower priority; 4 pods of lower priority should have gone already"
		if c := r.conditionOf("urgent", "Scheduled"); !strings.HasSuffix(c.Message, want) {
			t.Errorf("the group waits with %s: %q, want it to end with %q", c.Reason, c.Message, want)
		}
	})
}

// A node of a plan cannot be used any more while the victims are still ending: it has a taint, for instance. The group
// evicts others too, but not at once: the taint may be gone in a moment.
func TestAGroupWaitsBeforeItEvictsOthersToo(t *testing.T) {
	inPreemptionRig(t, func(r *rig) {
		r.podAPI.grace = time.Minute
		r.gangOf("urgent", 4, 1000)
		r.pass(5 * time.Second)
		first := r.podAPI.deleted()
		if len(first) != 4 {
			t.Fatalf("deleted: %v, want one group", first)
		}
		node := r.assigned()[first[0]]
		r.updateNode(node, func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "bad", Effect: corev1.TaintEffectNoSchedule}}
		})
		r.pass(minUnhelpful / 2)
		if got := r.podAPI.deleted(); len(got) != 4 {
			t.Errorf("deleted: %v, want nobody else for now", got)
		}
		if c := r.conditionOf("urgent", "Scheduled"); !strings.Contains(c.Message, "(whom it has evicted before is still ending)") {
			t.Errorf("the group waits with %q", c.Message)
		}
		r.pass(minUnhelpful)
		if got := r.podAPI.deleted(); len(got) <= 4 {
			t.Errorf("deleted: %v, want more", got)
		}
	})
}
