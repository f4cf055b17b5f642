package cli

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/admission"
	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// readRooms returns the room of jobs in queues that no pod has taken, as seats by node. It returns none if the API server serves no
// FluxJobs, and with a note if the user may not read them.
func (r *reader) readRooms(ctx context.Context, ns *namespace) (map[string][]seatsOnNode, error) {
	jobs, err := r.readJobsBeside(ctx, "room that jobs of queues have, and that no pod has taken yet, counts as free")
	return roomsByNode(jobs, ns), err
}

// roomsByNode returns the room of jobs that no pod has taken, as seats by node.
func roomsByNode(jobs []*v1alpha1.FluxJob, ns *namespace) map[string][]seatsOnNode {
	rooms := map[types.UID]*v1alpha1.FluxJob{} // by workload
	for _, fj := range jobs {
		if p := fj.Status.Phase; fj.Status.Allocation != nil && (p == v1alpha1.Ready || p == v1alpha1.Running) {
			rooms[fj.Spec.Workload.UID] = fj
		}
	}
	if len(rooms) == 0 {
		return nil
	}
	placed, succeeded, gone := map[types.UID][]string{}, map[types.UID]int{}, map[types.UID]bool{}
	for _, pod := range ns.pods {
		of := pod.UID
		if c := group.ControllerOf(pod); c != (group.Owner{}) {
			of = c.UID
		}
		if rooms[of] == nil {
			continue
		}
		switch {
		case translate.Holds(pod):
			placed[of] = append(placed[of], pod.Spec.NodeName)
		case pod.Status.Phase == corev1.PodSucceeded:
			succeeded[of]++
		}
		gone[of] = of == pod.UID && (whyEnded(pod) != "" || pod.DeletionTimestamp != nil)
	}
	owners := map[types.UID]*batchv1.Job{}
	for _, job := range ofType[*batchv1.Job](ns.owners) {
		owners[job.UID] = job
	}
	on := map[string][]seatsOnNode{}
	for of, fj := range rooms {
		slots, err := fj.Status.Allocation.Nodes()
		if err != nil || gone[of] {
			continue // what cannot be read is no room
		}
		toCome := len(slots) - len(placed[of])
		if job := owners[of]; job != nil && fj.Status.Phase == v1alpha1.Running {
			toCome = admission.PodsOf(job, max(int(job.Status.Succeeded), succeeded[of])) - len(placed[of])
		}
		name, requests := fj.Namespace+"/"+fj.Name, requestsOfOne(fj)
		if fj.Spec.Workload.Kind == "Pod" {
			name = fj.Namespace + "/" + fj.Spec.Workload.Name
		}
		wholly, _ := group.ExclusiveRequest(fj.Spec.Placement)
		left := map[string]int{}
		for i, is := range admission.Untaken(slots, placed[of], max(0, toCome)) {
			if is {
				left[slots[i]]++
			}
		}
		for node, n := range left {
			on[node] = append(on[node], seatsOnNode{name, n, requests, wholly != ""})
		}
	}
	return on
}

// requestsOfOne returns what one pod of a job requests.
func requestsOfOne(fj *v1alpha1.FluxJob) translate.Amounts {
	return translate.Requests(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: fj.Spec.Requests}}}}})
}
