package kubelet

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/resource"
)

// ledger adds up the requests of each node's pods. It does no I/O. Callers give
// it nodes and pods in the order of their events, and act on its verdicts.
//
// Events may be late: a pod can arrive before the removal of another pod whose
// room it was given. So a pod that does not fit is first in doubt. See settle.
type ledger struct {
	nodes    map[string]*account
	pods     map[types.UID]charge
	rejected map[types.UID]bool // kept until they are removed, because a rejection is final
	gone     map[types.UID]bool // settled as gone or finished, but not removed yet
}

// account is the account of one node.
type account struct {
	known    bool // the node exists
	capacity amounts
	used     amounts
	waiting  []*corev1.Pod // in the order of arrival: for the node, or for settle
}

// amounts are quantities of resources: of CPU in thousandths, of all others in units.
type amounts map[corev1.ResourceName]int64

// charge is what an admitted pod holds.
type charge struct {
	node string
	amounts
}

// verdict is whether a pod was admitted to its node. If
// not, it has the reason and the message of a real kubelet.
type verdict struct {
	pod             *corev1.Pod
	admitted        bool
	reason, message string
}

func newLedger() *ledger {
	return &ledger{nodes: map[string]*account{}, pods: map[types.UID]charge{}, rejected: map[types.UID]bool{}, gone: map[types.UID]bool{}}
}

// putNode sets what a node has to give. It returns verdicts on the pods that waited
// and now fit, in the order of arrival. Pods admitted earlier stay, as on a real node.
func (l *ledger) putNode(node *corev1.Node) []verdict {
	a := l.account(node.Name)
	a.known, a.capacity = true, amountsOf(node.Status.Allocatable)
	return l.advance(a, nil)
}

// removeNode records that a node does not exist any more. Its
// pods hold their resources until they are removed themselves.
func (l *ledger) removeNode(name string) { l.account(name).known = false }

// putPod records a pod that has a node. It returns the verdicts that are
// possible now. It returns none if the pod has a verdict already, waits
// for its node, waits after a pod in doubt, or is in doubt itself.
func (l *ledger) putPod(pod *corev1.Pod) []verdict {
	if finished(pod) || l.gone[pod.UID] {
		l.giveBack(pod)
		return nil
	}
	if _, held := l.pods[pod.UID]; held || alreadyAdmitted(pod) {
		l.charge(pod, askedBy(pod))
		return nil
	}
	if pod.DeletionTimestamp != nil {
		l.giveBack(pod)
		return nil
	}
	if l.rejected[pod.UID] || admission(pod) != nil {
		return nil
	}
	a := l.account(pod.Spec.NodeName)
	a.wait(pod)
	return l.advance(a, nil)
}

// removePod forgets a pod that is gone.
func (l *ledger) removePod(pod *corev1.Pod) {
	l.giveBack(pod)
	delete(l.rejected, pod.UID)
	delete(l.gone, pod.UID)
}

// giveBack releases what a pod holds on its node, or ends its wait.
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

// charge records what a pod holds, in place of earlier amounts.
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

// short returns the first resource that a pod requests and the node has too little of. It
// checks in the order of the scheduler and the kubelet. A resource that the node does not
// have is short too. A real kubelet would let that pass, but no scheduler should rely on it.
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

// rank returns the position of a resource in the order of the checks.
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

// askedBy returns what a pod takes of its node, including one of resource pods.
func askedBy(pod *corev1.Pod) amounts {
	asked := amountsOf(resource.PodRequests(pod, resource.PodResourcesOptions{UseStatusResources: true}))
	asked[corev1.ResourcePods] = 1
	return asked
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
