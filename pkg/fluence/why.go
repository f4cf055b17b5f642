package fluence

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// Running are the pods that hold something, by the jobs that stand for them where
// nobody known has matched them: those of other schedulers, and all that were there
// before this scheduler. The zero value is ready for use.
type running struct {
	mu   sync.Mutex
	pods map[match.JobID]*corev1.Pod
}

// put takes note of a pod as it is now.
func (r *running) put(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	job := match.NewJobID("pod", string(pod.UID))
	if !translate.Holds(pod) {
		delete(r.pods, job)
		return
	}
	if r.pods == nil {
		r.pods = map[match.JobID]*corev1.Pod{}
	}
	r.pods[job] = pod
}

// drop takes note that a pod is gone.
func (r *running) drop(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, match.NewJobID("pod", string(pod.UID)))
}

// others counts the pods that ask for another scheduler than the one named.
func (r *running) others(scheduler string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, pod := range r.pods {
		if pod.Spec.SchedulerName != scheduler {
			n++
		}
	}
	return n
}

// of returns the pod that a job stands for, or nil.
func (r *running) of(job match.JobID) *corev1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pods[job]
}

// endOf says in words whose end would help: that of a group, or of a pod. It is empty
// if none would, or nobody known holds what is named, or it is the group's own.
func (pl *Fluence) endOf(r match.Reason, asks types.NamespacedName) string {
	if r.End == nil {
		return ""
	}
	if key, alone, ok := pl.groups.OfJob(r.End.Job); ok {
		switch {
		case key == asks:
			return ""
		case alone != nil:
			return "pod " + podName(alone)
		}
		return "group " + key.String()
	}
	pod := pl.running.of(r.End.Job)
	if pod == nil {
		return ""
	}
	if m, ok := pl.groups.GroupOf(pod.UID); ok && m.Named {
		if m.Key == asks {
			return ""
		}
		// One pod of a group that started before this scheduler.
		return "pod " + podName(pod) + " of group " + m.Key.String()
	}
	return "pod " + podName(pod)
}

func podName(pod *corev1.Pod) string {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}.String()
}
