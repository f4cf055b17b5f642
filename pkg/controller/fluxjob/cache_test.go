package fluxjob

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The deadline of a pod is kept whether or not it names a queue still. Otherwise it would be written for ever.
func TestTheCacheKeepsTheDeadlineOfAPodThatHasLostItsLabel(t *testing.T) {
	keep := keeping("fluence", func(obj any) (any, error) {
		pod := obj.(*corev1.Pod)
		return &corev1.Pod{ObjectMeta: pod.ObjectMeta, Status: corev1.PodStatus{Phase: pod.Status.Phase}}, nil
	})
	w := newPodWorld(t, func(p *corev1.Pod) { p.Annotations = map[string]string{"fluence.flux-framework.org/duration": "1h"} })
	w.run()
	w.pod.Labels = nil
	kept, err := keep(w.pod.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	w.pod = kept.(*corev1.Pod)
	if w.step() {
		t.Errorf("wrote %q, want nothing", w.wrote)
	}
	w.pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: deadlineExceeded}
	if kept, err = keep(w.pod.DeepCopy()); err != nil || podEnding(kept.(*corev1.Pod)).result != "WalltimeExceeded" {
		t.Errorf("it has ended with %+v, want that its time was up", podEnding(kept.(*corev1.Pod)))
	}
	controlled := w.pod.DeepCopy()
	controlled.OwnerReferences = []metav1.OwnerReference{{Controller: new(true)}}
	if kept, err = keep(controlled); err != nil || kept.(*corev1.Pod).Spec.ActiveDeadlineSeconds != nil {
		t.Error("the deadlines of pods that something controls are kept")
	}
}
