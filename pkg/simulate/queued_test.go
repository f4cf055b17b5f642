package simulate

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/test/objects"
)

// Jobs that are let go ask for nodes of their queue in its order, for as long as they may run. The first that waits is promised
// both nodes of the queue when the job ends that has room on one of them, and the next starts after it.
func TestJobsThatAreLetGo(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	queue := &v1alpha1.Queue{Spec: v1alpha1.QueueSpec{
		Requires: &metav1.LabelSelector{MatchLabels: map[string]string{"partition": "batch"}}, Defaults: v1alpha1.QueueDefaults{Duration: "10m"},
	}}
	var cluster Cluster
	for _, name := range []string{"n0", "n1", "n2"} {
		cluster.Objects = append(cluster.Objects, objects.ReadyNode(name, 4, func(n *corev1.Node) {
			if name != "n2" {
				n.Labels["partition"] = "batch"
			}
		}))
	}
	var jobs []QueuedJob
	add := func(o runtime.Object, kind string, pods int32, age time.Duration, change func(*v1alpha1.FluxJob)) *v1alpha1.FluxJob {
		m := o.(metav1.Object)
		fj := &v1alpha1.FluxJob{ObjectMeta: metav1.ObjectMeta{UID: "fj-" + m.GetUID(), CreationTimestamp: metav1.NewTime(noon.Add(-age))}}
		fj.Spec.Workload = v1alpha1.WorkloadReference{Kind: kind, Name: m.GetName(), UID: m.GetUID()}
		fj.Spec.Pods = pods
		change(fj)
		cluster.Objects, jobs = append(cluster.Objects, o), append(jobs, QueuedJob{fj, queue})
		return fj
	}
	job := func(name string, change ...func(*corev1.Pod)) *batchv1.Job {
		p := objects.Pod(name, append(change, objects.CPU("4"))...)
		p.Spec.TerminationGracePeriodSeconds = new(int64(0))
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: name, UID: p.UID}}
		j.Spec.Suspend, j.Spec.Template.Spec = new(true), p.Spec
		return j
	}
	ready := add(job("ready"), "Job", 1, time.Hour, func(fj *v1alpha1.FluxJob) {
		fj.Status.Allocation = &v1alpha1.JobAllocation{Seats: []v1alpha1.Seats{{Hosts: "n0", Each: 1}}}
	})
	first := add(job("first"), "Job", 2, time.Minute, func(fj *v1alpha1.FluxJob) { fj.Spec.Duration, fj.Spec.Priority = "30m", 5 })
	gated := objects.Pod("single", objects.CPU("4"), func(p *corev1.Pod) {
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.QueueGate}}
		p.Spec.ActiveDeadlineSeconds = new(int64(60))
	})
	single := add(gated, "Pod", 1, time.Hour, func(fj *v1alpha1.FluxJob) { fj.Spec.Duration = "2h" })
	wrong := add(job("wrong"), "Job", 1, 2*time.Hour, func(fj *v1alpha1.FluxJob) { fj.Spec.Duration = "x" })

	let, pods := cluster.LetGo(jobs, noon)
	if n := len(pods[wrong.UID]); n > 0 {
		t.Errorf("a job with a wrong time limit has %d pods", n)
	}
	if p := pods[ready.UID]; len(p) != 1 || p[0].Spec.NodeName != "n0" || *p[0].Spec.ActiveDeadlineSeconds != 600 {
		t.Errorf("the job with room has the pods %+v", p)
	}
	if p := pods[single.UID]; len(p) != 1 || len(p[0].Spec.SchedulingGates) > 0 || *p[0].Spec.ActiveDeadlineSeconds != 60 {
		t.Errorf("the single pod is %+v", p)
	}
	if len(gated.Spec.SchedulingGates) != 1 || !*cluster.Objects[3].(*batchv1.Job).Spec.Suspend {
		t.Error("the cluster that was read has changed")
	}
	configuration, err := Shipped()
	if err == nil {
		configuration, err = configuration.WithDepth(10)
	}
	if err != nil {
		t.Fatal(err)
	}
	starts, err := When(t.Context(), let, configuration, append(pods[first.UID], pods[single.UID]...), noon)
	if err != nil || len(starts) != 2 {
		t.Fatalf("%d starts, error %v", len(starts), err)
	}
	// The single pod ends before the promise of the first job, on the free node of the queue.
	if got := starts[0]; got.Starts || !got.From.Equal(noon.Add(10*time.Minute)) || len(got.Nodes) != 2 {
		t.Errorf("the first job: %+v", got)
	}
	if got := starts[1]; !got.Starts || got.Placements[0].Node != "n1" {
		t.Errorf("the single pod: %+v", got)
	}
}
