package simulate

import (
	"fmt"
	"maps"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	apicorev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
)

// valid returns the errors for which the API server would reject a
// pod. path is the path of the pod's spec in the object of the file.
func valid(pod *corev1.Pod, path string) error {
	pod = pod.DeepCopy()
	// Names that are made up stand for valid ones.
	right := strings.NewReplacer("#", "-")
	pod.Name, pod.Labels = right.Replace(pod.Name), maps.Clone(pod.Labels)
	for _, key := range []string{batchv1.JobNameLabel, "job-name"} {
		if name, ok := pod.Labels[key]; ok {
			pod.Labels[key] = right.Replace(name)
		}
	}
	mergeLabelKeys(pod)
	var internal core.Pod
	if err := apicorev1.Convert_v1_Pod_To_core_Pod(pod, &internal, nil); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	errs := corevalidation.ValidatePodCreate(&internal, podutil.GetValidationOptionsFromPodSpecAndMeta(&internal.Spec, nil, &internal.ObjectMeta, nil))
	for _, e := range errs {
		if below, ok := strings.CutPrefix(e.Field, "spec"); ok {
			e.Field = path + below
		}
	}
	return errs.ToAggregate()
}
