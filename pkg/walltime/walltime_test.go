package walltime

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = time.Date(2026, 1, 2, 12, 0, 0, 300e6, time.UTC)

// in returns the whole second that many seconds after noon.
func in(seconds int) time.Time {
	return now.Truncate(time.Second).Add(time.Duration(seconds) * time.Second)
}

func TestEndOf(t *testing.T) {
	bound := func(p *corev1.Pod) {
		p.Spec.NodeName = "n"
		p.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(in(-1))},
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(in(-60))},
		}
	}
	deadline := func(s int64) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = &s } }
	grace := func(s int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &s }
	}
	started := func(p *corev1.Pod) { p.Status.StartTime = new(metav1.NewTime(in(-50))) }
	minute := Bounds{Duration: time.Minute}
	for name, c := range map[string]struct {
		pod    []func(*corev1.Pod)
		bounds Bounds
		want   End
	}{
		"nothing bounds it":                              {nil, Bounds{}, End{}},
		"a wish, in whole seconds":                       {nil, minute, End{Expected: in(61)}},
		"a wish that is enforced":                        {nil, Bounds{Duration: time.Minute, Enforced: true}, End{in(61), in(61)}},
		"a wish counts from the bind":                    {[]func(*corev1.Pod){bound}, minute, End{Expected: in(0)}},
		"a pod that was made on its node":                {[]func(*corev1.Pod){func(p *corev1.Pod) { p.Spec.NodeName = "n" }}, minute, End{Expected: in(-40)}},
		"the pod's deadline is kept":                     {[]func(*corev1.Pod){deadline(10)}, minute, End{in(11), in(11)}},
		"it counts from the pod's start":                 {[]func(*corev1.Pod){bound, started, deadline(10)}, Bounds{}, End{in(-40), in(-40)}},
		"and from the bind before that":                  {[]func(*corev1.Pod){bound, deadline(10)}, Bounds{}, End{in(-50), in(-50)}},
		"a wish before the pod's deadline":               {[]func(*corev1.Pod){deadline(600)}, minute, End{in(61), in(601)}},
		"the Job's deadline is a time":                   {[]func(*corev1.Pod){bound}, Bounds{Duration: time.Hour, JobDeadline: in(5)}, End{in(5), in(5)}},
		"the earliest of the deadlines":                  {[]func(*corev1.Pod){deadline(10)}, Bounds{JobDeadline: in(5)}, End{in(5), in(5)}},
		"the room is free after the grace":               {[]func(*corev1.Pod){grace(30)}, Bounds{Duration: time.Minute, JobDeadline: in(100)}, End{in(91), in(130)}},
		"a deadline of the Job that has passed":          {[]func(*corev1.Pod){grace(0)}, Bounds{JobDeadline: in(-5)}, End{in(-5), in(-5)}},
		"a time of zero seconds to end takes no further": {[]func(*corev1.Pod){bound, started, deadline(50), grace(0)}, Bounds{}, End{in(0), in(0)}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(in(-100))}}
			for _, set := range c.pod {
				set(pod)
			}
			if got := EndOf(pod, c.bounds, now); !got.Expected.Equal(c.want.Expected) || !got.Kept.Equal(c.want.Kept) {
				t.Errorf("EndOf() = expected %v, kept %v, want %v, %v", got.Expected, got.Kept, c.want.Expected, c.want.Kept)
			}
		})
	}
}

func TestLast(t *testing.T) {
	a, b := End{Expected: in(10), Kept: in(20)}, End{Expected: in(15)}
	if got := Last(a, b); got != (End{Expected: in(15)}) {
		t.Errorf("Last() = %v: one of the pods has no end that is kept", got)
	}
	if got := Last(End{}, a); got != (End{}) {
		t.Errorf("Last() = %v: one of the pods has no end", got)
	}
	if got := Last(); got != (End{}) {
		t.Errorf("Last() = %v without pods", got)
	}
}

func TestUntil(t *testing.T) {
	for end, want := range map[time.Time]time.Duration{{}: 0, in(10): 9700 * time.Millisecond, in(-10): time.Second} {
		if got := Until(end, now); got != want {
			t.Errorf("Until(%v) = %v, want %v", end, got, want)
		}
	}
}

func TestJobDeadline(t *testing.T) {
	started := metav1.NewTime(in(0))
	for name, c := range map[string]struct {
		job  batchv1.Job
		want time.Time
	}{
		"no deadline":   {batchv1.Job{Status: batchv1.JobStatus{StartTime: &started}}, time.Time{}},
		"not started":   {batchv1.Job{Spec: batchv1.JobSpec{ActiveDeadlineSeconds: new(int64(60))}}, time.Time{}},
		"it runs":       {batchv1.Job{Spec: batchv1.JobSpec{ActiveDeadlineSeconds: new(int64(60))}, Status: batchv1.JobStatus{StartTime: &started}}, in(60)},
		"it is resumed": {batchv1.Job{Spec: batchv1.JobSpec{ActiveDeadlineSeconds: new(int64(60)), Suspend: new(false)}, Status: batchv1.JobStatus{StartTime: &started}}, in(60)},
		"it has failed": {batchv1.Job{Spec: batchv1.JobSpec{ActiveDeadlineSeconds: new(int64(60))}, Status: batchv1.JobStatus{
			StartTime: &started, Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}},
		}}, time.Time{}},
		"another controller manages it": {batchv1.Job{Spec: batchv1.JobSpec{ActiveDeadlineSeconds: new(int64(60)), ManagedBy: new("example.com/other")}, Status: batchv1.JobStatus{StartTime: &started}}, time.Time{}},
		"it is suspended":               {batchv1.Job{Spec: batchv1.JobSpec{ActiveDeadlineSeconds: new(int64(60)), Suspend: new(true)}, Status: batchv1.JobStatus{StartTime: &started}}, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := JobDeadline(&c.job); !got.Equal(c.want) {
				t.Errorf("JobDeadline() = %v, want %v", got, c.want)
			}
		})
	}
}
