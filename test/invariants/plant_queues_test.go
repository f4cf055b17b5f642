package invariants_test

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/flux-k8s/fluence/test/objects"
)

const queuesAPI = "fluence.flux-framework.org"

// queues returns the client of FluxJobs or Queues.
func (p *plant) queues(resource string) dynamic.NamespaceableResourceInterface {
	p.Helper()
	client, err := dynamic.NewForConfig(p.RESTConfig())
	p.must(err)
	return client.Resource(schema.GroupVersionResource{Group: queuesAPI, Version: "v1alpha1", Resource: resource})
}

// queued creates a FluxJob of the queue small for an object, and gives it room until a time.
func (p *plant) queued(kind string, of metav1.Object, apiVersion string, end time.Time) {
	p.Helper()
	jobs := p.queues("fluxjobs").Namespace("default")
	made, err := jobs.Create(p.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": queuesAPI + "/v1alpha1", "kind": "FluxJob", "metadata": map[string]any{"name": of.GetName()},
		"spec": map[string]any{
			"queue": "small", "jobspec": "x", "pods": int64(1), "priority": int64(0),
			"workload": map[string]any{"apiVersion": apiVersion, "kind": kind, "name": of.GetName(), "uid": string(of.GetUID())},
		},
	}}, metav1.CreateOptions{})
	p.must(err)
	made.Object["status"] = map[string]any{"phase": "Running", "allocation": map[string]any{
		"attempt": int64(1), "at": time.Now().UTC().Format(metav1.RFC3339Micro), "end": end.UTC().Format(time.RFC3339),
		"seats": []any{map[string]any{"hosts": "node-0000", "each": int64(1)}},
	}}
	_, err = jobs.UpdateStatus(p.Context(), made, metav1.UpdateOptions{})
	p.must(err)
}

// breakQueues does what Fluence must not do in a queue. It returns the violations.
func (p *plant) breakQueues() []string {
	p.Helper()
	_, err := p.queues("queues").Create(p.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": queuesAPI + "/v1alpha1", "kind": "Queue", "metadata": map[string]any{"name": "small"},
		"spec": map[string]any{"limits": map[string]any{"running": int64(1)}},
	}}, metav1.CreateOptions{})
	p.must(err)
	inQueue := func(m *metav1.ObjectMeta) { m.Labels = map[string]string{queuesAPI + "/queue": "small"} }
	// A pod runs on although its room is over.
	long := p.lone("long", inQueue)
	p.queued("Pod", long, "v1", time.Now())
	p.bind("long", "node-0000")
	// Another job is given room, although one may run.
	p.queued("Pod", p.lone("more", inQueue), "v1", time.Now().Add(time.Hour))
	// A pod is bound that has no room.
	p.lone("sneaks", inQueue)
	p.bind("sneaks", "node-0000")
	// A Job is let go that has no room.
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "freed", Annotations: map[string]string{queuesAPI + "/queued": "2026-01-01T00:00:00.000000Z"}}}
	inQueue(&job.ObjectMeta)
	job.Spec = batchv1.JobSpec{Suspend: new(true), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, SchedulerName: "default-scheduler", Containers: []corev1.Container{{Name: "main", Image: "none"}},
	}}}
	_, err = p.Client().BatchV1().Jobs("default").Create(p.Context(), job, metav1.CreateOptions{})
	p.must(err)
	patch := []byte(`{"metadata":{"annotations":{"` + queuesAPI + `/queued":null}},"spec":{"suspend":false}}`)
	_, err = p.controller.BatchV1().Jobs("default").Patch(p.Context(), "freed", types.MergePatchType, patch, metav1.PatchOptions{})
	p.must(err)
	return []string{"PastDeadline default/long", "OverLimit default/more", "StartedUnadmitted default/sneaks", "StartedUnadmitted default/freed"}
}

// lone creates a pod of its own, with an event that it waits.
func (p *plant) lone(name string, edit func(*metav1.ObjectMeta)) *corev1.Pod {
	p.Helper()
	pod := objects.Pod(name, objects.In("default"), objects.CPU("1m"))
	pod.Spec.TerminationGracePeriodSeconds = new(int64(0))
	edit(&pod.ObjectMeta)
	pod, err := p.Client().CoreV1().Pods("default").Create(p.Context(), pod, metav1.CreateOptions{})
	p.must(err)
	p.tellEvent("waits-"+name, pod, "Queued", "waits for its turn")
	return pod
}
