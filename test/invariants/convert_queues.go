package invariants

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// fluxJobFactOf reads a FluxJob. A field that is missing or of another type counts as empty.
func fluxJobFactOf(u *unstructured.Unstructured) fluxJobFact {
	text := func(path ...string) string { s, _, _ := unstructured.NestedString(u.Object, path...); return s }
	f := fluxJobFact{
		key: nameOf(u), uid: u.GetUID(), queue: text("spec", "queue"), workload: types.UID(text("spec", "workload", "uid")),
		phase: text("status", "phase"), asks: amountsIn(u, "spec", "requests"), started: timeIn(text("status", "started")),
	}
	pods, _, _ := unstructured.NestedInt64(u.Object, "spec", "pods")
	for name := range f.asks {
		f.asks[name] *= pods
	}
	if attempt, has, _ := unstructured.NestedInt64(u.Object, "status", "allocation", "attempt"); has {
		f.room = &roomFact{attempt: attempt, at: timeIn(text("status", "allocation", "at")), end: timeIn(text("status", "allocation", "end"))}
	}
	for _, c := range conditionsOf(u) {
		f.ran = f.ran || c.kind == conditionRelease && c.reason == reasonRan
		if c.kind == conditionAdmit && c.status != string(metav1.ConditionTrue) {
			f.waits = c.reason
		}
	}
	return f
}

// queueFactOf reads a Queue.
func queueFactOf(u *unstructured.Unstructured) queueFact {
	number := func(path ...string) int64 {
		if n, has, _ := unstructured.NestedInt64(u.Object, path...); has {
			return n
		}
		return noLimit
	}
	return queueFact{
		name: u.GetName(), running: number("spec", "limits", "running"), inNamespace: number("spec", "limits", "perNamespace", "running"),
		requests: amountsIn(u, "spec", "limits", "requests"),
	}
}

// amountsIn reads quantities by resource.
func amountsIn(u *unstructured.Unstructured, path ...string) amounts {
	said, _, _ := unstructured.NestedMap(u.Object, path...)
	list := corev1.ResourceList{}
	for name, value := range said {
		if q, err := resource.ParseQuantity(fmt.Sprint(value)); err == nil {
			list[corev1.ResourceName(name)] = q
		}
	}
	return amountsOf(list)
}

// timeIn reads a time. It returns zero for what is none.
func timeIn(text string) time.Time {
	t, _ := time.Parse(time.RFC3339, text)
	return t
}

// queueNamedBy returns the queue that the first of some labels names.
func queueNamedBy(labels ...map[string]string) string {
	for _, l := range labels {
		if queue, said := l[queueLabel]; said {
			return queue
		}
	}
	return ""
}
