package fluence

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
	"k8s.io/utils/ptr"

	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// spread is a topology spread constraint that counts members of the plan.
type spread struct {
	key        string
	maxSkew    int
	minDomains int
	// counted are the shapes whose pods it counts.
	counted []int
	// level is as that of the key's domains.
	level   string
	domains []spreadDomain
}

// spreadDomain is one value of the key with nodes that count.
type spreadDomain struct {
	value string
	hosts []string
	// there is how many pods count that are there already.
	there int
}

// band is how many members may come to a domain.
type band struct{ least, most int }

// spread finds the constraints that count members. The filters are not to judge by
// these before any member is placed, but for the label that nodes have to have.
func (s *siblings) spread() error {
	known := map[string]bool{}
	for i, shape := range s.shapes {
		pod := shape.pods[0]
		for c, constraint := range pod.Spec.TopologySpreadConstraints {
			if constraint.WhenUnsatisfiable != corev1.DoNotSchedule {
				continue
			}
			selector, err := spreadSelector(constraint, pod)
			if err != nil {
				return fmt.Errorf("pod %s: topologySpreadConstraints[%d]: %w", pod.Name, c, err)
			}
			counted := s.counted(selector)
			if len(counted) == 0 {
				continue
			}
			if s.lenient[i] == pod {
				s.lenient[i] = pod.DeepCopy()
			}
			s.lenient[i].Spec.TopologySpreadConstraints[c].MaxSkew = math.MaxInt32
			sp := &spread{
				key: constraint.TopologyKey, maxSkew: int(constraint.MaxSkew), minDomains: int(ptr.Deref(constraint.MinDomains, 1)),
				counted: counted, level: s.by(constraint.TopologyKey).level,
				domains: s.spreadDomains(pod, constraint, selector),
			}
			if text := fmt.Sprintf("%+v", *sp); !known[text] {
				known[text] = true
				s.spreads = append(s.spreads, sp)
			}
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
func (s *siblings) counted(selector labels.Selector) []int {
	var counted []int
	for i, shape := range s.shapes {
		if selector.Matches(labels.Set(shape.pods[0].Labels)) {
			counted = append(counted, i)
		}
	}
	return counted
}

// spreadDomains counts what is there, as PodTopologySpread does: on the nodes that have
// the labels of all the pod's constraints and that the constraint's policies include.
func (s *siblings) spreadDomains(pod *corev1.Pod, c corev1.TopologySpreadConstraint, selector labels.Selector) []spreadDomain {
	byValue := map[string]*spreadDomain{}
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	for _, info := range s.nodes {
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
		d.there += countedOn(info, pod.Namespace, selector)
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
func included(pod *corev1.Pod, node *corev1.Node, c corev1.TopologySpreadConstraint, affinity nodeaffinity.RequiredNodeAffinity) bool {
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

// bands says how many of n members may come to each domain, for the end to be within
// maxSkew: every domain comes to the same floor at the least, and maxSkew above it at
// the most. The first answer has the highest floor, each next one a floor one lower;
// there are no more than three. Members can come to the domains that are open only; the
// others are ruled out, whatever their band says.
//
// An end like that is reached within maxSkew at each step too, by whoever goes to the
// lowest of the domains that are not full yet.
func (sp *spread) bands(n int, open []bool) [][]band {
	floor, short := math.MaxInt, len(sp.domains) < sp.minDomains
	for i, d := range sp.domains {
		if !open[i] {
			floor = min(floor, d.there)
		}
	}
	floor = min(floor, sp.filled(n, open))
	if short {
		// Too few domains count as if there was an empty one.
		floor = 0
	}
	var all [][]band
	for f := floor; f >= 0 && len(all) < 3; f-- {
		bs := make([]band, len(sp.domains))
		for i, d := range sp.domains {
			bs[i] = band{least: max(0, f-d.there), most: max(0, f+sp.maxSkew-d.there)}
			if short || !open[i] {
				bs[i].least = 0
			}
		}
		all = append(all, bs)
		if short {
			break
		}
	}
	return all
}

// filled is the level to which n members fill all open domains.
func (sp *spread) filled(n int, open []bool) int {
	var there []int
	for i, d := range sp.domains {
		if open[i] {
			there = append(there, d.there)
		}
	}
	if len(there) == 0 {
		return 0
	}
	slices.Sort(there)
	level := there[0]
	for k, left := 1, n; ; k++ {
		if k < len(there) && (there[k]-level)*k <= left {
			left -= (there[k] - level) * k
			level = there[k]
			continue
		}
		return level + left/k
	}
}

// maxComplements bounds the limits that say "at least" by what is outside of a domain:
// each names nearly all nodes.
const maxComplements = 64

// limits says bands as limits of n slots. Where too many domains have a least number
// all are given shares of their own: as few above the least as there can be. Where the
// domains are a level, what holds for most of them is said of that.
func (sp *spread) limits(name string, n int, bs []band) []jobspec.Limit {
	floors, most := 0, 0
	for _, b := range bs {
		if b.least > 0 {
			floors++
		}
		most = max(most, b.most)
	}
	if floors > maxComplements {
		bs, floors = shares(n, bs), 0
	}
	var limits []jobspec.Limit
	if sp.level != "" {
		limits = append(limits, jobspec.Limit{Name: name, Level: sp.level, Most: int64(most)})
	}
	for i, d := range sp.domains {
		if sp.level == "" || bs[i].most < most {
			limits = append(limits, jobspec.Limit{Name: name + "/most/" + d.value, Hosts: d.hosts, Most: int64(bs[i].most)})
		}
		if floors > 0 && bs[i].least > 0 {
			limits = append(limits, sp.elsewhere(name+"/least/"+d.value, i, n-bs[i].least)...)
		}
	}
	return limits
}

// elsewhere bounds the slots outside of a domain.
func (sp *spread) elsewhere(name string, domain, most int) []jobspec.Limit {
	var others []string
	for j, o := range sp.domains {
		if j != domain {
			others = append(others, o.hosts...)
		}
	}
	if len(others) == 0 {
		return nil
	}
	return []jobspec.Limit{{Name: name, Hosts: others, Most: int64(max(0, most))}}
}

// shares gives each domain its least and what is left of n one by one to those that
// may have more.
func shares(n int, bs []band) []band {
	is := make([]band, len(bs))
	for i, b := range bs {
		is[i] = band{least: b.least, most: b.least}
		n -= b.least
	}
	for more := true; more && n > 0; {
		more = false
		for i, b := range bs {
			if n > 0 && is[i].most < b.most {
				is[i].most++
				n--
				more = true
			}
		}
	}
	return is
}

// limitsOfSpreads bounds the slots by shape, for so many members of each, as the k-th
// choice of all constraints that have so many. Ruled lists by shape the nodes that are
// no choice.
func (s *siblings) limitsOfSpreads(counts []int64, k int, ruled []map[string]bool) (limits [][]jobspec.Limit, more bool) {
	limits = make([][]jobspec.Limit, len(s.shapes))
	for x, sp := range s.spreads {
		n := 0
		for _, i := range sp.counted {
			n += int(counts[i])
		}
		bands := sp.bands(n, sp.open(ruled))
		if len(bands) == 0 {
			continue
		}
		more = more || k+1 < len(bands)
		for _, l := range sp.limits("spread-"+strconv.Itoa(x), n, bands[min(k, len(bands)-1)]) {
			for _, i := range sp.counted {
				limits[i] = append(limits[i], l)
			}
		}
	}
	return limits, more
}

// open says of each domain whether a counted member may come to one of its nodes.
func (sp *spread) open(ruled []map[string]bool) []bool {
	open := make([]bool, len(sp.domains))
	for i, d := range sp.domains {
		open[i] = slices.ContainsFunc(sp.counted, func(shape int) bool {
			return slices.ContainsFunc(d.hosts, func(h string) bool { return !ruled[shape][h] })
		})
	}
	return open
}
