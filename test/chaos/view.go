package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/resource"
)

// foreignLabel marks pods of another scheduler.
const foreignLabel = "foreign"

// view is what the generator knows of the cluster by its own watch. Like
// any scheduler's, its knowledge is late by the delivery time of a change.
type view struct {
	mu      sync.Mutex
	pods    map[types.UID]*corev1.Pod
	members map[string]map[types.UID]*corev1.Pod // by namespace/workload
	nodes   map[string]*corev1.Node
	used    map[string]corev1.ResourceList
	bound   int             // pods of Fluence that got a node
	ran     map[string]bool // groups that had a pod on a node, by their serial numbers
	changed chan struct{}   // closed at the next change
}

func newView() *view {
	return &view{
		pods:    map[types.UID]*corev1.Pod{},
		members: map[string]map[types.UID]*corev1.Pod{},
		nodes:   map[string]*corev1.Node{},
		used:    map[string]corev1.ResourceList{},
		ran:     map[string]bool{},
		changed: make(chan struct{}),
	}
}

// watchCluster begins to watch, and returns when it has seen all objects that exist.
func watchCluster(ctx context.Context, client kubernetes.Interface) (*view, error) {
	v := newView()
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(trim))
	pods, nodes := factory.Core().V1().Pods().Informer(), factory.Core().V1().Nodes().Informer()
	podsSeen, err := pods.AddEventHandler(handler(v.putPod, v.removePod))
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	nodesSeen, err := nodes.AddEventHandler(handler(v.putNode, v.removeNode))
	if err != nil {
		return nil, fmt.Errorf("watch nodes: %w", err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), podsSeen.HasSynced, nodesSeen.HasSynced) {
		return nil, errors.New("watch the cluster: ended before all was seen")
	}
	return v, nil
}

func handler[T any](put, remove func(T)) cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { put(o.(T)) },
		UpdateFunc: func(_, o any) { put(o.(T)) },
		DeleteFunc: func(o any) {
			if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = unknown.Obj
			}
			remove(o.(T))
		},
	}
}

// trim removes the managed fields, to save memory.
func trim(o any) (any, error) {
	if m, ok := o.(metav1.Object); ok {
		m.SetManagedFields(nil)
	}
	return o, nil
}

func workloadOf(p *corev1.Pod) string { return p.Namespace + "/" + p.Labels[workloadLabel] }

func (v *view) putPod(p *corev1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	was := v.pods[p.UID]
	v.charge(was, -1)
	v.pods[p.UID] = p
	v.charge(p, 1)
	if p.Labels[workloadLabel] != "" {
		key := workloadOf(p)
		if v.members[key] == nil {
			v.members[key] = map[types.UID]*corev1.Pod{}
		}
		v.members[key][p.UID] = p
		if p.Spec.NodeName != "" && (was == nil || was.Spec.NodeName == "") {
			v.bound++
			v.ran[p.Labels[serialLabel]] = true
		}
	}
	v.tell()
}

func (v *view) removePod(p *corev1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.charge(v.pods[p.UID], -1)
	delete(v.pods, p.UID)
	if key := workloadOf(p); v.members[key] != nil {
		if delete(v.members[key], p.UID); len(v.members[key]) == 0 {
			delete(v.members, key)
		}
	}
	v.tell()
}

func (v *view) putNode(n *corev1.Node) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.nodes[n.Name] = n
	v.tell()
}

func (v *view) removeNode(n *corev1.Node) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.nodes, n.Name)
	v.tell()
}

// tell notifies everyone who waits for a change. The caller holds the lock.
func (v *view) tell() {
	close(v.changed)
	v.changed = make(chan struct{})
}

// charge adds what a pod holds to its node, or subtracts it. The caller holds the lock.
func (v *view) charge(p *corev1.Pod, sign int64) {
	if p == nil || p.Spec.NodeName == "" || finished(p) {
		return
	}
	used := v.used[p.Spec.NodeName]
	if used == nil {
		used = corev1.ResourceList{}
		v.used[p.Spec.NodeName] = used
	}
	for name, q := range resource.PodRequests(p, resource.PodResourcesOptions{}) {
		sum := used[name]
		if sign > 0 {
			sum.Add(q)
		} else {
			sum.Sub(q)
		}
		used[name] = sum
	}
}

func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}
