package kubelet

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// A pod that lingers is removed only when its annotation has gone.
func TestADeletedPodLingers(t *testing.T) {
	k := newKubelet(fake.NewClientset())
	defer k.removals.ShutDown()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		UID: "a", DeletionTimestamp: &metav1.Time{}, DeletionGracePeriodSeconds: new(int64(30)), Annotations: map[string]string{Lingers: ""},
	}}
	if k.leave(pod); len(k.leaving) != 0 {
		t.Error("a pod that lingers is removed")
	}
	pod = pod.DeepCopy()
	pod.Annotations = nil
	if k.leave(pod); k.leaving["a"] != pod {
		t.Error("a pod that lingers no longer stays")
	}
}
