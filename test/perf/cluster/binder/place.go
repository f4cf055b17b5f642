package main

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// placed is a pod and the name of its future node.
type placed struct {
	pod  *corev1.Pod
	node string
}

// place gives every pod without a node one with enough CPU left. It takes both
// in the order of their names. It fails if there is not enough CPU for all.
func place(pods []corev1.Pod, nodes []corev1.Node) ([]placed, error) {
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(nodes, func(a, b corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	var out []placed
	n, left := -1, int64(0) // millicores of node n
	for i := range pods {
		p := &pods[i]
		if p.Spec.NodeName != "" {
			continue
		}
		for left < millicores(p) {
			if n++; n == len(nodes) {
				return nil, fmt.Errorf("no node has %d millicores left for pod %s", millicores(p), p.Name)
			}
			left = nodes[n].Status.Allocatable.Cpu().MilliValue()
		}
		left -= millicores(p)
		out = append(out, placed{pod: p, node: nodes[n].Name})
	}
	return out, nil
}

func millicores(p *corev1.Pod) int64 {
	var sum int64
	for _, c := range p.Spec.Containers {
		sum += c.Resources.Requests.Cpu().MilliValue()
	}
	return sum
}
