package admission

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
)

// A nodeRules says which nodes the pods of a class may be on, by what a node says itself. Other pods and volumes are not looked
// at: the scheduler's filters do that when the pods exist.
type nodeRules struct {
	// name is different for different rules.
	name string
	// selects is true if the rules ask for labels.
	selects     bool
	affinity    nodeaffinity.RequiredNodeAffinity
	tolerations []corev1.Toleration
	// users is the number of classes that have the rules.
	users int
}

// nodeRules returns the rules of a job. An error names the field.
func (c *classes) nodeRules(of *v1alpha1.NodeRules) (*nodeRules, error) {
	name := hashOf(of)
	r := c.rules[name]
	if r == nil {
		var affinity *corev1.Affinity
		if of.Affinity != nil {
			if _, err := nodeaffinity.NewNodeSelector(of.Affinity); err != nil {
				return nil, fmt.Errorf("spec.nodes.affinity: %w", err)
			}
			affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: of.Affinity}}
		}
		r = &nodeRules{
			name: name, selects: len(of.Selector) > 0 || of.Affinity != nil,
			affinity: nodeaffinity.NewRequiredNodeAffinity(of.Selector, affinity), tolerations: of.Tolerations,
		}
		c.rules[name] = r
	}
	r.users++
	return r, nil
}

// A verdict says whether pods may be on a node.
type verdict int8

const (
	// allowed: they may.
	allowed verdict = iota
	// notNow: they may not for the present. The node is cordoned, or has a taint that says how it is at present.
	notNow
	// never: they may not as long as the node has these labels and taints.
	never
)

// judge returns whether pods with these rules may be on a node of a queue.
func (r *nodeRules) judge(node *corev1.Node, queue labels.Selector) verdict {
	if queue != nil && !queue.Matches(labels.Set(node.Labels)) {
		return never
	}
	if fits, err := r.affinity.Match(node); err != nil || !fits {
		return never
	}
	v := allowed
	for i := range node.Spec.Taints {
		t := &node.Spec.Taints[i]
		if t.Effect == corev1.TaintEffectPreferNoSchedule || r.tolerates(t) {
			continue
		}
		if !strings.HasPrefix(t.Key, conditionTaints) {
			return never
		}
		v = notNow
	}
	if node.Spec.Unschedulable && !r.tolerates(&cordonTaint) {
		v = notNow
	}
	return v
}

// conditionTaints begins the taints that Kubernetes itself sets, and takes away when a node is well again.
const conditionTaints = "node.kubernetes.io/"

// cordonTaint is the taint that a cordoned node counts as having.
var cordonTaint = corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}

func (r *nodeRules) tolerates(t *corev1.Taint) bool {
	return v1helper.TolerationsTolerateTaint(klog.Background(), r.tolerations, t, false)
}
