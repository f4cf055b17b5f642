package fluence

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/match"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/objects"
)

// g is the group of most tests.
var g = types.NamespacedName{Namespace: ns, Name: "g"}

func aPodGroup(name string, minMember int32, uid types.UID) *scheduling.PodGroup {
	pg := &scheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: uid, CreationTimestamp: metav1.NewTime(time.Now())}}
	pg.Spec.MinMember = minMember
	return pg
}

// pod creates a pod.
func (r *rig) pod(name string, edit ...func(*corev1.Pod)) *corev1.Pod {
	r.Helper()
	pod := objects.Pod(name, edit...)
	r.add(pod)
	return pod
}

// remove deletes a pod.
func (r *rig) remove(name string) {
	r.Helper()
	r.removeFrom(ns, name)
}

// removeFrom deletes a pod of another namespace.
func (r *rig) removeFrom(namespace, name string) {
	r.Helper()
	r.must(r.client.CoreV1().Pods(namespace).Delete(r.ctx, name, metav1.DeleteOptions{}))
	r.pass(0)
}

// gang creates PodGroup g and its pods g-0, g-1 and so on.
func (r *rig) gang(minMember int32, n int, edit ...func(*corev1.Pod)) []*corev1.Pod {
	r.Helper()
	r.podGroupAPI.put(aPodGroup(g.Name, minMember, "pg"))
	var pods []*corev1.Pod
	for i := range n {
		pods = append(pods, r.pod(fmt.Sprintf("g-%d", i), append([]func(*corev1.Pod){objects.InGroup(g.Name)}, edit...)...))
	}
	return pods
}

// node creates a node with a number of cores.
func (r *rig) node(name string, cores int64, edit ...func(*corev1.Node)) {
	r.Helper()
	r.add(objects.ReadyNode(name, cores, edit...))
}

// add creates an object. Create of the fake client does the same and takes 7 ms,
// because it lists all kinds of Kubernetes to find out who manages which field.
func (r *rig) add(obj runtime.Object) {
	r.Helper()
	r.must(r.client.Tracker().Add(obj))
	r.pass(0)
}

// give answers a match with these nodes, pod by pod in the order of the keys.
func (r *rig) give(nodes ...string) {
	r.matcherFake.OnMatch(func(req match.Request) (*match.Allocation, error) {
		a := &match.Allocation{ID: req.ID}
		for i, key := range req.Keys[:min(len(nodes), len(req.Keys))] {
			a.Slots = append(a.Slots, match.Slot{Key: key, Node: nodes[i]})
		}
		return a, nil
	})
}

// preEnqueueMessage returns the message of PreEnqueue for a pod, or "" if the pod passes.
func (r *rig) preEnqueueMessage(pod *corev1.Pod) string {
	return r.pl.PreEnqueue(r.ctx, pod).Message()
}

// wantStatus fails the test unless a status has this code and message.
func (r *rig) wantStatus(s *fwk.Status, code fwk.Code, message string) {
	r.Helper()
	if s.Code() != code || s.Message() != message {
		r.Errorf("status = %v %q, want %v %q", s.Code(), s.Message(), code, message)
	}
}

// realEngine returns an engine that computes matches.
func realEngine(t *testing.T) match.Engine {
	t.Helper()
	var epochs atomic.Uint64
	e, err := engine.New(engine.Options{Epoch: func() match.Epoch { return match.Epoch(epochs.Add(1)) }})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// updateNode changes a node.
func (r *rig) updateNode(name string, edit func(*corev1.Node)) {
	r.Helper()
	nodes := r.client.CoreV1().Nodes()
	node, err := nodes.Get(r.ctx, name, metav1.GetOptions{})
	r.must(err)
	node = node.DeepCopy()
	edit(node)
	_, err = nodes.Update(r.ctx, node, metav1.UpdateOptions{})
	r.must(err)
	r.pass(0)
}

// must ends the test at an error.
func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}
