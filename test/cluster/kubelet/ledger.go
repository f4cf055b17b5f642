package kubelet

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/resource"
)

// ledger adds up what the pods of each node ask for. It does no I/O; callers
// feed it nodes and pods in the order of their events, and act on its verdicts.
//
// Those events may be late: a pod can arrive before the removal of another whose
// room it was given. So a pod that does not fit is in doubt first, see settle.
type ledger struct {
	nodes    map[string]*account
	pods     map[types.UID]charge
	rejected map[types.UID]bool // until they are removed; a rejection is final
	gone     map[types.UID]bool // settled as gone or finished, removal yet to come
}

// account is one node's books.
type account struct {
	known    bool // the node exists
	capacity amounts
	used     amounts
	waiting  []*corev1.Pod // by arrival: for the node, or for what settle says
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
	return &ledger{nodes: map[string]*account{}, pods: map[types.UID]charge{}, rejected: map[types.UID]bool{}, gone: map[types.UID]bool{}}
}

// putNode sets what a node has to give. It returns verdicts on the pods that
// waited and fit now, in order of arrival. Pods admitted before stay, as on a
// real node.
func (l *ledger) putNode(node *corev1.Node) []verdict {
	a := l.account(node.Name)
	a.known, a.capacity = true, amountsOf(node.Status.Allocatable)
	return l.advance(a, nil)
}

// removeNode forgets that a node exists. Its pods hold their share until they
// are removed themselves.
func (l *ledger) removeNode(name string) { l.account(name).known = false }

// putPod takes note of a pod that has a node. It returns the verdicts that can
// be given now: none if the pod had one before, or must wait for its node or
// behind a pod in doubt, or is in doubt itself.
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

// giveBack ends a pod's hold on its node, or its wait for one.
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

// askedBy is what a pod takes of its node, itself included.
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
