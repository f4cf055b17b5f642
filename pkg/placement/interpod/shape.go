package interpod

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/translate"
)

// A Target is a slot: the index of its shape, and its node.
type Target struct {
	Shape int
	Node  string
}

// A Shape is the pods of one group that ask for the same and may go to the same nodes.
type Shape struct {
	// Key identifies the shape: the pods' amounts and signature.
	Key     string
	Amounts translate.Amounts
	// Pods lists the pods, the required ones first.
	Pods []*corev1.Pod
	// Required is how many of the pods are required.
	Required int64
}

// ShapesOf sorts the pods of one group into shapes, in the order of their first
// required pods. It leaves out optional pods of a shape without a required pod, which
// are placed later, each alone. exact says that all pods of a shape may go to the
// same nodes. If it is false, existing pods may keep some pods of a shape away.
func ShapesOf(required, optional []*corev1.Pod, by *Signer) (shapes []*Shape, exact bool) {
	shapes = by.groupByShape(required, optional)
	if len(by.existingSelectors) == 0 || len(shapes) <= maxExtraShapes {
		return shapes, !by.inexact
	}
	roughly := *by
	roughly.existingSelectors = nil
	fewer := roughly.groupByShape(required, optional)
	by.stopped = roughly.stopped
	if len(shapes) > len(fewer)+maxExtraShapes {
		return fewer, false
	}
	return shapes, !by.inexact
}

// groupByShape sorts the pods of a group into shapes by their amounts and signatures. It
// stops if the budget is used up and there is more than one shape.
func (b *Signer) groupByShape(required, optional []*corev1.Pod) []*Shape {
	byKey := map[string]*Shape{}
	var shapes []*Shape
	keyOf := func(pod *corev1.Pod, amounts translate.Amounts) string {
		return string(amounts.Key()) + "\n" + b.signature(pod)
	}
	for _, pod := range required {
		if b.stopped = b.stopped || len(shapes) > 1 && b.isOverBudget(); b.stopped {
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
		if b.stopped = b.stopped || len(shapes) > 1 && b.isOverBudget(); b.stopped {
			break
		}
		if s := byKey[keyOf(pod, translate.Requests(pod))]; s != nil {
			s.Pods = append(s.Pods, pod)
		}
	}
	return shapes
}
