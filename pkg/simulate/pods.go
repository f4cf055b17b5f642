package simulate

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apicorev1 "k8s.io/kubernetes/pkg/apis/core/v1"

	"github.com/flux-k8s/fluence/pkg/group"
)

// addPod adds a pod with what the API server fills in.
// path is the path of its spec in the object of the file.
func (w *Additions) addPod(pod *corev1.Pod, path string) error {
	apicorev1.SetObjectDefaults_Pod(pod)
	if pod.Spec.SchedulerName != w.scheduler {
		w.note("%s: %s.schedulerName is %q: not simulated; Fluence's is %q", w.about, path, pod.Spec.SchedulerName, w.scheduler)
		return nil
	}
	if gates := pod.Spec.SchedulingGates; len(gates) > 0 {
		var names []string
		for _, g := range gates {
			names = append(names, g.Name)
		}
		w.note("%s: %s.schedulingGates: simulated as if the gates were removed: %s", w.about, path, strings.Join(names, ", "))
		pod.Spec.SchedulingGates = nil
	}
	if pod.Spec.NodeName != "" {
		return fmt.Errorf("%s.nodeName: %q: a pod that names its node is not scheduled", path, pod.Spec.NodeName)
	}
	if err := w.prioritise(pod, path); err != nil {
		return err
	}
	if err := valid(pod, path); err != nil {
		return err
	}
	mergeLabelKeys(pod)
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	if err := w.addVolumes(pod); err != nil {
		return err
	}
	if err := w.addDevices(pod, path); err != nil {
		return err
	}
	w.pods = append(w.pods, pod)
	w.Objects = append(w.Objects, pod)
	return nil
}

// prioritise sets a pod's priority from its class, or from the default class.
func (w *Additions) prioritise(pod *corev1.Pod, path string) error {
	class, err := w.priorityClass(pod.Spec.PriorityClassName, path)
	if class != nil {
		pod.Spec.Priority, pod.Spec.PreemptionPolicy = &class.Value, class.PreemptionPolicy
	}
	return err
}

// priorityClass returns the class of a name, or the default class if the name is
// empty. It returns nil if there is no default class. path is the path to the name.
func (w *Additions) priorityClass(name, path string) (*schedulingv1.PriorityClass, error) {
	for o := range w.all() {
		class, ok := o.(*schedulingv1.PriorityClass)
		if ok && (class.Name == name || name == "" && class.GlobalDefault) {
			return class, nil
		}
	}
	if name != "" {
		return nil, fmt.Errorf("%s.priorityClassName: %q: there is no such PriorityClass, or it cannot be read", path, name)
	}
	return nil, nil
}

// podFromTemplate creates a pod from a template.
func (w *Additions) podFromTemplate(t corev1.PodTemplateSpec, namespace, name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: *t.ObjectMeta.DeepCopy(), Spec: *t.Spec.DeepCopy()}
	pod.Namespace, pod.Name = namespace, name
	pod.Labels, pod.Annotations = maps.Clone(pod.Labels), maps.Clone(pod.Annotations)
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	w.setMetadata(pod)
	return pod
}

// size records the size of an owner's group, and returns the number of its pods.
func (w *Additions) size(o group.Owner, spec any) (int, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return 0, fmt.Errorf("encode spec: %w", err)
	}
	size, err := group.DefaultSize(o, text, w.scheduler)
	if err != nil {
		return 0, err
	}
	native, err := group.NativeSizes(o, nil, text, w.scheduler)
	if err != nil {
		return 0, err
	}
	for _, one := range native {
		size = one // the owners of a file have one pod template each
	}
	w.sizes[o.UID] = size
	return int(size.Size), nil
}

func (w *Additions) addJob(job *batchv1.Job, path string) error {
	if job.UID == "" {
		w.setMetadata(job)
	}
	if s := job.Spec.Suspend; s != nil && *s {
		w.note("Job %s is suspended; simulated as if it were resumed", job.Name)
	}
	if p := job.Spec.Template.Spec.RestartPolicy; p != corev1.RestartPolicyOnFailure && p != corev1.RestartPolicyNever {
		return fmt.Errorf("%s.restartPolicy: %q: must be OnFailure or Never in a Job", path, p)
	}
	w.owners.put(job)
	w.Objects = append(w.Objects, job)
	n, err := w.size(group.Owner{Group: "batch", Kind: "Job", Name: job.Name, UID: job.UID}, job.Spec)
	if err != nil {
		return err
	}
	indexed := job.Spec.CompletionMode != nil && *job.Spec.CompletionMode == batchv1.IndexedCompletion
	for i := range orZero(job.Spec.Parallelism, n) {
		pod := w.podFromTemplate(job.Spec.Template, job.Namespace, madeUp(job.Name, i))
		maps.Copy(pod.Labels, map[string]string{
			batchv1.JobNameLabel: job.Name, "job-name": job.Name,
			batchv1.ControllerUidLabel: string(job.UID), "controller-uid": string(job.UID),
		})
		if indexed {
			index := strconv.Itoa(i)
			pod.Labels[batchv1.JobCompletionIndexAnnotation] = index
			pod.Annotations[batchv1.JobCompletionIndexAnnotation] = index
		}
		w.setOwner(pod, job, "batch/v1", "Job")
		if err := w.addPod(pod, path); err != nil {
			return err
		}
	}
	return nil
}

func (w *Additions) addStatefulSet(set *appsv1.StatefulSet) error {
	w.owners.put(set)
	w.Objects = append(w.Objects, set)
	n, err := w.size(group.Owner{Group: "apps", Kind: "StatefulSet", Name: set.Name, UID: set.UID}, set.Spec)
	if err != nil {
		return err
	}
	if n > 1 && set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
		w.note("StatefulSet %s creates its pods one by one; simulated as if all %d existed", set.Name, n)
	}
	for i := range orZero(set.Spec.Replicas, n) {
		name := set.Name + "-" + strconv.Itoa(i)
		pod := w.podFromTemplate(set.Spec.Template, set.Namespace, name)
		if err := w.names.take(pod); err != nil {
			return fmt.Errorf("pod %s: %s", name, err.Error()) // the set is new, and is not left out
		}
		pod.Labels[appsv1.StatefulSetPodNameLabel], pod.Labels[appsv1.PodIndexLabel] = name, strconv.Itoa(i)
		w.setOwner(pod, set, "apps/v1", "StatefulSet")
		w.addClaims(set, pod)
		if err := w.addPod(pod, "spec.template.spec"); err != nil {
			return err
		}
	}
	return nil
}

// orZero returns n, or 0 if replicas is 0, because a group's size is never 0.
func orZero(replicas *int32, n int) int {
	if replicas != nil && *replicas == 0 {
		return 0
	}
	return n
}

// addClaims adds the claims of a StatefulSet's pod that do not exist yet.
func (w *Additions) addClaims(set *appsv1.StatefulSet, pod *corev1.Pod) {
	for _, t := range set.Spec.VolumeClaimTemplates {
		name := t.Name + "-" + pod.Name
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: t.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}})
		claim := t.DeepCopy()
		claim.Namespace, claim.Name = pod.Namespace, name
		if w.names.take(claim) != nil {
			continue
		}
		w.setMetadata(claim)
		w.setDefaults(claim)
		w.Objects = append(w.Objects, claim)
	}
}

func (w *Additions) addDeployment(u *unstructured.Unstructured) error {
	d := &appsv1.Deployment{}
	if err := w.read(u, d); err != nil {
		return err
	}
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: madeUp(d.Name, "next"), Labels: maps.Clone(d.Spec.Template.Labels)},
		Spec:       appsv1.ReplicaSetSpec{Replicas: d.Spec.Replicas, Selector: d.Spec.Selector, Template: *d.Spec.Template.DeepCopy()},
	}
	w.setMetadata(set)
	w.setOwner(set, d, "apps/v1", "Deployment")
	return w.addReplicaSet(set, group.Owner{Group: "apps", Kind: "Deployment", Name: d.Name, UID: d.UID})
}

// addReplicaSet adds a ReplicaSet whose pods are in the group of top.
func (w *Additions) addReplicaSet(set *appsv1.ReplicaSet, top group.Owner) error {
	w.owners.put(set)
	w.Objects = append(w.Objects, set)
	n, err := w.size(top, set.Spec)
	if err != nil {
		return err
	}
	for i := range orZero(set.Spec.Replicas, n) {
		pod := w.podFromTemplate(set.Spec.Template, set.Namespace, madeUp(set.Name, i))
		w.setOwner(pod, set, "apps/v1", "ReplicaSet")
		if err := w.addPod(pod, "spec.template.spec"); err != nil {
			return err
		}
	}
	return nil
}
