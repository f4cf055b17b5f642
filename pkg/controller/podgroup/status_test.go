package podgroup

import (
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

func TestCreationTime(t *testing.T) {
	at := start.Add
	last := at(time.Second - time.Microsecond)
	cases := map[string]struct {
		now  time.Time
		job  *batchv1.Job
		want time.Time
	}{
		"within the second of the PodGroup, in microseconds":         {now: at(123456789 * time.Nanosecond), want: at(123456 * time.Microsecond)},
		"a controller that comes a minute late":                      {now: at(time.Minute), want: last},
		"a clock that is behind":                                     {now: at(-time.Hour), want: start},
		"a Job that was made before its PodGroup":                    {now: at(time.Minute), job: job(1, func(j *batchv1.Job) { j.CreationTimestamp = metav1.NewTime(at(-5 * time.Second)) }), want: at(-4*time.Second - time.Microsecond)},
		"a Job that was resumed":                                     {now: at(time.Hour), job: job(1, condition(batchv1.JobSuspended, corev1.ConditionFalse, at(time.Hour))), want: at(time.Hour)},
		"a Job whose conditions do not show yet that it was resumed": {now: now, job: job(1, condition(batchv1.JobSuspended, corev1.ConditionTrue, at(-time.Hour)), func(j *batchv1.Job) { j.CreationTimestamp = metav1.NewTime(at(-time.Hour)) }), want: now.Truncate(time.Microsecond)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := observation{podGroup: podGroup(1), now: tc.now}
			if tc.job != nil {
				o.topOwners = of(tc.job).topOwners
			}
			if got := creationTime(o); !got.Equal(&metav1.MicroTime{Time: tc.want}) {
				t.Errorf("creationTime() = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestCreationTimeIsSetOnce(t *testing.T) {
	o := observation{podGroup: podGroup(1), pods: each(pods(1)), now: now}
	o.podGroup.Status = nextStatus(o, DefaultConfig().wantedSize(o))
	first := *o.podGroup.Status.CreationTime
	o.now = now.Add(time.Hour)
	if again := nextStatus(o, DefaultConfig().wantedSize(o)).CreationTime; !again.Equal(&first) {
		t.Errorf("creation time became %v, was %v", again, first)
	}
}

func TestNextStatusLeavesConditionsOfOthers(t *testing.T) {
	theirs := metav1.Condition{Type: "Scheduled", Status: metav1.ConditionFalse, Reason: "Busy", LastTransitionTime: metav1.NewTime(start)}
	o := observation{podGroup: podGroup(1), pods: each(pods(1)), now: now}
	o.podGroup.Status.Conditions = []metav1.Condition{theirs}
	next := nextStatus(o, DefaultConfig().wantedSize(o))
	if got := meta.FindStatusCondition(next.Conditions, "Scheduled"); got == nil || *got != theirs {
		t.Errorf("the scheduler's condition became %+v", got)
	}
	if !meta.IsStatusConditionTrue(next.Conditions, ConditionValid) {
		t.Errorf("conditions %+v lack a true %s", next.Conditions, ConditionValid)
	}
}

// With a CRD that lacks the fields of this project, a status
// that holds all it can is not written again and again.
func TestPlainCRDComesToRest(t *testing.T) {
	config := DefaultConfig()
	o := observation{podGroup: podGroup(4), pods: each(pods(4, in(corev1.PodRunning))), now: now, lacking: lacking{legacyCRD: true}}
	d, m := config.decide(o, memory{})
	if d.status == nil || d.status.Phase != scheduling.PodGroupRunning || d.status.CreationTime != nil || d.status.Conditions != nil {
		t.Fatalf("first status = %+v, want phase Running and no fields of ours", d.status)
	}
	o.podGroup.Status = *d.status
	if d, _ = config.decide(o, m); d.status != nil {
		t.Errorf("writes the status again: %+v", d.status)
	}
}

func TestDue(t *testing.T) {
	config := DefaultConfig()
	soon, most := config.CountDelay, config.StatusDelay
	status := func(phase scheduling.PodGroupPhase, scheduled, running int32) scheduling.PodGroupStatus {
		s := scheduling.PodGroupStatus{Scheduled: scheduled}
		s.Phase, s.Running = phase, running
		return s
	}
	cases := map[string]struct {
		before, next scheduling.PodGroupStatus
		stale        time.Duration
		last         time.Duration // how long the last write was held, which was just before
		wantWrite    bool
		wantAfter    time.Duration
	}{
		"the first status":                          {before: status("", 0, 0), next: status("Pending", 0, 0), wantWrite: true},
		"nothing changed":                           {before: status("Running", 4, 4), next: status("Running", 4, 4)},
		"the first pod is bound":                    {before: status("Pending", 0, 0), next: status("Scheduling", 1, 0), wantAfter: soon},
		"half of the pods have been bound for long": {before: status("Pending", 0, 0), next: status("Scheduling", 2, 0), stale: soon, wantWrite: true},
		"all are bound":                             {before: status("Pending", 0, 0), next: status("Scheduling", 4, 0), wantAfter: soon},
		"all have been bound for long":              {before: status("Pending", 0, 0), next: status("Scheduling", 4, 0), stale: soon, wantWrite: true},
		"a running group begins to lack a pod":      {before: status("Running", 4, 4), next: status("Scheduling", 4, 3), wantAfter: soon},
		"the first pod runs":                        {before: status("Scheduling", 4, 0), next: status("Scheduling", 4, 1), stale: most},
		"more pods are bound":                       {before: status("Scheduling", 4, 0), next: status("Scheduling", 5, 0), stale: soon - time.Millisecond, wantAfter: time.Millisecond},
		"more pods are bound again":                 {before: status("Scheduling", 4, 0), next: status("Scheduling", 5, 0), stale: soon, last: soon, wantAfter: soon},
		"and again, and at last":                    {before: status("Scheduling", 4, 0), next: status("Scheduling", 5, 0), stale: soon, last: most - 1, wantAfter: most - soon},
		"and the first four are bound":              {before: status("Scheduling", 3, 0), next: status("Scheduling", 4, 0), stale: soon, last: most, wantWrite: true},
		"and none is bound any more":                {before: status("Running", 3, 3), next: status("Running", 0, 3), stale: soon, last: most, wantWrite: true},
		"minMember run":                             {before: status("Scheduling", 4, 0), next: status("Running", 4, 4), wantWrite: true},
		"a fifth pod runs":                          {before: status("Running", 4, 4), next: status("Running", 5, 5), wantAfter: soon},
		"a fifth pod has run for long":              {before: status("Running", 4, 4), next: status("Running", 5, 5), stale: soon, wantWrite: true},
		"a running group loses a pod":               {before: status("Running", 4, 4), next: status("Unknown", 3, 3), wantWrite: true},
		"all at once":                               {before: status("Pending", 0, 0), next: status("Running", 4, 4), wantWrite: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var s staleness
			if tc.stale > 0 {
				s.since = now.Add(-tc.stale)
			}
			if tc.last > 0 {
				s.written, s.delay = s.since, tc.last
			}
			write, after, s := config.due(&tc.before, &tc.next, s, 4, now)
			if write != tc.wantWrite || after != tc.wantAfter {
				t.Errorf("due() = %t, %v, want %t, %v", write, after, tc.wantWrite, tc.wantAfter)
			}
			if s.since.IsZero() != (after == 0) {
				t.Errorf("due() remembers a wait since %v with %v to go", s.since, after)
			}
		})
	}
}

// While a group of thousands is bound, its numbers are written after a second, and then less and less
// often, and at once when all are bound.
func TestTheNumbersOfALargeGroupAreWrittenLessAndLessOften(t *testing.T) {
	config := DefaultConfig()
	const step, binding = 100 * time.Millisecond, time.Minute
	status := func(n int32) scheduling.PodGroupStatus {
		s := scheduling.PodGroupStatus{Scheduled: n}
		s.Phase = scheduling.PodGroupRunning
		return s
	}
	var s staleness
	var written []time.Duration
	shown := status(1)
	for at := time.Duration(0); at <= binding+2*step+config.CountDelay; at += step {
		next := status(2 + int32(min(at, binding)/step))
		write, _, after := config.due(&shown, &next, s, 2+int32(binding/step), now.Add(at))
		if s = after; write {
			shown, written = next, append(written, at)
		}
	}
	want := []time.Duration{time.Second, 3100 * time.Millisecond, 7200 * time.Millisecond, 15300 * time.Millisecond}
	if len(written) < len(want) || !slices.Equal(written[:len(want)], want) || len(written) > 3+int(binding/config.StatusDelay) {
		t.Errorf("written after %v, want after %v, and then once each %v", written, want, config.StatusDelay)
	}
	if last := written[len(written)-1]; last > binding+config.CountDelay+step || shown.Scheduled != 2+int32(binding/step) {
		t.Errorf("written after %v at last, with %d pods on nodes, want all of them within %v of the last", last, shown.Scheduled, config.CountDelay)
	}
}

// After an upgrade, the groups that run are not all written for the number of wanted pods alone.
func TestAGroupThatRanUnderAnOlderControllerIsLeftAlone(t *testing.T) {
	o := of(job(4)).with(podGroup(4), pods(4, in(corev1.PodRunning)))
	o.podGroup.Status = nextStatus(o, DefaultConfig().wantedSize(o))
	o.podGroup.Status.Desired = 0
	d, m := DefaultConfig().decide(o, settled)
	if d.status != nil || d.requeueAfter != 0 {
		t.Errorf("writes %+v, or does so after %v; want nothing", d.status, d.requeueAfter)
	}
	scaled := m
	scaled.wantedNone = true
	if d, _ := DefaultConfig().decide(o, scaled); d.requeueAfter != DefaultConfig().CountDelay {
		t.Errorf("decides again after %v; want that a group is written that wanted no pods before", d.requeueAfter)
	}
	o.pods = o.pods[:3]
	if d, _ := DefaultConfig().decide(o, m); d.status == nil || d.status.Desired != 4 {
		t.Errorf("status %+v, want that the next one has the number", d.status)
	}
}
