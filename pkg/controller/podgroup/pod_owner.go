package podgroup

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/group"
)

// A podOwner is a Job, a ReplicaSet or a StatefulSet. It controls
// pods, and the object that the group is named for may control it.
type podOwner struct {
	client.Object
	ref      metav1.OwnerReference
	template *corev1.PodTemplateSpec
	// job is nil for a ReplicaSet or a StatefulSet.
	job *batchv1.Job
	// replicas is nil if it was left to its default.
	replicas *int32
	// sizing is the part of the spec that gives the number of pods.
	sizing any
	// topUID is the UID of the object for which the group of its pods is named.
	topUID types.UID
}

// asPodOwner returns false for nil and for an object of another kind.
func asPodOwner(obj client.Object) (podOwner, bool) {
	if obj == nil {
		return podOwner{}, false
	}
	ref := metav1.OwnerReference{APIVersion: appsv1.SchemeGroupVersion.String(), Name: obj.GetName(), UID: obj.GetUID()}
	switch o := obj.(type) {
	case *batchv1.Job:
		ref.APIVersion, ref.Kind = batchv1.SchemeGroupVersion.String(), "Job"
		sizing := map[string]*int32{"parallelism": o.Spec.Parallelism, "completions": o.Spec.Completions}
		return podOwner{Object: o, ref: ref, template: &o.Spec.Template, job: o, replicas: o.Spec.Parallelism, sizing: sizing}, true
	case *appsv1.ReplicaSet:
		ref.Kind = "ReplicaSet"
		return podOwner{Object: o, ref: ref, template: &o.Spec.Template, replicas: o.Spec.Replicas, sizing: map[string]*int32{"replicas": o.Spec.Replicas}}, true
	case *appsv1.StatefulSet:
		ref.Kind = "StatefulSet"
		sizing := map[string]any{"replicas": o.Spec.Replicas, "podManagementPolicy": o.Spec.PodManagementPolicy}
		return podOwner{Object: o, ref: ref, template: &o.Spec.Template, replicas: o.Spec.Replicas, sizing: sizing}, true
	default:
		return podOwner{}, false
	}
}

func (p podOwner) owner() group.Owner { return group.OwnerOf(p.ref) }

// pod returns a pod as the podOwner creates it, with only the fields that decide its group.
func (p podOwner) pod() *corev1.Pod {
	ref := p.ref
	ref.Controller = new(true)
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.GetNamespace(), Labels: p.template.Labels, Annotations: p.template.Annotations,
		OwnerReferences: []metav1.OwnerReference{ref},
	}, Spec: corev1.PodSpec{SchedulingGroup: p.template.Spec.SchedulingGroup}}
}

// size returns the number of pods that the podOwner wants. The error can be shown to users.
func (p podOwner) size() (group.Size, error) {
	spec, err := json.Marshal(p.sizing)
	if err != nil {
		return group.Size{}, fmt.Errorf("encode the spec of %s %s: %w", p.ref.Kind, p.ref.Name, err)
	}
	return group.DefaultSize(p.owner(), spec, p.template.Spec.SchedulerName)
}

// idle reports whether the podOwner wants 0 pods, as the
// ReplicaSets of earlier revisions of a Deployment do.
func (p podOwner) idle() bool { return p.replicas != nil && *p.replicas == 0 }

// hasEnded reports whether the podOwner is a Job that has ended.
func (p podOwner) hasEnded() bool {
	return p.job != nil && (jobIs(p.job, batchv1.JobComplete) || jobIs(p.job, batchv1.JobFailed))
}

// activePodOwners returns the podOwners that want pods now. If none does, it returns the newest.
func activePodOwners(podOwners []podOwner) []podOwner {
	var busy []podOwner
	newest := -1
	for i, p := range podOwners {
		if !p.idle() {
			busy = append(busy, p)
		}
		if newest < 0 || p.GetCreationTimestamp().After(podOwners[newest].GetCreationTimestamp().Time) {
			newest = i
		}
	}
	if len(busy) == 0 && newest >= 0 {
		return podOwners[newest : newest+1]
	}
	return busy
}

// donePods returns the number of pods of a Job that the Job will not create again. With
// spec.completions a Job creates only as many pods as completions are left after the succeeded ones
// and the failed indexes. Without spec.completions it replaces no pod that has succeeded.
func (p podOwner) donePods() int32 {
	if p.job == nil {
		return 0
	}
	size, err := p.size()
	switch succeeded := p.job.Status.Succeeded; {
	case err != nil:
		return 0
	case p.hasEnded():
		return size.Size
	case p.job.Spec.Completions != nil:
		left := int64(*p.job.Spec.Completions) - int64(succeeded) - countIndexes(ptr.Deref(p.job.Status.FailedIndexes, ""))
		return size.Size - int32(min(int64(size.Size), max(0, left)))
	default:
		return min(size.Size, succeeded)
	}
}

// countIndexes returns the number of indexes in a text such as "1,3-5,7". It does not count an item
// that is neither an index nor a range.
func countIndexes(text string) int64 {
	var n int64
	for item := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(item, "-")
		if !isRange {
			to = from
		}
		first, err := strconv.ParseUint(from, 10, 31)
		last, err2 := strconv.ParseUint(to, 10, 31)
		if err == nil && err2 == nil && first <= last {
			n += int64(last-first) + 1
		}
	}
	return n
}
