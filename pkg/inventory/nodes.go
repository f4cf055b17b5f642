package inventory

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// nodeDelta is the change of a node, by name, from one graph to another.
type nodeDelta = delta[string, *resource.Graph]

func (i *Inventory) setNode(_, node *corev1.Node) {
	g := translate.Node(node, i.cfg.Levels)
	i.mu.Lock()
	defer i.mu.Unlock()
	// Kubelets update the status of their nodes every few minutes, mostly in fields that the graph
	// does not have.
	if i.nodes.set(node.Name, g, sameNode) {
		signal(i.wake)
	}
}

func (i *Inventory) dropNode(name cache.ObjectName, _ *corev1.Node) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.nodes.drop(name.Name) {
		signal(i.wake)
	}
}

func sameNode(a, b *resource.Graph) bool { return reflect.DeepEqual(a, b) }

// nodeOf returns the one vertex that is a node in a part of the graph.
func nodeOf(g *resource.Graph) resource.Vertex {
	return g.Vertices[slices.IndexFunc(g.Vertices, func(v resource.Vertex) bool { return v.Type == resource.TypeNode })]
}
