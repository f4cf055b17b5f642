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
	// owners are the shapes that have the constraint. counted are the shapes whose pods it counts.
	owners, counted []int
	// level is the level of the graph with the same domains, as in the domains of the key.
	level   string
	domains []spreadDomain
}

// domainOf returns the index of the domain of each host.
func (sp *spreadConstraint) domainOf() map[string]int {
	of := map[string]int{}
	for i, d := range sp.domains {
		for _, h := range d.hosts {
			of[h] = i
		}
	}
	return of
}

// counts returns how many pods count in each domain before any member is placed.
func (sp *spreadConstraint) counts() []int {
	counts := make([]int, len(sp.domains))
	for i, d := range sp.domains {
		counts[i] = d.existing
	}
	return counts
}

// spreadDomain is one value of the key, with the nodes that count.
type spreadDomain struct {
	value string
	hosts []string
	// existing is how many existing pods count.
	existing int
}

// findSpreads finds the constraints that count members. It relaxes their maxSkew, so that
// before any member is placed the filters check only whether nodes have the topology key.
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
				// The node affinity is parsed only if it is needed, because it may list
				// thousands of values.
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

// spreadSelector returns the selector of a constraint with its matchLabelKeys, as
// PodTopologySpread builds it.
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

// counted lists the shapes that a selector matches. All pods of a group are of one
// namespace, so the namespace is not compared.
func (s *Constraints) counted(selector labels.Selector) []int {
	var counted []int
	for i, shape := range s.shapes {
		if selector.Matches(labels.Set(shape.Pods[0].Labels)) {
			counted = append(counted, i)
		}
	}
	return counted
}

// spreadDomains returns the domains of a constraint with the existing pods that count
// there. As in PodTopologySpread, a node counts if it has the topology keys of all
// the pod's constraints, and if the constraint's policies include it.
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

// hasKeys reports whether a node has the topology keys of all the pod's constraints.
func hasKeys(node *corev1.Node, pod *corev1.Pod) bool {
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if _, ok := node.Labels[c.TopologyKey]; !ok && c.WhenUnsatisfiable == corev1.DoNotSchedule {
			return false
		}
	}
	return true
}

// included reports whether a node counts by nodeAffinityPolicy (by default Honor) and
// by nodeTaintsPolicy (by default Ignore).
func included(pod *corev1.Pod, node *corev1.Node, c corev1.TopologySpreadConstraint, affinity *nodeaffinity.RequiredNodeAffinity) bool {
	if ptr.Deref(c.NodeAffinityPolicy, corev1.NodeInclusionPolicyHonor) == corev1.NodeInclusionPolicyHonor {
		// As in PodTopologySpread, terms that cannot be parsed are ignored.
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

// countedOn returns how many pods on a node a constraint counts.
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
