package inventory

import (
	"maps"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/flux-k8s/fluence/pkg/translate"
)

// A sentBind is a bind that was sent for a pod that the cluster does not show on the node yet.
type sentBind struct {
	pod     types.NamespacedName
	node    string
	amounts translate.Amounts
}

// BindSent records that the bind of a pod to a node was sent. The pod counts as
// holding resources there until the cluster shows it or ForgetBind is called.
func (i *Inventory) BindSent(pod *corev1.Pod, node string) {
	bind := sentBind{nameOf(pod), node, translate.Requests(pod)}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.pods[pod.UID] == nil {
		i.sentBinds[pod.UID] = bind
	}
}

// ForgetBind forgets the bind that was sent for a pod, because it failed or the pod has ended. If
// the bind was made nevertheless, the cluster will show the pod.
func (i *Inventory) ForgetBind(pod *corev1.Pod) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.sentBinds, pod.UID)
}

// forgetBinds forgets the binds that were sent for pods of a name.
func (i *Inventory) forgetBinds(pod types.NamespacedName) {
	i.mu.Lock()
	defer i.mu.Unlock()
	maps.DeleteFunc(i.sentBinds, func(_ types.UID, bind sentBind) bool { return bind.pod == pod })
}

// WhyNoRoom returns in words which resources of a node are too small for these pods,
// which are not on it yet. It counts the pods that the cluster shows on the node and
// the binds that were sent. It returns "" if the pods fit, or if the node is not known.
func (i *Inventory) WhyNoRoom(node string, pods ...*corev1.Pod) string {
	asked, names := translate.Amounts{}, make(sets.Set[types.NamespacedName], len(pods))
	for _, pod := range pods {
		asked.Add(translate.Requests(pod))
		names.Insert(nameOf(pod))
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	g := i.nodes.desired(node)
	if g == nil {
		return ""
	}
	return translate.WhyNoRoom(asked, i.heldAmounts(node, names, asked), translate.Pools(g))
}

// heldAmounts returns the amounts of the types in asked that pods hold on a node, without the pods
// named in except.
func (i *Inventory) heldAmounts(node string, except sets.Set[types.NamespacedName], asked translate.Amounts) translate.Amounts {
	held := make(translate.Amounts, len(asked))
	add := func(poolType string, n int64) {
		if _, ok := asked[poolType]; ok {
			held[poolType] += min(n, math.MaxInt64-held[poolType])
		}
	}
	for name := range i.podsOn[node] {
		if except.Has(name) {
			continue
		}
		for _, h := range i.holds.desired(name) {
			for _, s := range h.slot.R.Vertices {
				add(s.Type, s.Amount)
			}
		}
	}
	for _, bind := range i.sentBinds {
		if bind.node != node || except.Has(bind.pod) {
			continue
		}
		for t, n := range bind.amounts {
			add(t, n)
		}
	}
	return held
}

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}
