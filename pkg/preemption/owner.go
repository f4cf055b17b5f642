package preemption

import (
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/group"
)

// QueueLabel is the label of objects that Kueue manages. Kueue suspends and resumes them itself.
const QueueLabel = group.KueueLabel

// An Owner is what is known of an object that controls pods, directly or through other objects.
type Owner struct {
	// Controller is the object that controls the owner. It is zero if there is none.
	Controller group.Owner
	// Queued is true if Kueue manages the owner.
	Queued bool
}

// OwnerOf returns what the metadata of an object says of it.
func OwnerOf(obj metav1.Object) Owner {
	return Owner{Controller: group.ControllerOf(obj), Queued: obj.GetLabels()[QueueLabel] != ""}
}

// isCronJob reports whether an owner only makes Jobs. It does not resume a Job that is suspended, and its own
// field suspend is about Jobs that it has not made yet.
func isCronJob(o group.Owner) bool { return o.Group == batchv1.GroupName && o.Kind == "CronJob" }

// maxOwners is how many objects are followed from a pod upwards.
const maxOwners = 8

// A line is the objects that control a pod.
type line struct {
	// top is the object that no other controls, CronJobs aside. It is zero if it is not known.
	top group.Owner
	// queued is true if Kueue manages one of the objects.
	queued bool
	// suspend is the object at the top if somebody else than Kueue may suspend it. Otherwise it is zero.
	suspend group.Owner
}

// follow returns the objects above the controller of a pod.
func follow(namespace string, controller group.Owner, ownerOf func(namespace string, o group.Owner) (Owner, bool)) line {
	var l line
	for at, n := controller, 0; n < maxOwners; n++ {
		of, known := ownerOf(namespace, at)
		if !known {
			return l
		}
		l.queued = l.queued || of.Queued
		if of.Controller == (group.Owner{}) || isCronJob(of.Controller) {
			if l.top = at; !l.queued && group.SuspendPath(at) != nil {
				l.suspend = at
			}
			return l
		}
		at = of.Controller
	}
	return l
}
