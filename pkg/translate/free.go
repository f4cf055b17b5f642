package translate

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
)

// FreeWhenEmpty returns what would be free on a node if all of these pods were gone except
// the ones that run on every node. No more can ever be free. No amount is negative.
func FreeWhenEmpty(node *corev1.Node, pods iter.Seq[*corev1.Pod]) Amounts {
	left := sizes(node.Status.Allocatable)
	for pod := range pods {
		if !Holds(pod) || !OnEveryNode(pod) {
			continue
		}
		for t, n := range Requests(pod) {
			if have, ok := left[t]; ok {
				left[t] = max(0, have-n)
			}
		}
	}
	return left
}

// Covers reports whether a is at least b in each type of b.
func (a Amounts) Covers(b Amounts) bool {
	for t, n := range b {
		if a[t] < n {
			return false
		}
	}
	return true
}
