package translate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/resource"
)

// rootName is the name of the graph's root.
const rootName = resource.TypeCluster + "0"

// Node returns a node as a part of the cluster's graph. Its vertices are, in
// this order: the cluster, one of each level, the node, and its pools by type.
// Each vertex is below the one before, except that all pools are below the node.
// Vertices are distinguished by path. UniqID numbers them only within the part.
//
// The pools are the allocatable resources in the node's status, also pools of size zero. Cores,
// memory and pods are always present, so that a shortage of them can be reported. The node's
// properties are its labels that are keys of levels. The node is up if it is ready and not being
// deleted. Cordons and taints are left out, because whether they matter depends on the pod.
func Node(node *corev1.Node, levels []Level) *resource.Graph {
	pools := sizes(node.Status.Allocatable)
	types := pools.Types()
	g := &resource.Graph{
		Vertices: make([]resource.Vertex, 0, len(levels)+len(types)+2),
		Edges:    make([]resource.Edge, 0, len(levels)+len(types)+1),
	}

	at := g.Hang(-1, resource.Vertex{Type: resource.TypeCluster, Name: rootName, Size: 1})
	for _, l := range levels {
		at = g.Hang(at, resource.Vertex{Type: l.Type, Name: l.vertexName(node.Labels), Size: 1})
	}
	at = g.Hang(at, resource.Vertex{
		Type:       resource.TypeNode,
		Name:       node.Name,
		Size:       1,
		Status:     status(node),
		Properties: properties(node, levels),
	})
	for _, t := range types {
		g.Hang(at, resource.Vertex{Type: t, Name: poolName(t), Size: pools[t], Unit: unit(t)})
	}
	return g
}

// Pools returns the sizes of a node's pools in a graph made by Node.
func Pools(g *resource.Graph) Amounts {
	i := slices.IndexFunc(g.Vertices, func(v resource.Vertex) bool { return v.Type == resource.TypeNode })
	a := make(Amounts, len(g.Vertices)-i-1)
	for _, v := range g.Vertices[i+1:] {
		a[v.Type] = v.Size
	}
	return a
}

// poolName returns the name of the one pool of a type on a node. A slash
// would be another step of the path. No resource has a colon in its name.
func poolName(poolType string) string { return strings.ReplaceAll(poolType, "/", ":") + "0" }

func sizes(allocatable corev1.ResourceList) Amounts {
	a := make(Amounts, len(allocatable)+3)
	for _, t := range []string{TypeCore, TypeMemory, TypePods} {
		a[t] = 0
	}
	for name, q := range allocatable {
		a[poolType(name)] = amount(name, q)
	}
	return a
}

func properties(node *corev1.Node, levels []Level) map[string]string {
	var p map[string]string
	for _, l := range levels {
		if v, ok := node.Labels[l.Key]; ok {
			if p == nil {
				p = make(map[string]string, len(levels))
			}
			p[l.Key] = v
		}
	}
	return p
}

func status(node *corev1.Node) resource.Status {
	if node.DeletionTimestamp != nil {
		return resource.Down
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return resource.Up
		}
	}
	return resource.Down
}
