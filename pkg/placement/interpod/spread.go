package interpod

import (
	"fmt"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
	"k8s.io/utils/ptr"
)

// spreadConstraint is a topology spread constraint that counts pods of the group.
type spreadConstraint struct {
	key        string
	maxSkew    int
	minDomains int
	// owners are the shapes that have it, and counted those whose pods it counts.
	owners, counted []int
	// level is as that of the key's domains.
	level   string
	domains []spreadDomain
}

// domainOf maps the hosts to the indices of their domains.
func (sp *spreadConstraint) domainOf() map[string]int {
	of := map[string]int{}
	for i, d := range sp.domains {
		for _, h := range d.hosts {
			of[h] = i
		}
	}
	return of
}

// counts is how many pods are in each domain before any member is placed.
func (sp *spreadConstraint) counts() []int {
	counts := make([]int, len(sp.domains))
	for i, d := range sp.domains {
		counts[i] = d.existing
	}
	return counts
}

// spreadDomain is one value of the key with nodes that count.
type spreadDomain struct {
	value string
	hosts []string
	// existing is how many pods count that are there already.
	existing int
}

// findSpreads finds the constraints that count members. The filters are not to judge by
// these before any member is placed, but for the label that nodes have to have.
func (s *Constraints) findSpreads() error {
	known := map[string]*spreadConstraint{}
	for i, shape := range s.shapes {
		pod := shape.Pods[0]
		var affinity *nodeaffinity.RequiredNodeAffinity
		for c, constraint := range pod.Spec.TopologySpreadConstraints {
			if constraint.WhenUnsatisfiable != corev1.DoNotSchedule {
				continue
			}
			if s.IsStopped() {
				return nil
			}
			selector, err := spreadSelector(constraint, pod)
			if err != nil {
				return fmt.Errorf("pod %s: topologySpreadConstraints[%d]: %w", pod.Name, c, err)
			}
			counted := s.counted(selector)
			if len(counted) == 0 {
				continue
			}
			if affinity == nil {
				// It may list thousands of values, all of which are checked.
				affinity = new(nodeaffinity.GetRequiredNodeAffinity(pod))
			}
			if s.Relaxed[i] == pod {
				s.Relaxed[i] = pod.DeepCopy()
			}
			s.Relaxed[i].Spec.TopologySpreadConstraints[c].MaxSkew = math.MaxInt32
			sp := &spreadConstraint{
				key: constraint.TopologyKey, maxSkew: int(constraint.MaxSkew), minDomains: int(ptr.Deref(constraint.MinDomains, 1)),
				counted: counted, level: s.domainsOf(constraint.TopologyKey).level,
				domains: s.spreadDomains(pod, constraint, selector, affinity),
			}
			text := fmt.Sprintf("%+v", *sp)
			if known[text] == nil {
				known[text] = sp
				s.spreads = append(s.spreads, sp)
			}
			known[text].owners = append(known[text].owners, i)
		}
	}
	return nil
}

// spreadSelector is what a constraint counts, as PodTopologySpread reads it.
func spreadSelector(c corev1.TopologySpreadConstraint, pod *corev1.Pod) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil {
		return nil, err
	}
	own := labels.Set{}
	for _, key := range c.MatchLabelKeys {
		if v, ok := pod.Labels[key]; ok {
			own[key] = v
		}
	}
	requirements, selectable := selector.Requirements()
	if len(own) == 0 || !selectable {
		return selector, nil
	}
	return labels.SelectorFromSet(own).Add(requirements...), nil
}

// counted lists the shapes that a selector matches. A group is of one namespace.
func (s *Constraints) counted(selector labels.Selector) []int {
	var counted []int
	for i, shape := range s.shapes {
		if selector.Matches(labels.Set(shape.Pods[0].Labels)) {
			counted = append(counted, i)
		}
	}
	return counted
}

// spreadDomains counts what is there, as PodTopologySpread does: on the nodes that have
// the labels of all the pod's constraints and that the constraint's policies include.
func (s *Constraints) spreadDomains(pod *corev1.Pod, c corev1.TopologySpreadConstraint, selector labels.Selector, affinity *nodeaffinity.RequiredNodeAffinity) []spreadDomain {
	byValue := map[string]*spreadDomain{}
	for _, info := range s.nodes {
		if s.IsStopped() {
			return nil
		}
		node := info.Node()
		if !hasKeys(node, pod) || !included(pod, node, c, affinity) {
			continue
		}
		v := node.Labels[c.TopologyKey]
		d := byValue[v]
		if d == nil {
			d = &spreadDomain{value: v}
			byValue[v] = d
		}
		d.hosts = append(d.hosts, node.Name)
		d.existing += countedOn(info, pod.Namespace, selector)
	}
	var all []spreadDomain
	for _, v := range slices.Sorted(maps.Keys(byValue)) {
		all = append(all, *byValue[v])
	}
	return all
}

func hasKeys(node *corev1.Node, pod *corev1.Pod) bool {
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if _, ok := node.Labels[c.TopologyKey]; !ok && c.WhenUnsatisfiable == corev1.DoNotSchedule {
			return false
		}
	}
	return true
}

// included says whether a node counts by nodeAffinityPolicy, which honours by default,
// and nodeTaintsPolicy, which does not.
func included(pod *corev1.Pod, node *corev1.Node, c corev1.TopologySpreadConstraint, affinity *nodeaffinity.RequiredNodeAffinity) bool {
	if ptr.Deref(c.NodeAffinityPolicy, corev1.NodeInclusionPolicyHonor) == corev1.NodeInclusionPolicyHonor {
		// The plugin passes over a selector that cannot be read.
		if ok, _ := affinity.Match(node); !ok {
			return false
		}
	}
	if ptr.Deref(c.NodeTaintsPolicy, corev1.NodeInclusionPolicyIgnore) == corev1.NodeInclusionPolicyHonor {
		if _, untolerated := v1helper.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations, helper.DoNotScheduleTaintsFilterFunc(), false); untolerated {
			return false
		}
	}
	return true
}

func countedOn(node fwk.NodeInfo, namespace string, selector labels.Selector) int {
	if selector.Empty() {
		// PodTopologySpread counts nothing then.
		return 0
	}
	n := 0
	for _, p := range node.GetPods() {
		pod := p.GetPod()
		if pod.DeletionTimestamp == nil && pod.Namespace == namespace && selector.Matches(labels.Set(pod.Labels)) {
			n++
		}
	}
	return n
}
