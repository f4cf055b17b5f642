// Package kubelet does for simulated nodes what KWOK's stages cannot, because
// each of them sees one pod only: it adds up what a node's pods ask for, in the
// order in which they were bound, and admits or rejects each, as the kubelet of
// a real node would. Before it rejects one, it makes sure with the API server
// that the pods in its way are still there.
//
// It says so in the pod's status, by a condition of type Admitted, and leaves
// the rest to stages that react to it: an admitted pod becomes Ready, and one
// that was rejected becomes Failed with the condition's reason, such as
// OutOfcpu.
//
// It also turns the annotations RunFor and FailAfter, which are durations since
// the admission, into a point in time in a condition of type Ends. A stage ends
// the pod then. A pod without them runs for ever. They may be set, changed and
// removed while the pod runs.
package kubelet

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Conditions of a pod that has a node.
const (
	// Admitted is True or, with the kubelet's reason and message, False.
	Admitted corev1.PodConditionType = "kwok.fluence.flux-framework.org/Admitted"
	// Ends is True when the pod's end is known: its reason is the phase then,
	// its message the time (RFC 3339). It is False when an annotation cannot
	// be read, and when it was removed.
	Ends corev1.PodConditionType = "kwok.fluence.flux-framework.org/Ends"
)

// Annotations of pods, Go durations. If both are set, the earlier end counts.
const (
	// RunFor is after how long the pod succeeds.
	RunFor = "kwok.fluence.flux-framework.org/run-for"
	// FailAfter is after how long the pod fails.
	FailAfter = "kwok.fluence.flux-framework.org/fail-after"
)

// ReadyLine is what Run logs once it has seen all nodes and pods.
const ReadyLine = "the fake kubelet is ready"

// finished reports whether a pod has given back its resources.
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

// alreadyAdmitted reports whether the pod's status shows that it was admitted,
// by an earlier run of this package or by a kubelet of another kind.
func alreadyAdmitted(pod *corev1.Pod) bool {
	c := admission(pod)
	return pod.Status.Phase == corev1.PodRunning || c != nil && c.Status == corev1.ConditionTrue
}

// endOf returns the condition that a pod admitted at a time should have: nil,
// if nothing was asked for.
func endOf(pod *corev1.Pod, admitted time.Time) *corev1.PodCondition {
	var end time.Time
	var phase corev1.PodPhase
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
		if at := admitted.Add(d); phase == "" || at.Before(end) {
			end, phase = at, a.phase
		}
	}
	if phase == "" {
		return nil
	}
	return &corev1.PodCondition{Type: Ends, Status: corev1.ConditionTrue, Reason: string(phase), Message: end.UTC().Format(time.RFC3339Nano)}
}

// sameCondition compares what endOf decides.
func sameCondition(a, b *corev1.PodCondition) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}
