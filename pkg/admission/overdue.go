package admission

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
)

// The Job controller ends a Job that is over time, and the kubelet a pod that is on a node. Nobody ends a pod without a node, or what was
// not let go: its room would never be free.

// takeOverdueBack takes the rooms back whose end has come before their jobs have begun. The jobs wait for their turn again.
func (l *loop) takeOverdueBack(now time.Time) {
	l.jobs.mu.Lock()
	var overdue []types.NamespacedName
	for _, key := range l.jobs.byID {
		if l.isOverdue(l.jobs.byKey[key], now) {
			overdue = append(overdue, key)
		}
	}
	l.jobs.mu.Unlock()
	for _, key := range overdue {
		if len(l.cfg.Groups.Placed(key)) > 0 {
			continue // a pod is being bound
		}
		l.jobs.mu.Lock()
		if j := l.jobs.byKey[key]; l.isOverdue(j, now) {
			if j.isLetGo() {
				l.jobs.refused(j, "its time was over before the pod had a node")
			} else {
				l.jobs.takeBack(j, v1alpha1.ReasonRequeued, fmt.Sprintf("its time was over before the %s was let go", j.of.kind()))
			}
			l.teller.writer.add(key, true)
		}
		l.jobs.mu.Unlock()
	}
}

// isOverdue reports whether a job has room whose end has come, and nothing that somebody else ends. j may be nil. The caller holds the
// lock of the jobs.
func (l *loop) isOverdue(j *job, now time.Time) bool {
	if j == nil || !j.isAdmitted() || j.room.end.IsZero() || now.Before(j.room.end) {
		return false
	}
	if !j.isLetGo() {
		return true
	}
	if !j.of.isPod {
		return false
	}
	pod := l.cfg.Cluster.pod(j)
	return pod != nil && pod.Spec.NodeName == "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}
