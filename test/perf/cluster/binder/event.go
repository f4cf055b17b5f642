package main

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scheduled returns the event that kube-scheduler writes for a pod bound now.
func scheduled(p placed, now time.Time) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name:      fmt.Sprintf("%s.%x", p.pod.Name, now.UnixNano()),
			Namespace: p.pod.Namespace,
		},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: corev1.DefaultSchedulerName,
		ReportingInstance:   "binder",
		Action:              "Binding",
		Reason:              "Scheduled",
		Regarding: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: p.pod.Namespace, Name: p.pod.Name,
			UID: p.pod.UID, ResourceVersion: p.pod.ResourceVersion,
		},
		Note: fmt.Sprintf("Successfully assigned %s/%s to %s", p.pod.Namespace, p.pod.Name, p.node),
		Type: corev1.EventTypeNormal,
	}
}
