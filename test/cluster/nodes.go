package cluster

import (
	"context"
	"fmt"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// nodeWriters is the number of nodes created or deleted at a time.
	nodeWriters = 16
	// nodesTimeout bounds a change of a few nodes.
	nodesTimeout = 2 * time.Minute
	// perNode is added to nodesTimeout for each node.
	perNode = 100 * time.Millisecond
)

// Nodes describes nodes of the same kind.
type Nodes struct {
	// Count is the number of nodes. The i of the functions below runs from 0 to Count-1.
	Count int
	// Name returns the name of a node. Defaults to node-0000, node-0001 and so on.
	Name func(i int) string
	// Allocatable is what pods may use, extended resources included. It is the node's
	// capacity too. Defaults to 8 CPUs and 32Gi of memory. Its pods default to 110.
	Allocatable corev1.ResourceList
	// Labels returns labels of a node, in addition to those
	// for its name, operating system and architecture.
	Labels func(i int) map[string]string
	// Edit changes a node before it is created, for
	// example its taints, annotations or allocatable.
	Edit func(i int, node *corev1.Node)
}

// AddNodes creates nodes. It returns their names when
// all are Ready and without the taint of new nodes.
func (c *Cluster) AddNodes(ctx context.Context, n Nodes) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, nodesTimeout+time.Duration(n.Count)*perNode)
	defer cancel()
	names := make([]string, n.Count)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(nodeWriters)
	for i := range n.Count {
		node := n.build(i)
		names[i] = node.Name
		g.Go(func() error {
			if _, err := c.client.CoreV1().Nodes().Create(gctx, node, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create node %s: %w", node.Name, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	missing := sets.New(names...)
	err := Until(ctx, c.client.CoreV1().Nodes(), "", func(e watch.EventType, node *corev1.Node) bool {
		if e != watch.Deleted && usable(node) {
			missing.Delete(node.Name)
		}
		return missing.Len() == 0
	})
	if err != nil {
		return nil, fmt.Errorf("wait until nodes are ready (%d of %d are not): %w", missing.Len(), n.Count, err)
	}
	return names, nil
}

// RemoveNodes deletes nodes, and returns when they are gone. The
// controller manager deletes their pods later, as with real nodes.
func (c *Cluster) RemoveNodes(ctx context.Context, names ...string) error {
	ctx, cancel := context.WithTimeout(ctx, nodesTimeout+time.Duration(len(names))*perNode)
	defer cancel()
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(nodeWriters)
	for _, name := range names {
		g.Go(func() error {
			if err := c.disownLease(gctx, name); err != nil {
				return err
			}
			err := c.client.CoreV1().Nodes().Delete(gctx, name, metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("delete node %s: %w", name, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// disownLease makes the Lease of a node outlive it. KWOK runs the pods of a node only
// while it holds the node's Lease. A new node of the same name would have the Lease of
// the old one, which the garbage collector deletes because of its owner. KWOK would
// notice that only at its next renewal, and until then the new node would run nothing.
func (c *Cluster) disownLease(ctx context.Context, node string) error {
	_, err := c.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Patch(ctx, node, types.MergePatchType,
		[]byte(`{"metadata":{"ownerReferences":null}}`), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("take the owner from the lease of node %s: %w", node, err)
	}
	return nil
}

// build returns the i-th node, with its status: KWOK fills in only what is missing.
func (n Nodes) build(i int) *corev1.Node {
	name := fmt.Sprintf("node-%04d", i)
	if n.Name != nil {
		name = n.Name(i)
	}
	allocatable := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("110")}
	if n.Allocatable == nil {
		allocatable[corev1.ResourceCPU] = resource.MustParse("8")
		allocatable[corev1.ResourceMemory] = resource.MustParse("32Gi")
	}
	maps.Copy(allocatable, n.Allocatable)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				corev1.LabelHostname:   name,
				corev1.LabelOSStable:   "linux",
				corev1.LabelArchStable: "amd64",
			},
		},
		Status: corev1.NodeStatus{Allocatable: allocatable, Capacity: allocatable.DeepCopy()},
	}
	if n.Labels != nil {
		maps.Copy(node.Labels, n.Labels(i))
	}
	if n.Edit != nil {
		n.Edit(i, node)
	}
	return node
}

// usable reports whether a node is Ready and without the taint of new nodes.
func usable(node *corev1.Node) bool {
	for _, t := range node.Spec.Taints {
		if t.Key == corev1.TaintNodeNotReady {
			return false
		}
	}
	for _, cond := range node.Status.Conditions {
		if cond.Type == corev1.NodeReady {
			return cond.Status == corev1.ConditionTrue
		}
	}
	return false
}
