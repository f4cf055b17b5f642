package e2e

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/test/cluster/kubelet"
)

// createInBurst creates the object of a group, or all its bare pods.
func (s *story) createInBurst(ctx context.Context, g *burstGroup) error {
	c, meta, o := s.Client(), metav1.ObjectMeta{Name: g.name}, metav1.CreateOptions{}
	n, t := new(int32(g.size)), g.template()
	selector := &metav1.LabelSelector{MatchLabels: t.Labels}
	var err error
	switch g.kind {
	case "Job":
		_, err = c.BatchV1().Jobs(s.ns).Create(ctx, &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Parallelism: n, Completions: n, Template: t}}, o)
	case "StatefulSet":
		_, err = c.AppsV1().StatefulSets(s.ns).Create(ctx, &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{
			Replicas: n, Selector: selector, Template: t, PodManagementPolicy: appsv1.ParallelPodManagement,
		}}, o)
	case "Deployment":
		_, err = c.AppsV1().Deployments(s.ns).Create(ctx, &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: n, Selector: selector, Template: t}}, o)
	default:
		for i := range g.size {
			pod := &corev1.Pod{ObjectMeta: *t.ObjectMeta.DeepCopy(), Spec: t.Spec}
			pod.Name = fmt.Sprintf("%s-%d", g.name, i)
			pod.Labels[group.Label], pod.Labels[group.SizeLabel] = g.name, fmt.Sprint(g.size)
			if _, err = c.CoreV1().Pods(s.ns).Create(ctx, pod, o); err != nil {
				return err
			}
		}
	}
	return err
}

// template returns the template of the group's pods, of one CPU
// each. Pods that would be replaced after their end run for ever.
func (g *burstGroup) template() corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{burstLabel: g.name}},
		Spec: corev1.PodSpec{SchedulerName: "fluence", Containers: []corev1.Container{{
			Name: "main", Image: "busybox",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("1")}},
		}}},
	}
	if g.ends() {
		t.Spec.RestartPolicy = corev1.RestartPolicyNever
		t.Annotations = map[string]string{kubelet.RunFor: burstRun.String()}
	}
	return t
}

// ends reports whether the group's pods end by themselves.
func (g *burstGroup) ends() bool { return g.kind == "Job" || g.kind == "Pod" }

// deleteInBurst deletes what createInBurst created. It ignores what is gone already.
func (s *story) deleteInBurst(ctx context.Context, g *burstGroup) error {
	c, o := s.Client(), metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	var err error
	switch g.kind {
	case "Job":
		err = c.BatchV1().Jobs(s.ns).Delete(ctx, g.name, o)
	case "StatefulSet":
		err = c.AppsV1().StatefulSets(s.ns).Delete(ctx, g.name, o)
	case "Deployment":
		err = c.AppsV1().Deployments(s.ns).Delete(ctx, g.name, o)
	default:
		err = c.CoreV1().Pods(s.ns).DeleteCollection(ctx, o, metav1.ListOptions{LabelSelector: burstLabel + "=" + g.name})
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
