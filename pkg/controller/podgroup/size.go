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
	if err != nil {
		w.message = err.Error()
	} else {
		w.message = fmt.Sprintf("minMember %d, size %d", size.Min, size.Size)
	}
	return w
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
