// Package kubelet does for simulated nodes what KWOK's stages cannot, because a stage sees
// only one pod. It adds up the requests of a node's pods, in the order in which they were
// bound. It admits or rejects each pod, as the kubelet of a real node would. Before it
// rejects a pod, it asks the API server whether the pods that hold the room still exist.
//
// The verdict is a condition of type Admitted in the pod's status. Stages
// react to the condition: an admitted pod becomes Ready. A rejected pod
// becomes Failed with the condition's reason, such as OutOfcpu.
//
// The annotations RunFor and FailAfter are durations since the admission. The package
// turns them into a time in a condition of type Ends. A stage ends the pod at that time. A
// pod without them runs for ever. They may be set, changed and removed while the pod runs. A pod with
// activeDeadlineSeconds fails by these, as under a real kubelet.
//
// A pod that is deleted goes soon, whatever its grace period. With the annotation Lingers it
// stays until the annotation is removed, as a pod does that uses its grace period.
package kubelet

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// These are conditions of a pod that has a node.
const (
	// Admitted is True if the pod was admitted. Otherwise
	// it is False, with the kubelet's reason and message.
	Admitted corev1.PodConditionType = "kwok.fluence.flux-framework.org/Admitted"
	// Ends is True when the time of the pod's end is known. Its reason is the phase
	// at the end or DeadlineExceeded, its message the time (RFC 3339). It is
	// False if an annotation cannot be read, or was removed.
	Ends corev1.PodConditionType = "kwok.fluence.flux-framework.org/Ends"
)

// DeadlineExceeded is the reason of a pod that fails by its activeDeadlineSeconds.
const DeadlineExceeded = "DeadlineExceeded"

// These are annotations of pods, with Go durations. If both are set, the earlier end counts.
const (
	// RunFor is the time after which the pod succeeds.
	RunFor = "kwok.fluence.flux-framework.org/run-for"
	// FailAfter is the time after which the pod fails.
	FailAfter = "kwok.fluence.flux-framework.org/fail-after"
)

// Lingers is an annotation of pods, with any value. Such a pod stays on its node while it is being deleted.
const Lingers = "kwok.fluence.flux-framework.org/lingers"

// ReadyLine is what Run logs when it has seen all nodes and pods.
const ReadyLine = "the fake kubelet is ready"

// finished reports whether a pod has released its resources.
func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// condition returns the pod's condition of type t, or nil.
func condition(pod *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == t {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// admission returns the verdict written into the pod, or nil.
func admission(pod *corev1.Pod) *corev1.PodCondition { return condition(pod, Admitted) }

// alreadyAdmitted reports whether the pod's status shows an
// admission, by an earlier run of this package or by another kubelet.
func alreadyAdmitted(pod *corev1.Pod) bool {
	c := admission(pod)
	return pod.Status.Phase == corev1.PodRunning || c != nil && c.Status == corev1.ConditionTrue
}

// endOf returns the condition Ends for a pod that was admitted at a
// time. It returns nil if no annotation is set and the pod has no deadline.
func endOf(pod *corev1.Pod, admitted time.Time) *corev1.PodCondition {
	var end time.Time
	var why string
	if s := pod.Spec.ActiveDeadlineSeconds; s != nil {
		end, why = admitted.Add(time.Duration(*s)*time.Second), DeadlineExceeded
	}
	for _, a := range []struct {
		key   string
		phase corev1.PodPhase
	}{{RunFor, corev1.PodSucceeded}, {FailAfter, corev1.PodFailed}} {
		text, ok := pod.Annotations[a.key]
		if !ok {
			continue
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			return &corev1.PodCondition{Type: Ends, Status: corev1.ConditionFalse, Reason: "BadAnnotation", Message: fmt.Sprintf("%s: %v", a.key, err)}
		}
		if at := admitted.Add(d); why == "" || at.Before(end) {
			end, why = at, string(a.phase)
		}
	}
	if why == "" {
		return nil
	}
	return &corev1.PodCondition{Type: Ends, Status: corev1.ConditionTrue, Reason: why, Message: end.UTC().Format(time.RFC3339Nano)}
}

// sameCondition compares the fields that endOf sets.
func sameCondition(a, b *corev1.PodCondition) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}
