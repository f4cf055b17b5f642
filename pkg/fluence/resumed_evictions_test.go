package fluence

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/eviction"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
)

// inRestartedRig runs a test on 8 nodes, which the groups low and other of priority 0 have. An earlier scheduler has
// marked low for the group urgent, which waits, to suspend its Job. The API server says after 5 seconds whether the Job
// is suspended.
func inRestartedRig(t *testing.T, suspended bool, test func(*rig)) {
	t.Helper()
	inRigOf(t, realEngine(t), func(r *rig) {
		r.pl.args.Preemption.Mode = PreemptionLowerPriority
		if r.owners.delay = 5 * time.Second; suspended {
			r.owners.suspendedFor = "urgent"
		}
		r.owners.create("jobs", "job", "u-job", group.Owner{})
		pg := aPodGroup("low", 4, "low")
		pg.Status.Conditions = []metav1.Condition{{
			Type: eviction.ConditionPreempted, Status: metav1.ConditionTrue, Reason: reason.Preempted,
			Message: "4 pods evicted for group ns/urgent (priority 1000, this one has 0); preemptor urgent; suspends owner u-job until the pods have gone",
		}}
		r.podGroupAPI.put(pg)
		r.podGroupAPI.put(aPodGroup("other", 4, "other"))
		for i := range 8 {
			r.add(objects.ReadyNode(fmt.Sprintf("n%02d", i), 8))
		}
		for i := range 4 {
			low := objects.OwnedBy(group.Owner{Group: "batch", Kind: "Job", Name: "job", UID: "u-job"})
			r.pod(fmt.Sprintf("low-%d", i), objects.InGroup("low"), objects.CPU("8"), atPriority(0), objects.OnNode(fmt.Sprintf("n%02d", i)), low)
			r.pod(fmt.Sprintf("other-%d", i), objects.InGroup("other"), objects.CPU("8"), atPriority(0), objects.OnNode(fmt.Sprintf("n%02d", i+4)))
		}
	}, func(r *rig) {
		r.schedule()
		r.gangOf("urgent", 4, 1000)
		test(r)
	})
}

// A group waits for whom an earlier scheduler has marked for it, and evicts nobody else: before it is known whether their
// eviction has begun, and then. The message says so.
func TestAGroupWaitsForTheVictimsOfAnEarlierScheduler(t *testing.T) {
	inRestartedRig(t, true, func(r *rig) {
		const want = "waits for group ns/low (4 pods, priority 0) to end, evicted for it "
		for _, when := range []string{"before", "after"} {
			r.pass(4 * time.Second)
			if c := r.conditionOf("urgent", "Scheduled"); c.Reason != reason.Preempting || !strings.HasPrefix(c.Message, want) || !strings.Contains(c.Message, "; 4 of 4 pods are still ending") {
				t.Errorf("%s the answer the group waits with %s: %q", when, c.Reason, c.Message)
			}
		}
		for _, pod := range podNames("low") {
			r.remove(pod)
		}
		r.pass(5 * time.Second)
		if got := r.podAPI.deleted(); !r.starts("urgent", 4) || len(got) > 0 {
			t.Errorf("deleted: %v; these run: %v", got, r.assigned())
		}
	})
}

// A group that an earlier scheduler has evicted makes its pods again. They wait until the group has asked for which it was
// evicted, although nothing says any more which one that is.
func TestTheNewPodsOfAnEvictedGroupWaitAfterARestart(t *testing.T) {
	for name, tc := range map[string]struct {
		ended time.Duration
		waits bool
	}{
		"its last pod has gone a moment ago": {ended: maxTakeover - time.Second, waits: true},
		"its last pod has gone long ago":     {ended: maxTakeover + time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			inRigOf(t, realEngine(t), func(r *rig) {
				pg := aPodGroup("low", 1, "low")
				pg.Status.Conditions = []metav1.Condition{{
					Type: eviction.ConditionPreempted, Status: metav1.ConditionFalse, Reason: reason.Preempted,
					Message: "1 pod evicted for group ns/urgent (priority 1000, this one has 0)", LastTransitionTime: metav1.NewTime(time.Now().Add(-tc.ended)),
				}}
				r.podGroupAPI.put(pg)
				r.add(objects.ReadyNode("n00", 8))
				r.pod("low-0", objects.InGroup("low"), objects.CPU("8"), atPriority(0))
			}, func(r *rig) {
				r.schedule()
				r.pass(unknownYield / 2)
				if r.runs("low-0") == tc.waits {
					t.Errorf("it runs: %v, want %v", !tc.waits, tc.waits)
				}
				r.pass(unknownYield + 2*tick)
				if !r.runs("low-0") {
					t.Error("it waits though nobody else asks")
				}
			})
		})
	}
}

// If an earlier scheduler has not begun, its mark is taken back, and the group evicts others anew.
func TestAGroupEvictsAnewIfAnEarlierSchedulerHasNotBegun(t *testing.T) {
	inRestartedRig(t, false, func(r *rig) {
		r.pass(20 * time.Second)
		r.owners.mu.Lock()
		defer r.owners.mu.Unlock()
		if got, want := r.owners.patched, []string{"/apis/batch/v1/namespaces/ns/jobs/job"}; !slices.Equal(got, want) {
			t.Errorf("suspended: %v, want %v", got, want)
		}
	})
}
