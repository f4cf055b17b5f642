package podgroup

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/group"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

func TestTheConditionFinished(t *testing.T) {
	end := start.Add(time.Hour)
	because := func(reason, message string) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			last := &j.Status.Conditions[len(j.Status.Conditions)-1]
			last.Reason, last.Message = reason, message
		}
	}
	complete := condition(batchv1.JobComplete, corev1.ConditionTrue, end)
	failing := condition(batchv1.JobFailed, corev1.ConditionTrue, end)
	deadline := because("DeadlineExceeded", "Job was active longer than specified deadline")
	cases := map[string]struct {
		o           observation
		wantReason  string // "": no condition
		wantMessage string
		wantAt      time.Time
		wantEvent   string
	}{
		"it runs":                             {o: of(job(2)).with(podGroup(2), pods(2, in(corev1.PodRunning)))},
		"its Job is complete":                 {of(job(2, complete)).with(podGroup(2), pods(2, in(corev1.PodSucceeded))), "Succeeded", "2 pods succeeded", end, "Finished: 2 pods succeeded"},
		"its Job is complete, one pod failed": {of(job(2, complete)).with(podGroup(2), join(pods(2, in(corev1.PodSucceeded)), pods(1, in(corev1.PodFailed)))), "Succeeded", "2 pods succeeded, 1 failed", end, "Finished: 2 pods succeeded, 1 failed"},
		"its Job had no more time": {of(job(2, failing, deadline)).with(podGroup(2), nil), "DeadlineExceeded",
			"0 pods succeeded, 0 failed; Job ns/train: DeadlineExceeded: Job was active longer than specified deadline", end,
			"Failed: 0 pods succeeded, 0 failed; Job ns/train: DeadlineExceeded: Job was active longer than specified deadline"},
		"its Job gives no message":                            {of(job(2, failing, because("BackoffLimitExceeded", ""))).with(podGroup(2), nil), "BackoffLimitExceeded", "0 pods succeeded, 0 failed; Job ns/train: BackoffLimitExceeded", end, "Failed: 0 pods succeeded, 0 failed; Job ns/train: BackoffLimitExceeded"},
		"its Job gives a reason that a condition cannot have": {of(job(2, failing, because("no time", "left"))).with(podGroup(2), nil), "Failed", "0 pods succeeded, 0 failed; Job ns/train has failed", end, "Failed: 0 pods succeeded, 0 failed; Job ns/train has failed"},
		"its bare pods have succeeded":                        {observation{key: key, now: now}.with(podGroup(2), pods(2, in(corev1.PodSucceeded))), "Succeeded", "2 pods succeeded", now, "Finished: 2 pods succeeded"},
		"one of its bare pods has failed":                     {observation{key: key, now: now}.with(podGroup(2), join(pods(1, in(corev1.PodFailed)), pods(1, in(corev1.PodSucceeded)))), "Failed", "1 pod succeeded, 1 failed", now, "Failed: 1 pod succeeded, 1 failed"},
		"its bare pods are made again": {observation{key: key, now: now}.with(podGroup(2, func(pg *scheduling.PodGroup) {
			pg.Status.Phase = scheduling.PodGroupFailed
			pg.Status.Conditions = []metav1.Condition{{Type: ConditionFinished, Status: metav1.ConditionTrue, Reason: "Failed"}}
		}), pods(2)), "", "", time.Time{}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.o.podGroup.Status.Phase
			next := nextStatus(tc.o, DefaultConfig().wantedSize(tc.o))
			c := meta.FindStatusCondition(next.Conditions, ConditionFinished)
			if (c != nil) != (tc.wantReason != "") {
				t.Fatalf("condition %+v, want one: %t", c, tc.wantReason != "")
			}
			if c != nil && (c.Status != metav1.ConditionTrue || c.Reason != tc.wantReason || c.Message != tc.wantMessage || !c.LastTransitionTime.Time.Equal(tc.wantAt)) {
				t.Errorf("condition %+v, want %s at %v: %s", c, tc.wantReason, tc.wantAt, tc.wantMessage)
			}
			var told []string
			for _, e := range endEvents(before, &next) {
				told = append(told, e.reason+": "+e.text)
			}
			if got := strings.Join(told, ", "); got != tc.wantEvent {
				t.Errorf("events %q, want %q", got, tc.wantEvent)
			}
		})
	}
}

// After an upgrade, the groups that ended before it are not all written again.
func TestAGroupThatEndedUnderAnOlderControllerIsLeftAlone(t *testing.T) {
	o := of(job(2, condition(batchv1.JobComplete, corev1.ConditionTrue, start))).with(podGroup(2), pods(2, in(corev1.PodSucceeded)))
	o.podGroup.Status = nextStatus(o, DefaultConfig().wantedSize(o))
	o.podGroup.Status.Scheduled, o.podGroup.Status.Desired = 2, 0
	meta.RemoveStatusCondition(&o.podGroup.Status.Conditions, ConditionFinished)
	if d, _ := DefaultConfig().decide(o, settled); d.status != nil || d.requeueAfter != 0 || len(d.events) > 0 {
		t.Errorf("decide() = %+v, want nothing", d)
	}
}

// The numbers of a group count pods by what they do, not by what they did.
func TestTheNumbersOfAGroup(t *testing.T) {
	suspended := func(j *batchv1.Job) { j.Spec.Suspend = new(true) }
	running := in(corev1.PodRunning)
	cases := map[string]struct {
		o                          observation
		wantPhase                  scheduling.PodGroupPhase
		wantDesired, wantScheduled int32
	}{
		"pods of a Job wait":                        {of(job(4)).with(podGroup(2), pods(4)), scheduling.PodGroupPending, 4, 0},
		"a Job whose pods are not made yet":         {of(job(4)).with(podGroup(4), pods(1)), scheduling.PodGroupPending, 4, 0},
		"two of a Job's pods have been replaced":    {of(job(4)).with(podGroup(4), join(pods(2, in(corev1.PodFailed)), pods(4, running))), scheduling.PodGroupRunning, 4, 4},
		"one pod is lost and was not replaced yet":  {of(job(4)).with(podGroup(4), join(pods(1, in(corev1.PodFailed)), pods(3, running))), scheduling.PodGroupScheduling, 4, 3},
		"more pods than the Job wants for now":      {of(job(4)).with(podGroup(4), pods(5, running, ofTrain)), scheduling.PodGroupRunning, 4, 5},
		"more pods than their size label says":      {observation{key: key, now: now}.with(podGroup(4, ours), pods(5, running, labelled(group.SizeLabel, "4"))), scheduling.PodGroupRunning, 4, 5},
		"a Job that has grown":                      {of(job(6)).with(podGroup(2), pods(4, running, ofTrain)), scheduling.PodGroupRunning, 6, 4},
		"all have ended":                            {of(job(4, condition(batchv1.JobComplete, corev1.ConditionTrue, now))).with(podGroup(4), pods(4, in(corev1.PodSucceeded))), scheduling.PodGroupFinished, 4, 0},
		"a Job is suspended":                        {of(job(4, suspended)).with(podGroup(4), nil), scheduling.PodGroupSuspended, 4, 0},
		"a Job is suspended after some completions": {of(job(4, suspended)).with(podGroup(4), pods(4, in(corev1.PodSucceeded))), scheduling.PodGroupSuspended, 4, 0},
		"a Job is suspended and its pods still run": {of(job(4, suspended)).with(podGroup(4), pods(4, running, deleting)), scheduling.PodGroupRunning, 4, 4},
		"a Job of no pods":                          {of(job(0)).with(podGroup(4), nil), scheduling.PodGroupIdle, 0, 0},
		"bare pods":                                 {observation{key: key, now: now}.with(podGroup(2), pods(3, running)), scheduling.PodGroupRunning, 3, 3},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := nextStatus(tc.o, DefaultConfig().wantedSize(tc.o))
			if s.Phase != tc.wantPhase || s.Desired != tc.wantDesired || s.Scheduled != tc.wantScheduled {
				t.Errorf("phase %s, %d wanted, %d on nodes; want %s, %d, %d", s.Phase, s.Desired, s.Scheduled, tc.wantPhase, tc.wantDesired, tc.wantScheduled)
			}
		})
	}
}

// Whoever deletes a pod may give it longer to stop than its spec says. That counts for nothing after its duration.
func TestStops(t *testing.T) {
	for name, c := range map[string]struct {
		deleted      bool
		given, usual *int64
		want         bool
	}{
		"it runs":                   {false, nil, new(int64(30)), false},
		"it has its usual time":     {true, new(int64(30)), new(int64(30)), true},
		"it is killed at once":      {true, new(int64(0)), new(int64(30)), true},
		"it is given a day to stop": {true, new(int64(86400)), new(int64(30)), false},
		"its time is not known":     {true, nil, nil, true},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: c.usual}}
		if pod.DeletionGracePeriodSeconds = c.given; c.deleted {
			pod.DeletionTimestamp = new(metav1.Now())
		}
		if got := stops(pod); got != c.want {
			t.Errorf("%s: stops() = %v, want %v", name, got, c.want)
		}
	}
}
