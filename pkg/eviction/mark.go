package eviction

import (
	"fmt"
	"regexp"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/preemption"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// ConditionPreempted is a condition of a PodGroup of Fluence. It is True from before the first of its pods is
// evicted until the last one has gone, and then False.
const ConditionPreempted = "Preempted"

// conditionNative is this condition on a native PodGroup, where Kubernetes has a name for it.
const conditionNative = string(corev1.DisruptionTarget)

// A Mark is what is written onto a victim before it is evicted.
type Mark struct {
	// For is for whom the victim is evicted. A mark that was read has its UID and its priority only.
	For preemption.Preemptor
	// Priority is that of the victim.
	Priority int32
	// Suspends is the UID of the owner that is suspended. It is empty if pods are deleted.
	Suspends types.UID
	// Pods is the number of its pods that hold room.
	Pods int
	// sentence is that of Evicted in a mark that was read, which does not know the name of the preemptor. It is written again.
	sentence string
}

// markOf returns the mark of a victim.
func markOf(p preemption.Preemptor, v preemption.Victim) Mark {
	return Mark{For: p, Priority: v.Priority, Suspends: v.Suspend.UID, Pods: len(v.Pods)}
}

// Preemptor says for whom a victim in a namespace is evicted. It names a group of the same namespace only.
func (m Mark) Preemptor(namespace string) string {
	who := "a group of another namespace"
	if m.For.Namespace == namespace {
		who = "group " + m.For.Namespace + "/" + m.For.Name
		if m.For.Kind == preemption.Pod {
			who = "pod " + m.For.Namespace + "/" + m.For.Name
		}
	}
	return fmt.Sprintf("%s (priority %d, this one has %d)", who, m.For.Priority, m.Priority)
}

// Evicted says in a sentence how many pods were evicted, and for whom.
func (m Mark) Evicted(namespace string) string {
	if m.sentence != "" {
		return m.sentence
	}
	return fmt.Sprintf("%s evicted for %s", reason.Plural(m.Pods, "pod"), m.Preemptor(namespace))
}

// Message returns the message of the mark on an object of a namespace. Parse reads it.
func (m Mark) Message(namespace string) string {
	text := m.Evicted(namespace) + preemptorPart + string(m.For.UID)
	if m.Suspends != "" {
		text += fmt.Sprintf("; suspends owner %s until the pods have gone", m.Suspends)
	}
	return text
}

// Evicted returns the sentence of Mark.Evicted that the conditions of a PodGroup of either kind have, as the mark itself
// names the preemptor. ended is when the last of the evicted pods had gone. It is zero if they are being evicted. The
// sentence is empty if the group was not evicted.
func Evicted(conditions []metav1.Condition) (sentence string, ended metav1.Time) {
	for _, kind := range []string{ConditionPreempted, conditionNative} {
		c := meta.FindStatusCondition(conditions, kind)
		if c == nil {
			continue
		}
		sentence = sentenceText.FindString(c.Message)
		if c.Status != metav1.ConditionTrue {
			ended = c.LastTransitionTime
		}
		return sentence, ended
	}
	return "", ended
}

// EvictedPod returns this sentence in the mark of a pod. It is empty if the pod has no mark.
func EvictedPod(pod *corev1.Pod) string {
	if _, is := OfPod(pod); !is {
		return ""
	}
	return sentenceText.FindString(markMessage(pod))
}

// preemptorPart begins the part of a mark that is not for users.
const preemptorPart = "; preemptor "

// sentenceText is the form of the sentence of Mark.Evicted.
var sentenceText = regexp.MustCompile(`^\d+ pods? evicted for .* \(priority -?\d+, this one has -?\d+\)`)

// markText is the form of the message of a mark.
var markText = regexp.MustCompile(`^((\d+) pods? evicted for .* \(priority (-?\d+), this one has (-?\d+)\)); preemptor (\S+?)(?:; suspends owner (\S+) until the pods have gone)?$`)

// Parse reads the message of a mark. It returns false if the message is none of Message.
func Parse(message string) (Mark, bool) {
	m := markText.FindStringSubmatch(message)
	if m == nil {
		return Mark{}, false
	}
	var numbers [3]int64
	for i := range numbers {
		var err error
		if numbers[i], err = strconv.ParseInt(m[i+2], 10, 32); err != nil {
			return Mark{}, false
		}
	}
	return Mark{
		For:  preemption.Preemptor{UID: types.UID(m[5]), Priority: int32(numbers[1])},
		Pods: int(numbers[0]), Priority: int32(numbers[2]), Suspends: types.UID(m[6]), sentence: m[1],
	}, true
}

// OfPodGroup reads the mark of a PodGroup of Fluence from its conditions. OfNative reads that of a native one.
func OfPodGroup(conditions []metav1.Condition) (Mark, bool) {
	return markIn(conditions, ConditionPreempted)
}

// OfNative is described at OfPodGroup.
func OfNative(conditions []metav1.Condition) (Mark, bool) { return markIn(conditions, conditionNative) }

func markIn(conditions []metav1.Condition, kind string) (Mark, bool) {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil || c.Status != metav1.ConditionTrue {
		return Mark{}, false
	}
	return Parse(c.Message)
}

// OfPod reads the mark of a pod.
func OfPod(pod *corev1.Pod) (Mark, bool) { return Parse(markMessage(pod)) }

// markMessage returns the message of the condition with which a scheduler marks a pod that it evicts. It is empty if
// the pod has no such condition.
func markMessage(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonPreemptionByScheduler {
			return c.Message
		}
	}
	return ""
}

// markedFor returns the UID of the preemptor for whom a pod is marked. It is empty if it is not marked.
func markedFor(pod *corev1.Pod) types.UID {
	m, _ := OfPod(pod)
	return m.For.UID
}
