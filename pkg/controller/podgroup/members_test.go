package podgroup

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/flux-k8s/fluence/pkg/group"
)

// What the cache keeps of pods and Jobs must do for every decision.
func TestSlimObjectsDecideTheSame(t *testing.T) {
	fullPod := pods(1, in(corev1.PodRunning), labelled(group.SizeLabel, "4"), func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "train", UID: "job-uid", Controller: new(true)}}
		p.Annotations = map[string]string{"a": "b"}
		p.Spec.Containers = []corev1.Container{{Name: "c"}}
		p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	})[0]
	slim, err := slimPod(fullPod.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	pod := slim.(*corev1.Pod)
	if len(pod.Spec.Containers) > 0 || len(pod.ManagedFields) > 0 || len(pod.Annotations) > 0 {
		t.Errorf("slimPod() keeps %+v", pod)
	}
	if group.Of(pod) != group.Of(fullPod) || countOf([]*corev1.Pod{pod}) != countOf([]*corev1.Pod{fullPod}) {
		t.Errorf("a slim pod is of group %+v with counts %+v", group.Of(pod), countOf([]*corev1.Pod{pod}))
	}
	fullJob := job(4, condition(batchv1.JobComplete, corev1.ConditionTrue, now), func(j *batchv1.Job) {
		j.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c"}}
		j.Spec.Template.Labels = map[string]string{group.MinLabel: "2"}
	})
	slim, err = slimJob(fullJob.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	j := slim.(*batchv1.Job)
	if len(j.Spec.Template.Spec.Containers) > 0 {
		t.Errorf("slimJob() keeps %+v", j.Spec.Template.Spec)
	}
	if c := DefaultConfig(); c.wantedSize(observed{job: j}) != c.wantedSize(observed{job: fullJob}) || !jobIs(j, batchv1.JobComplete) || j.Spec.Template.Spec.SchedulerName != "fluence" {
		t.Errorf("a slim Job is %+v", j)
	}
}

func TestPodGroupOfJob(t *testing.T) {
	own := group.JobName("train", "job-uid")
	cases := map[string]struct {
		label string
		want  bool
	}{
		"no group label on the template":      {want: true},
		"the label names the Job's own group": {label: own, want: true},
		"the label names another group":       {label: "g"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			j := job(4, func(j *batchv1.Job) { j.Spec.Template.Labels = map[string]string{group.Label: tc.label} })
			got := podGroupOfJob(j)
			if (len(got) == 1) != tc.want || tc.want && got[0] != own {
				t.Errorf("podGroupOfJob() = %v, want one: %t", got, tc.want)
			}
		})
	}
}

func TestChangesThatCount(t *testing.T) {
	cases := map[string]struct {
		before, after *corev1.Pod
		want          bool
	}{
		"a condition or an annotation": {pods(1)[0], pods(1, func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} })[0], false},
		"a node":                       {pods(1)[0], pods(1, bound)[0], true},
		"a phase":                      {pods(1, bound)[0], pods(1, in(corev1.PodRunning))[0], true},
		"a label":                      {pods(1)[0], pods(1, labelled(group.SizeLabel, "2"))[0], true},
		"a deletion":                   {pods(1)[0], pods(1, deleting)[0], true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := podChanged(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}); got != tc.want {
				t.Errorf("podChanged() = %t, want %t", got, tc.want)
			}
		})
	}
	grown := job(4, func(j *batchv1.Job) { j.Generation++ })
	done := job(4, condition(batchv1.JobComplete, corev1.ConditionTrue, now))
	busy := job(4, func(j *batchv1.Job) { j.Status.Active = 3 })
	for name, tc := range map[string]struct {
		after *batchv1.Job
		want  bool
	}{"a new spec": {grown, true}, "a condition": {done, true}, "a count of pods": {busy, false}} {
		t.Run(name+" of a Job", func(t *testing.T) {
			if got := jobChanged(event.UpdateEvent{ObjectOld: job(4), ObjectNew: tc.after}); got != tc.want {
				t.Errorf("jobChanged() = %t, want %t", got, tc.want)
			}
		})
	}
}
