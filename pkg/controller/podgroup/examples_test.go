package podgroup_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// example creates the object of an example whose operator does not run here. It asks for the scheduler
// of the test.
func (e *env) example(name string) *unstructured.Unstructured {
	e.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "manifests", "examples", "operators", name))
	if err != nil {
		e.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(string(text), "schedulerName: fluence", "schedulerName: "+e.ns)), &obj.Object); err != nil {
		e.Fatal(err)
	}
	obj.SetNamespace(e.ns)
	e.create(obj)
	return obj
}

// makePods makes the pods that an operator makes from a part of an object with a pod template.
func (e *env) makePods(of client.Object, part map[string]any, role string, n int) {
	e.Helper()
	fields, _, err := unstructured.NestedMap(part, "template")
	if err != nil {
		e.Fatal(err)
	}
	var template corev1.PodTemplateSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &template); err != nil {
		e.Fatal(err)
	}
	gvk := of.GetObjectKind().GroupVersionKind()
	for i := range n {
		e.create(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: e.ns, Name: fmt.Sprintf("%s-%s-%d", of.GetName(), role, i), OwnerReferences: by(gvk.GroupVersion().String(), gvk.Kind, of)},
			Spec:       template.Spec,
		})
	}
}

// part returns a map in an object.
func part(t *testing.T, obj map[string]any, fields ...string) map[string]any {
	t.Helper()
	m, found, err := unstructured.NestedMap(obj, fields...)
	if err != nil || !found {
		t.Fatalf("%v: found %t, error %v", fields, found, err)
	}
	return m
}

// makeRayPods makes the pods of a RayCluster with one worker group.
func (e *env) makeRayPods(ray *unstructured.Unstructured, workers int) {
	e.Helper()
	groups, _, err := unstructured.NestedSlice(ray.Object, "spec", "workerGroupSpecs")
	if err != nil || len(groups) != 1 {
		e.Fatalf("%d worker groups, error %v", len(groups), err)
	}
	e.makePods(ray, part(e.T, ray.Object, "spec", "headGroupSpec"), "head", 1)
	e.makePods(ray, groups[0].(map[string]any), "workers", workers)
}

func TestTheExampleOfARayCluster(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	ray := e.example("raycluster.yaml")
	e.makeRayPods(ray, 6)
	e.untilSized(nameFor("ray.io/v1", "RayCluster", ray), 7, 7)
}

func TestTheExampleOfAPyTorchJob(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	torch := e.example("pytorchjob.yaml")
	e.makePods(torch, part(t, torch.Object, "spec", "pytorchReplicaSpecs", "Master"), "master", 1)
	e.makePods(torch, part(t, torch.Object, "spec", "pytorchReplicaSpecs", "Worker"), "worker", 7)
	e.untilSized(nameFor("kubeflow.org/v1", "PyTorchJob", torch), 8, 8)
}

// The RayCluster of a RayJob is a group, and the Job that submits the work is no part of it: it is a group
// of its own if it asks for the scheduler. When a RayJob is suspended both are deleted, and nothing is left
// of their groups.
func TestTheExampleOfARayJob(t *testing.T) {
	t.Parallel()
	const apiVersion = "ray.io/v1"
	e := newEnv(t, nil)
	job := e.example("rayjob.yaml")
	ray := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": "RayCluster", "spec": part(t, job.Object, "spec", "rayClusterSpec")}}
	ray.SetNamespace(e.ns)
	ray.SetName("tune-x7k2p")
	ray.SetOwnerReferences(by(apiVersion, "RayJob", job))
	e.create(ray)
	e.makeRayPods(ray, 2)
	cluster := nameFor(apiVersion, "RayCluster", ray)
	pg := e.untilSized(cluster, 3, 3)
	if o := pg.OwnerReferences; len(o) != 1 || o[0].UID != ray.GetUID() {
		t.Errorf("owners %+v, want the RayCluster", o)
	}
	submitter := func(name string, edit func(*batchv1.Job)) *batchv1.Job {
		return e.job(name, 1, "", func(j *batchv1.Job) {
			j.OwnerReferences = by(apiVersion, "RayJob", job)
			edit(j)
		})
	}
	elsewhere := submitter("tune", func(j *batchv1.Job) { j.Spec.Template.Spec.SchedulerName = corev1.DefaultSchedulerName })
	alone := submitter("alone", func(*batchv1.Job) {})
	e.untilSized(nameFor("batch/v1", "Job", alone), 1, 1)
	e.onlyGroups(cluster, nameFor("batch/v1", "Job", alone))
	for _, obj := range []client.Object{ray, elsewhere, alone} {
		e.delete(obj)
	}
	e.untilGone(cluster)
	e.untilGone(nameFor("batch/v1", "Job", alone))
	e.onlyGroups()
}
