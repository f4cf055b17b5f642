package kubelet

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/resource"
)

// ledger adds up what the pods of each node ask for. It does no I/O; callers
// feed it nodes and pods in the order of their events, and act on its verdicts.
type ledger struct {
	nodes    map[string]*account
	pods     map[types.UID]charge
	rejected map[types.UID]bool // until they are removed; a rejection is final
}

// account is one node's books.
type account struct {
	known    bool // the node exists; otherwise pods wait for it
	capacity amounts
	used     amounts
	waiting  []*corev1.Pod
}

// amounts are in milli-units for CPU, and in units for all other resources.
type amounts map[corev1.ResourceName]int64

// charge is what an admitted pod holds.
type charge struct {
	node string
	amounts
}

// verdict says whether a pod was admitted to its node; if not, reason and
// message are those of a real kubelet.
type verdict struct {
	pod             *corev1.Pod
	admitted        bool
	reason, message string
}

func newLedger() *ledger {
	return &ledger{nodes: map[string]*account{}, pods: map[types.UID]charge{}, rejected: map[types.UID]bool{}}
}

// putNode sets what a node has to give. It returns verdicts on the pods that
// were bound before their node was known, in order of arrival. Pods admitted
// before stay, as on a real node.
func (l *ledger) putNode(node *corev1.Node) []verdict {
	a := l.account(node.Name)
	a.known, a.capacity = true, amountsOf(node.Status.Allocatable)
	waiting := a.waiting
	a.waiting = nil
	var out []verdict
	for _, pod := range waiting {
		if v, ok := l.putPod(pod); ok {
			out = append(out, v)
		}
	}
	return out
}

// removeNode forgets that a node exists. Its pods hold their share until they
// are removed themselves.
func (l *ledger) removeNode(name string) { l.account(name).known = false }

// putPod takes note of a pod that has a node. It returns a verdict, and true,
// if this is the first time that one can be given.
func (l *ledger) putPod(pod *corev1.Pod) (verdict, bool) {
	if finished(pod) {
		l.giveBack(pod)
		return verdict{}, false
	}
	asked := amountsOf(resource.PodRequests(pod, resource.PodResourcesOptions{UseStatusResources: true}))
	asked[corev1.ResourcePods] = 1
	if _, held := l.pods[pod.UID]; held || alreadyAdmitted(pod) {
		l.charge(pod, asked)
		return verdict{}, false
	}
	if l.rejected[pod.UID] || admission(pod) != nil || pod.DeletionTimestamp != nil {
		return verdict{}, false
	}
	a := l.account(pod.Spec.NodeName)
	if !a.known {
		a.wait(pod)
		return verdict{}, false
	}
	if name, short := a.short(asked); short {
		l.rejected[pod.UID] = true
		return verdict{
			pod:    pod,
			reason: "OutOf" + string(name),
			message: fmt.Sprintf("Pod was rejected: Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
				name, asked[name], a.used[name], a.capacity[name]),
		}, true
	}
	l.charge(pod, asked)
	return verdict{pod: pod, admitted: true}, true
}

// removePod forgets a pod that is gone.
func (l *ledger) removePod(pod *corev1.Pod) {
	l.giveBack(pod)
	delete(l.rejected, pod.UID)
}

// giveBack ends a pod's hold on its node.
func (l *ledger) giveBack(pod *corev1.Pod) {
	a := l.account(pod.Spec.NodeName)
	a.waiting = slices.DeleteFunc(a.waiting, sameAs(pod))
	held, ok := l.pods[pod.UID]
	if !ok {
		return
	}
	delete(l.pods, pod.UID)
	l.account(held.node).used.add(held.amounts, -1)
}

// charge books amounts for a pod, in place of those booked before.
func (l *ledger) charge(pod *corev1.Pod, asked amounts) {
	l.giveBack(pod)
	l.pods[pod.UID] = charge{node: pod.Spec.NodeName, amounts: asked}
	l.account(pod.Spec.NodeName).used.add(asked, 1)
}

func (l *ledger) account(node string) *account {
	a := l.nodes[node]
	if a == nil {
		a = &account{used: amounts{}}
		l.nodes[node] = a
	}
	return a
}

// wait keeps a pod, or its newer version in the same place, until the node is
// known.
func (a *account) wait(pod *corev1.Pod) {
	if i := slices.IndexFunc(a.waiting, sameAs(pod)); i >= 0 {
		a.waiting[i] = pod
		return
	}
	a.waiting = append(a.waiting, pod)
}

// short returns the first resource that a pod asks for and the node has too
// little of, in the order of the scheduler's and the kubelet's own check. A
// resource that the node does not have at all is short too; a real kubelet lets
// that pass, but no scheduler should rely on it.
func (a *account) short(asked amounts) (corev1.ResourceName, bool) {
	names := make([]corev1.ResourceName, 0, len(asked))
	for name, n := range asked {
		if n > 0 && a.used[name]+n > a.capacity[name] {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "", false
	}
	return slices.MinFunc(names, func(x, y corev1.ResourceName) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(x, y))
	}), true
}

// rank orders resources as they are checked.
func rank(name corev1.ResourceName) int {
	order := []corev1.ResourceName{corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}
	if i := slices.Index(order, name); i >= 0 {
		return i
	}
	return len(order)
}

func (a amounts) add(b amounts, sign int64) {
	for name, n := range b {
		if a[name] += sign * n; a[name] == 0 {
			delete(a, name)
		}
	}
}

func amountsOf(list corev1.ResourceList) amounts {
	out := amounts{}
	for name, q := range list {
		if name == corev1.ResourceCPU {
			out[name] = q.MilliValue()
		} else {
			out[name] = q.Value()
		}
	}
	return out
}

func sameAs(pod *corev1.Pod) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool { return p.UID == pod.UID }
}
