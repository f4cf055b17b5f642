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

	"github.com/flux-k8s/fluence/pkg/hostlist"
	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// spread is a topology spread constraint that counts members of the plan.
type spread struct {
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
func (sp *spread) domainOf() map[string]int {
	of := map[string]int{}
	for i, d := range sp.domains {
		for _, h := range d.hosts {
			of[h] = i
		}
	}
	return of
}

// counts is how many pods are in each domain before any member is placed.
func (sp *spread) counts() []int {
	counts := make([]int, len(sp.domains))
	for i, d := range sp.domains {
		counts[i] = d.there
	}
	return counts
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
	known := map[string]*spread{}
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
// the most. The first answer has the highest floor that there can be, the next ones
// lower and lower ones, down to that of the lowest domain as it is. Room is for how
// many members there is room in each domain; none is where they may not come to, and
// whatever the band of such a domain says, they are ruled out there.
//
// An end like that is reached within maxSkew at each step too, by whoever goes to the
// lowest of the domains that are not full yet.
func (sp *spread) bands(n int, room []int) [][]band {
	lowest, floor := math.MaxInt, sp.filled(n, room)
	for i, d := range sp.domains {
		lowest = min(lowest, d.there)
		floor = min(floor, d.there+room[i])
	}
	short := len(sp.domains) < sp.minDomains
	if short {
		// Too few domains count as if there was an empty one.
		floor = 0
	}
	var all [][]band
	for _, f := range floors(floor, lowest) {
		bs := make([]band, len(sp.domains))
		for i, d := range sp.domains {
			bs[i] = band{least: max(0, f-d.there), most: max(0, f+sp.maxSkew-d.there)}
			if short || room[i] == 0 {
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

// floors lists the ones that are tried: the highest three, one halfway down and the
// lowest.
func floors(highest, lowest int) []int {
	var all []int
	for _, f := range []int{highest, highest - 1, highest - 2, lowest + (highest-lowest)/2, lowest} {
		if f >= lowest && !slices.Contains(all, f) || len(all) == 0 {
			all = append(all, max(0, f))
		}
	}
	slices.Sort(all)
	slices.Reverse(all)
	return slices.Compact(all)
}

// filled is the level to which n members fill all domains that they may come to.
func (sp *spread) filled(n int, room []int) int {
	var there []int
	for i, d := range sp.domains {
		if room[i] > 0 {
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

// choices lists what the matcher may be asked for n members: by floors from the highest,
// first for fixed shares, which are found at once where there is room as expected, and
// then for all that the bands leave open.
func (sp *spread) choices(n int, room []int) [][]band {
	var all [][]band
	for _, bs := range sp.bands(n, room) {
		floors := 0
		for _, b := range bs {
			if b.least > 0 {
				floors++
			}
		}
		if floors > 0 {
			if is := shares(n, bs, room); is != nil {
				all = append(all, is)
			}
		}
		if floors <= maxComplements {
			all = append(all, bs)
		}
	}
	return all
}

// limits says bands as limits of n slots. Where the domains are a level, what holds for
// most of them is said of that.
func (sp *spread) limits(name string, n int, bs []band) []jobspec.Limit {
	floors, most := 0, 0
	for _, b := range bs {
		if b.least > 0 {
			floors++
		}
		most = max(most, b.most)
	}
	var limits []jobspec.Limit
	if sp.level != "" {
		limits = append(limits, jobspec.Limit{Name: name, Level: sp.level, Most: int64(most)})
	}
	hosts := map[int][]string{}
	for i, d := range sp.domains {
		if sp.level == "" || bs[i].most < most {
			hosts[bs[i].most] = append(hosts[bs[i].most], hostlist.Encode(d.hosts))
		}
	}
	for _, n := range slices.Sorted(maps.Keys(hosts)) {
		limits = append(limits, jobspec.Limit{Name: name + "/most/" + strconv.Itoa(n), Hosts: hosts[n], Most: int64(n)})
	}
	if floors == 0 {
		return limits
	}
	for i, d := range sp.domains {
		if bs[i].least > 0 {
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
	return []jobspec.Limit{{Name: name, Hosts: []string{hostlist.Encode(others)}, Most: int64(max(0, most))}}
}

// shares gives each domain its least, and what is left of n one by one to those that
// may have more and have room for it. What a domain has then is the most that it may
// have: as all come to n, that is the least as well. It returns nil if they do not.
func shares(n int, bs []band, room []int) []band {
	is := make([]band, len(bs))
	for i, b := range bs {
		is[i].most = b.least
		n -= b.least
	}
	for more := true; more && n > 0; {
		more = false
		for i, b := range bs {
			if n > 0 && is[i].most < min(b.most, room[i]) {
				is[i].most++
				n--
				more = true
			}
		}
	}
	if n != 0 {
		return nil
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
		choices := sp.choices(n, sp.rooms(n, s.room(), ruled))
		if len(choices) == 0 {
			continue
		}
		more = more || k+1 < len(choices)
		for _, l := range sp.limits("spread-"+strconv.Itoa(x), n, choices[min(k, len(choices)-1)]) {
			for _, i := range sp.counted {
				limits[i] = append(limits[i], l)
			}
		}
	}
	return limits, more
}

// rooms says for how many of n counted members there is room in each domain.
func (sp *spread) rooms(n int, room room, ruled []map[string]bool) []int {
	rooms := make([]int, len(sp.domains))
	for i, d := range sp.domains {
		rooms[i] = room.on(sp.counted, d.hosts, ruled, n)
	}
	return rooms
}
