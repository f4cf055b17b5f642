package podgroup

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/group"
)

// wanted is what the labels of a group ask for.
type wanted struct {
	minMember int32
	// message tells the size in words, or what is wrong with it.
	message string
	valid   bool
}

// wantedSize reads the labels of a group: those of the Job's pod template, else
// those of the pods. Where they are wrong, or nobody is left to say, the
// PodGroup's minMember stays what it is. That of a user's PodGroup always does.
func (c Config) wantedSize(o observed) wanted {
	size, err := o.labelled()
	if o.podGroup != nil && (err != nil || size == group.Size{} || !c.madeHere(o.podGroup)) {
		least := max(1, o.podGroup.Spec.MinMember)
		size = group.Size{Size: max(least, size.Size), Min: least}
	}
	size = size.WithDefault(1)
	w := wanted{minMember: size.Min, valid: err == nil}
	if o.podGroup != nil && c.madeHere(o.podGroup) {
		w.minMember = o.left(size.Min)
	}
	if err != nil {
		w.message = err.Error()
	} else {
		w.message = fmt.Sprintf("minMember %d, size %d", size.Min, size.Size)
	}
	return w
}

// left returns how many pods a Job's group can still start with: a Job that is
// nearly done makes no more pods than it has completions left. It counts only
// while a pod waits for a node, and does not rise again: a Job that is just
// running out is not written to for each pod that ends.
func (o observed) left(least int32) int32 {
	if o.job == nil || o.job.Spec.Completions == nil || o.job.Status.Succeeded == 0 {
		return least
	}
	left := max(1, min(least, *o.job.Spec.Completions-o.job.Status.Succeeded))
	for _, pod := range o.pods {
		if pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && !ended(pod) {
			return left
		}
	}
	return max(left, min(least, o.podGroup.Spec.MinMember))
}

// labelled returns the size that the Job or the pods ask for; the zero Size
// where none of the pods says one.
func (o observed) labelled() (group.Size, error) {
	if o.job != nil {
		size, err := group.SizeOf(o.job.Spec.Template.Labels)
		if err != nil {
			return group.Size{}, err
		}
		return size.WithDefault(group.JobSize(o.job.Spec.Parallelism, o.job.Spec.Completions)), nil
	}
	var staying []*corev1.Pod
	for _, pod := range o.pods {
		if pod.DeletionTimestamp == nil {
			staying = append(staying, pod)
		}
	}
	return group.SizeOfPods(staying)
}
