package fluence

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/objects"
)

// knob is the index of a byte that describes a group and a
// cluster. A byte of 0 means that there is nothing of the kind.
type knob int

const (
	knobNodes    knob = iota // four for each
	knobPods                 // two for each
	knobOptional             // pods beyond the minimum
	knobRequests             // kinds of requests: two for each, and one
	knobKinds                // values of the label kind
	knobZones                // values of the nodes' label zone
	knobSlices               // values of the nodes' label slice; a pod may go to one of them

	knobSpreads     // constraints of each pod
	knobSpreadKeys  // a way to choose keys
	knobSpreadAmong // a way to select
	knobSpreadSkews // 1: each constraint has a maxSkew of its own
	knobSpreadOdd   // 1: with policies and minDomains

	knobAntiAffinity      // terms of anti-affinity of each pod
	knobAntiAffinityKeys  // a way to choose keys
	knobAntiAffinityAmong // a way to select

	knobAffinity      // terms of affinity of each pod
	knobAffinityKeys  // a way to choose keys
	knobAffinityAmong // a way to select

	knobPorts         // host ports of each pod
	knobPortsOwn      // 1: no two pods have the same
	knobTainted       // every so manieth node has a taint
	knobTolerant      // every so manieth pod tolerates it
	knobExcludedNodes // nodes that each pod names since it may not go there, eight for each
	knobExistingPods  // every so manieth node has a pod that shuns a kind of the group's pods
	knobUnlabelled    // every so manieth node lacks labels
	knobTopology      // what the group asks for
	knobPolicy        // by which nodes are chosen
	knobInvalid       // every so manieth pod says something that cannot be; not below leastInvalid
	knobByNamespace   // 1: terms go for the pods of namespaces by their labels
	knobDoubleBudget  // 1: twice as much as usual is allowed

	knobs
)

// These are ways to choose keys of the nodes' labels.
const (
	hostnames byte = iota
	byZone
	byTheirOwn // another for each term
	byNone     // that no node has
	keyWays
)

// These are ways to select pods.
const (
	allOf    byte = iota
	oneOfAll      // one pod for each term, of the other half of the group
	theNext       // one pod for each term, those that come after it
	ofKinds       // a kind for each term
	ofFirst       // kind 0, whose pods have no terms
	itself
	nobody
	anybody // an empty selector, or none
	selectWays
)

const (
	// keysOfNodes is the number of label keys that nodes have, for terms that take a key each.
	keysOfNodes = 16
	// mostTerms is the maximum number of terms of a group. A fuzzer uses fewTerms instead, because
	// it gives up on an input after 10 s, and creating the pods must not take long.
	mostTerms, fewTerms = 80_000, 8_000
	// leastInvalid keeps most of a group valid: otherwise no attempt is made.
	leastInvalid = 16
)

// settings sets knobs.
type settings map[knob]byte

// bytes returns the settings as a fuzzer would draw them.
func (s settings) bytes() []byte {
	data := make([]byte, knobs)
	for k, v := range s {
		data[k] = v
	}
	return data
}

// randomCluster is a group and a cluster that are drawn from bytes.
type randomCluster struct {
	knobs [knobs]int
	pods  int
}

func randomClusterFrom(data []byte, terms int) randomCluster {
	var d randomCluster
	for i := range min(int(knobs), len(data)) {
		d.knobs[i] = int(data[i])
	}
	d.pods = 1 + 2*min(d.knobs[knobPods], 249)
	for _, k := range []knob{knobAntiAffinity, knobAffinity} {
		d.knobs[k] = min(d.knobs[k], terms/d.pods)
	}
	d.knobs[knobSpreads] %= 24
	d.knobs[knobPorts] %= 64
	if d.knobs[knobInvalid] < leastInvalid {
		d.knobs[knobInvalid] = 0
	}
	return d
}

// isEveryNth reports whether the i-th object is one of every n, where n is the value of the knob.
func (d randomCluster) isEveryNth(k knob, i int) bool { return d.knobs[k] > 0 && i%d.knobs[k] == 0 }

// value returns the i-th of the values, whose number is the value of the knob.
func (d randomCluster) value(k knob, i int) string { return strconv.Itoa(i % max(1, d.knobs[k])) }

func (d randomCluster) nodes() []*corev1.Node {
	nodes := make([]*corev1.Node, 1+4*min(d.knobs[knobNodes], 249))
	for i := range nodes {
		n := objects.ReadyNode(fmt.Sprintf("n%04d", i), 4+int64(i%5))
		if !d.isEveryNth(knobUnlabelled, i) {
			n.Labels[objects.ZoneKey], n.Labels["slice"] = d.value(knobZones, i), d.value(knobSlices, i)
			for k := range keysOfNodes {
				n.Labels[fmt.Sprint("key", k)] = strconv.Itoa((i/(k+1) + k) % (7 + k))
			}
		}
		if d.isEveryNth(knobTainted, i) {
			n.Spec.Taints = []corev1.Taint{{Key: "own", Effect: corev1.TaintEffectNoSchedule}}
		}
		nodes[i] = n
	}
	return nodes
}

func (d randomCluster) podGroup() *scheduling.PodGroup {
	pg := aPodGroup(g.Name, int32(max(1, d.pods-d.knobs[knobOptional])), "pg")
	pg.Annotations = map[string]string{}
	pg.Annotations[[]string{"", group.TopologyRequiredAnnotation, group.TopologyPreferredAnnotation, group.TopologyBalancedAnnotation, group.ExclusiveAnnotation}[d.knobs[knobTopology]%5]] =
		[]string{"node", "true", "no level"}[d.knobs[knobTopology]/5%3]
	delete(pg.Annotations, "")
	if n := d.knobs[knobPolicy]; n > 0 {
		pg.Annotations[group.MatchPolicyAnnotation] = append(match.Policies(), "never heard of")[n%(1+len(match.Policies()))]
	}
	return pg
}

// waitingAndRunningPods returns the pods of the group, and other pods that run already.
func (d randomCluster) waitingAndRunningPods() (waiting, running []*corev1.Pod) {
	for i := range d.pods {
		waiting = append(waiting, d.pod(i))
	}
	for i := range 1 + 4*min(d.knobs[knobNodes], 249) {
		if d.isEveryNth(knobExistingPods, i) {
			running = append(running, objects.Pod(fmt.Sprintf("there-%d", i), objects.OnNode(fmt.Sprintf("n%04d", i)), objects.OfApp("x"), func(p *corev1.Pod) {
				p.Labels["kind"] = d.value(knobKinds, i)
				p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
					{TopologyKey: corev1.LabelHostname, LabelSelector: d.selector(ofKinds, i, 1)},
				}}}
			}))
		}
	}
	return waiting, running
}

func (d randomCluster) pod(i int) *corev1.Pod {
	p := objects.Pod(fmt.Sprintf("g-%03d", i), objects.InGroup(g.Name), objects.CPU(fmt.Sprintf("%dm", 1+i%(1+2*d.knobs[knobRequests]))))
	p.Labels["app"], p.Labels["id"], p.Labels["kind"] = "g", strconv.Itoa(i), d.value(knobKinds, i)
	p.Spec.Affinity = &corev1.Affinity{}
	if terms := d.terms(knobAntiAffinity, i); terms != nil {
		p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
	}
	if terms := d.terms(knobAffinity, i); terms != nil {
		p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
	}
	for k := range d.knobs[knobSpreads] {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, d.spread(i, k))
	}
	for k := range d.knobs[knobPorts] {
		n := 1 + k
		if d.knobs[knobPortsOwn]%2 == 1 {
			n += i * d.knobs[knobPorts]
		}
		ip := []string{"", "0.0.0.0", "10.0.0.1", "10.0.0.2"}[(i+k)%4]
		p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{HostPort: int32(n), HostIP: ip, Protocol: []corev1.Protocol{"", "UDP"}[k%2]})
	}
	if d.knobs[knobSlices] > 0 {
		p.Spec.NodeSelector = map[string]string{"slice": d.value(knobSlices, i)}
	}
	if n := 8 * d.knobs[knobExcludedNodes]; n > 0 {
		var names []string
		for k := range n {
			names = append(names, fmt.Sprintf("n%04d", (i*n+k)%1000))
		}
		p.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: names}}},
		}}}
	}
	if d.isEveryNth(knobTolerant, i) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "own", Operator: corev1.TolerationOpExists}}
	}
	if d.isEveryNth(knobInvalid, i) {
		invalidEdits[i/d.knobs[knobInvalid]%len(invalidEdits)](p)
	}
	return p
}

// invalidEdits are edits that no API server would accept, or no user would want.
var invalidEdits = []func(*corev1.Pod){
	func(p *corev1.Pod) { p.Labels[group.Label] = "no name at all!" },
	func(p *corev1.Pod) { p.Labels[group.SizeLabel] = "-1" },
	func(p *corev1.Pod) { p.Labels[group.MinLabel] = "99999999999999999999" },
	func(p *corev1.Pod) { p.Annotations = map[string]string{group.TopologyRequiredAnnotation: "\x00"} },
	func(p *corev1.Pod) { p.Annotations = map[string]string{group.ExclusiveAnnotation: "perhaps"} },
	func(p *corev1.Pod) {
		p.Annotations = map[string]string{group.IncompletePolicyAnnotation: "explode", group.IncompleteTimeoutAnnotation: "-3h"}
	},
	func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: -1, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{},
		})
	},
	func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: objects.ZoneKey, WhenUnsatisfiable: corev1.DoNotSchedule, MatchLabelKeys: []string{"", "id"},
			LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}},
		})
	},
	func(p *corev1.Pod) {
		p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{}}}
	},
	func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("-1")
	},
	func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests["example.com/none"] = resource.MustParse("9Ei")
	},
	func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: -1, HostIP: "nowhere", Protocol: "QUIC"}}
	},
}

// terms returns the affinity terms of the i-th pod, for the knobs of anti-affinity or of affinity.
func (d randomCluster) terms(of knob, i int) []corev1.PodAffinityTerm {
	way := byte(d.knobs[of+2])
	if way%selectWays == ofFirst && d.value(knobKinds, i) == "0" {
		return nil
	}
	var terms []corev1.PodAffinityTerm
	for k := range d.knobs[of] {
		t := corev1.PodAffinityTerm{TopologyKey: d.key(of+1, k), LabelSelector: d.selector(way, i, k)}
		if d.knobs[knobByNamespace]%2 == 1 {
			t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{group.WholeNodesLabel: group.WholeNodesAllowed}}
		}
		terms = append(terms, t)
	}
	return terms
}

func (d randomCluster) spread(i, k int) corev1.TopologySpreadConstraint {
	c := corev1.TopologySpreadConstraint{
		MaxSkew: 1, TopologyKey: d.key(knobSpreadKeys, k), WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: d.selector(byte(d.knobs[knobSpreadAmong]), i, k),
	}
	if d.knobs[knobSpreadSkews]%2 == 1 {
		c.MaxSkew = int32(2 + i)
	}
	if d.knobs[knobSpreadOdd]%2 == 1 {
		ignore, honour, least := corev1.NodeInclusionPolicyIgnore, corev1.NodeInclusionPolicyHonor, int32(1+i%9)
		c.NodeAffinityPolicy, c.NodeTaintsPolicy, c.MinDomains, c.MatchLabelKeys = &ignore, &honour, &least, []string{"kind"}
		if k%3 == 2 {
			c.WhenUnsatisfiable = corev1.ScheduleAnyway
		}
	}
	return c
}

func (d randomCluster) key(way knob, k int) string {
	switch byte(d.knobs[way]) % keyWays {
	case hostnames:
		return corev1.LabelHostname
	case byZone:
		return objects.ZoneKey
	case byTheirOwn:
		return fmt.Sprint("key", k)
	default:
		return "none"
	}
}

func (d randomCluster) selector(way byte, i, k int) *metav1.LabelSelector {
	of := func(key, value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	}
	half := max(1, d.pods/2)
	switch way % selectWays {
	case allOf:
		return of("app", "g")
	case oneOfAll:
		first := half
		if i >= half {
			first = 0
		}
		return of("id", strconv.Itoa(first+k%half))
	case theNext:
		return of("id", strconv.Itoa((i+1+k)%d.pods))
	case ofKinds:
		return of("kind", d.value(knobKinds, i+k))
	case ofFirst:
		return of("kind", "0")
	case itself:
		return of("id", strconv.Itoa(i))
	case nobody:
		return of("app", "nobody")
	default:
		return []*metav1.LabelSelector{{}, nil}[k%2]
	}
}
