package inventory

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// Tenants are the pods that are on nodes and hold something there, and those whose binds
// were sent and which are not seen there yet. The zero value has none.
type tenants struct {
	pods map[types.NamespacedName]*tenant
	// nodes are the same, by node.
	nodes map[string]map[types.NamespacedName]*tenant
}

type tenant struct {
	uid    types.UID
	node   string
	shares []resource.Share
	// seen says that the cluster shows the pod there.
	seen bool
}

// put has a pod be a tenant, in the place of what its name stood for.
func (t *tenants) put(name types.NamespacedName, is tenant) {
	t.drop(name)
	if t.pods == nil {
		t.pods, t.nodes = map[types.NamespacedName]*tenant{}, map[string]map[types.NamespacedName]*tenant{}
	}
	if t.nodes[is.node] == nil {
		t.nodes[is.node] = map[types.NamespacedName]*tenant{}
	}
	t.pods[name], t.nodes[is.node][name] = &is, &is
}

// drop has a pod be none.
func (t *tenants) drop(name types.NamespacedName) {
	was := t.pods[name]
	if was == nil {
		return
	}
	delete(t.pods, name)
	if delete(t.nodes[was.node], name); len(t.nodes[was.node]) == 0 {
		delete(t.nodes, was.node)
	}
}

// waits takes note that the cluster shows a pod without a node. A bind of it may have been
// sent; another that had its name is gone.
func (t *tenants) waits(name types.NamespacedName, uid types.UID) {
	if was := t.pods[name]; was != nil && (was.seen || was.uid != uid) {
		t.drop(name)
	}
}

// held says what is held on a node by others than the pods named, of each type that is
// asked for.
func (t *tenants) held(node string, but map[types.NamespacedName]bool, asked translate.Amounts) translate.Amounts {
	held := make(translate.Amounts, len(asked))
	for name, is := range t.nodes[node] {
		if but[name] {
			continue
		}
		for _, s := range is.shares {
			if _, ok := asked[s.Type]; ok {
				held[s.Type] += min(s.Amount, math.MaxInt64-held[s.Type])
			}
		}
	}
	return held
}

// BindSent takes note that the bind of a pod to a node was sent. The pod counts as one that
// is there until the cluster tells of it or BindFailed is called.
func (i *Inventory) BindSent(pod *corev1.Pod, node string) {
	name, shares := nameOf(pod), translate.Requests(pod).Set().Vertices
	i.mu.Lock()
	defer i.mu.Unlock()
	if was := i.tenants.pods[name]; was != nil && was.uid == pod.UID && was.seen {
		return
	}
	i.tenants.put(name, tenant{uid: pod.UID, node: node, shares: shares})
}

// BindFailed takes note that a pod's bind was not made, or may not have been.
func (i *Inventory) BindFailed(pod *corev1.Pod) {
	name := nameOf(pod)
	i.mu.Lock()
	defer i.mu.Unlock()
	if was := i.tenants.pods[name]; was != nil && was.uid == pod.UID && !was.seen {
		i.tenants.drop(name)
	}
}

// Short says what a node has too little of for pods that are not there, by what the cluster
// has told and the binds that were sent; empty if there is enough of all. Of a node that is
// not there it says nothing.
func (i *Inventory) Short(node string, pods ...*corev1.Pod) string {
	asked, but := translate.Amounts{}, make(map[types.NamespacedName]bool, len(pods))
	for _, pod := range pods {
		asked.Add(translate.Requests(pod))
		but[nameOf(pod)] = true
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	g := i.nodes.wanted(node)
	if g == nil {
		return ""
	}
	return translate.Short(asked, i.tenants.held(node, but, asked), translate.Pools(g))
}

// sitsOn makes a tenant of a pod by what it holds.
func sitsOn(pod *corev1.Pod, slot match.Slot) tenant {
	return tenant{uid: pod.UID, node: slot.Node, shares: slot.R.Vertices, seen: true}
}

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}
