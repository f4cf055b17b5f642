package chaos

import (
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flux-k8s/fluence/test/cluster/kubelet"
)

// These are the names that users write, by docs/groups.md.
const (
	schedulerName     = "fluence"
	groupLabel        = "scheduling.x-k8s.io/pod-group"
	sizeLabel         = "fluence.group-size"
	minLabel          = "fluence.group-min"
	policyAnnotation  = "fluence.flux-framework.org/match-policy"
	lostAnnotation    = "fluence.flux-framework.org/incomplete-policy"
	timeoutAnnotation = "fluence.flux-framework.org/incomplete-timeout"
)

// gpu is a resource that only some nodes have.
const gpu = corev1.ResourceName("nvidia.com/gpu")

// workloadLabel has the name of the workload on each of its pods, so that the pods can be found.
const workloadLabel = "chaos"

// serialLabel distinguishes workloads that have the same name one after the other.
const serialLabel = "chaos-serial"

// podTemplate returns a member's pod, with a shape.
func (w Workload) podTemplate(name string, s Shape) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{workloadLabel: name, serialLabel: strconv.Itoa(w.serial)},
			Annotations: w.annotations(),
		},
		Spec: corev1.PodSpec{
			SchedulerName:                 schedulerName,
			TerminationGracePeriodSeconds: new(int64(1)),
			PriorityClassName:             priorityClass(w.Priority),
			Containers:                    []corev1.Container{{Name: "main", Image: "none", Resources: s.resources()}},
		},
	}
	t.Spec.ActiveDeadlineSeconds = atMost(w.Deadline)
	if w.Min > 0 {
		t.Labels[minLabel] = strconv.Itoa(w.Min)
	}
	w.Stand.put(&t)
	if w.Zone >= 0 {
		t.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: zoneName(w.Zone)}
	}
	return t
}

func (w Workload) annotations() map[string]string {
	a := map[string]string{}
	if !w.saidByPodGroup() {
		a = w.Stand.annotations()
	}
	if w.Policy != "" {
		a[policyAnnotation] = w.Policy
	}
	if w.Incomplete != "" {
		a[lostAnnotation] = w.Incomplete
	}
	if w.Patience > 0 {
		a[timeoutAnnotation] = w.Patience.String()
	}
	if w.Duration > 0 {
		a[durationAnnotation] = fmt.Sprintf("%.0fs", w.Duration.Seconds())
	}
	if w.RunFor > 0 {
		key := kubelet.RunFor
		if w.Fails {
			key = kubelet.FailAfter
		}
		a[key] = w.RunFor.String()
	}
	return a
}

func (s Shape) resources() corev1.ResourceRequirements {
	list := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(s.MilliCPU), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(s.MiB)<<20, resource.BinarySI),
	}
	if s.GPUs == 0 {
		return corev1.ResourceRequirements{Requests: list}
	}
	list[gpu] = *resource.NewQuantity(int64(s.GPUs), resource.DecimalSI)
	return corev1.ResourceRequirements{Requests: list, Limits: corev1.ResourceList{gpu: list[gpu]}}
}

// priorityClass returns the name of the class with this priority, "" for 0.
func priorityClass(p int32) string {
	switch {
	case p > 0:
		return fmt.Sprintf("plus-%d", p)
	case p < 0:
		return fmt.Sprintf("minus-%d", -p)
	default:
		return ""
	}
}

func (w Workload) job(meta metav1.ObjectMeta) *batchv1.Job {
	t := w.podTemplate(meta.Name, w.Worker)
	t.Spec.RestartPolicy = corev1.RestartPolicyNever
	w.enter(&meta, &t.ObjectMeta)
	return &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{
		Parallelism:             new(int32(w.Workers)),
		Completions:             new(int32(w.Workers)),
		BackoffLimit:            new(int32(1000)),
		ActiveDeadlineSeconds:   atMost(w.JobDeadline),
		TTLSecondsAfterFinished: new(int32(5)),
		PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
			Action:          batchv1.PodFailurePolicyActionIgnore,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
		}}},
		Template: t,
	}}
}

func (w Workload) statefulSet(meta metav1.ObjectMeta) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{
		Replicas:            new(int32(w.Workers)),
		ServiceName:         meta.Name,
		PodManagementPolicy: appsv1.ParallelPodManagement,
		Selector:            &metav1.LabelSelector{MatchLabels: map[string]string{workloadLabel: meta.Name}},
		Template:            w.podTemplate(meta.Name, w.Worker),
	}}
}

func (w Workload) deployment(meta metav1.ObjectMeta) *appsv1.Deployment {
	t := w.podTemplate(meta.Name, w.Worker)
	t.Labels[sizeLabel] = strconv.Itoa(w.Workers)
	return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(w.Workers)),
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{workloadLabel: meta.Name}},
		Template: t,
	}}
}

// members returns the bare pods of a group, or the lone pod.
func (w Workload) members(name string) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range w.Size() {
		pods = append(pods, w.member(name, fmt.Sprintf("%s-%d", name, i), i))
	}
	return pods
}

// saidByPodGroup reports whether the PodGroup has the annotations on how the group is placed.
func (w Workload) saidByPodGroup() bool { return w.OwnPodGroup && w.Stand.OnPodGroup }

// member returns the i-th pod.
func (w Workload) member(group, pod string, i int) *corev1.Pod {
	t := w.podTemplate(group, w.shape(i))
	t.Name = pod
	t.Labels[memberLabel] = strconv.Itoa(i)
	w.enter(&t.ObjectMeta, nil)
	if w.Stand.Tolerant > 0 && i%w.Stand.Tolerant == 0 {
		t.Spec.Tolerations = []corev1.Toleration{{Key: taintKey, Operator: corev1.TolerationOpExists}}
	}
	switch {
	case w.isNative():
		t.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	case w.Maker == Pods:
		t.Labels[groupLabel] = group
		if !w.OwnPodGroup {
			t.Labels[sizeLabel] = strconv.Itoa(w.Size())
		}
	}
	return &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
}

// podGroup returns the PodGroup that the user creates.
func (w Workload) podGroup(name string) *unstructured.Unstructured {
	least := w.Size()
	if w.Min > 0 {
		least = w.Min
	}
	meta := map[string]any{"name": name}
	if w.saidByPodGroup() {
		said := map[string]any{}
		for key, value := range w.Stand.annotations() {
			said[key] = value
		}
		meta["annotations"] = said
	}
	if w.isNative() {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": nativePodGroups.GroupVersion().String(),
			"kind":       "PodGroup",
			"metadata":   meta,
			"spec": map[string]any{
				"schedulingPolicy":  map[string]any{"gang": map[string]any{"minCount": int64(least)}},
				"priorityClassName": priorityClass(w.Priority),
			},
		}}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.x-k8s.io/v1alpha1",
		"kind":       "PodGroup",
		"metadata":   meta,
		"spec":       map[string]any{"minMember": int64(least)},
	}}
}
