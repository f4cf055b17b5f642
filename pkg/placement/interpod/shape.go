package interpod

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/translate"
)

// A Target is where a slot was given: the index of its shape, and its node.
type Target struct {
	Shape int
	Node  string
}

// A Shape is the pods of one group that ask for the same and may go to the same
// nodes.
type Shape struct {
	// Key is the text of what the pods ask for.
	Key     string
	Amounts translate.Amounts
	// Pods stand with the required ones first.
	Pods     []*corev1.Pod
	Required int64
}

// ShapesOf sorts the pods of one group into shapes, in the order of their first
// required pod. A shape needs a required pod: optional pods of a shape of their
// own are left to be placed later, each alone. Exact says that all pods of a shape may go to
// the same nodes; pods that are there may object to some of them alone.
func ShapesOf(required, optional []*corev1.Pod, by *Signer) (shapes []*Shape, exact bool) {
	shapes = by.sort(required, optional)
	if len(by.existingSelectors) == 0 || len(shapes) <= maxExtraShapes {
		return shapes, !by.inexact
	}
	roughly := *by
	roughly.existingSelectors = nil
	fewer := roughly.sort(required, optional)
	by.cut = roughly.cut
	if len(shapes) > len(fewer)+maxExtraShapes {
		return fewer, false
	}
	return shapes, !by.inexact
}

// sort sorts the pods of a group by what tells them apart.
func (b *Signer) sort(required, optional []*corev1.Pod) []*Shape {
	byKey := map[string]*Shape{}
	var shapes []*Shape
	keyOf := func(pod *corev1.Pod, amounts translate.Amounts) string {
		return string(amounts.Shape()) + "\n" + b.signature(pod)
	}
	for _, pod := range required {
		if b.cut = b.cut || len(shapes) > 1 && b.isOverBudget(); b.cut {
			break
		}
		amounts := translate.Requests(pod)
		k := keyOf(pod, amounts)
		s := byKey[k]
		if s == nil {
			s = &Shape{Key: k, Amounts: amounts}
			byKey[k] = s
			shapes = append(shapes, s)
		}
		s.Pods = append(s.Pods, pod)
		s.Required++
	}
	for _, pod := range optional {
		if b.cut = b.cut || len(shapes) > 1 && b.isOverBudget(); b.cut {
			break
		}
		if s := byKey[keyOf(pod, translate.Requests(pod))]; s != nil {
			s.Pods = append(s.Pods, pod)
		}
	}
	return shapes
}
