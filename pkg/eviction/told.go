package eviction

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/flux-k8s/fluence/pkg/nativegroup"
	"github.com/flux-k8s/fluence/pkg/preemption"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// maxNamed is the number of victims that a message names.
const maxNamed = 5

// Tell records the events of a change: on the preemptor when the plan is accepted, and on a victim and its pods when
// its eviction begins. A preemptor that is a group has an event with its condition Scheduled anyway. The changes of
// an earlier process are not told again.
func Tell(r events.EventRecorder, c Change) {
	switch v := c.Victim; {
	case c.Resumed:
	case c.Outcome == Accepted && c.For.Kind == preemption.Pod:
		r.Eventf(objectOf(c.For.Kind, c.For.Namespace, c.For.Name, c.For.UID), nil, corev1.EventTypeNormal, reason.Preempting, reason.Preempting, "%s", Evicts(c.For.Namespace, c.Victims))
	case c.Outcome == "" && v.State == Ending:
		m := markOf(c.For, v.Victim)
		var preemptor runtime.Object
		if c.For.Namespace == v.Namespace { // an event may not name what its readers may not see
			preemptor = objectOf(c.For.Kind, c.For.Namespace, c.For.Name, c.For.UID)
		}
		if v.Kind != preemption.Pod {
			r.Eventf(objectOf(v.Kind, v.Namespace, v.Name, v.UID), preemptor, corev1.EventTypeWarning, reason.Preempted, reason.Preempted, "%s", m.Evicted(v.Namespace))
		}
		for _, pod := range v.Pods {
			r.Eventf(objectOf(preemption.Pod, v.Namespace, pod.Name, pod.UID), preemptor, corev1.EventTypeNormal, reason.Preempted, reason.Preempted, "evicted for %s", m.Preemptor(v.Namespace))
		}
	}
}

// Evicts says which victims are evicted for a group of a namespace. It names the victims of this
// namespace, and counts the others.
func Evicts(namespace string, victims []preemption.Victim) string {
	var parts []string
	unnamed, pods, highest := 0, 0, int32(0)
	for _, v := range victims {
		if v.Namespace == namespace && len(parts) < maxNamed {
			kind, size := "group", fmt.Sprintf("%s, ", reason.Plural(len(v.Pods), "pod"))
			if v.Kind == preemption.Pod {
				kind, size = "pod", ""
			}
			parts = append(parts, fmt.Sprintf("%s %s/%s (%spriority %d)", kind, v.Namespace, v.Name, size, v.Priority))
			continue
		}
		if unnamed == 0 || v.Priority > highest {
			highest = v.Priority
		}
		unnamed, pods = unnamed+1, pods+len(v.Pods)
	}
	if unnamed > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s (priority %d at most)", reason.Plural(pods, "pod"), reason.Plural(unnamed, "other group"), highest))
	}
	return "evicts " + strings.Join(parts, ", ")
}

// objectOf returns the reference to a group or a pod.
func objectOf(kind preemption.Kind, namespace, name string, uid types.UID) *corev1.ObjectReference {
	o := &corev1.ObjectReference{Namespace: namespace, Name: name, UID: uid, APIVersion: scheduling.GroupVersion.String(), Kind: "PodGroup"}
	switch kind {
	case preemption.NativeGroup:
		o.APIVersion = nativegroup.GroupVersion.String()
	case preemption.Pod:
		o.APIVersion, o.Kind = "v1", "Pod"
	case preemption.Group:
	}
	return o
}
