package interpod

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/translate"
	"github.com/flux-k8s/fluence/test/objects"
)

// nodeWith is a node and the pods on it.
type nodeWith struct {
	node *corev1.Node
	pods []*corev1.Pod
}

func aNode(name string, edit ...func(*corev1.Node)) *nodeWith {
	return &nodeWith{node: objects.ReadyNode(name, 8, edit...)}
}

func (n *nodeWith) with(pods ...*corev1.Pod) *nodeWith {
	n.pods = append(n.pods, pods...)
	return n
}

// asShape builds a shape of n pods.
func asShape(n int, edit ...func(*corev1.Pod)) *Shape {
	s := &Shape{Required: int64(n)}
	for i := range n {
		s.Pods = append(s.Pods, objects.Pod(fmt.Sprintf("p-%d", i), edit...))
	}
	return s
}

// constraintsOn returns the constraints among shapes on these nodes. Each namespace
// has its name as a label.
func constraintsOn(t *testing.T, there []*nodeWith, levels []string, shapes ...*Shape) *Constraints {
	t.Helper()
	parsed, err := translate.ParseLevels(levels)
	if err != nil {
		t.Fatal(err)
	}
	var nodes []fwk.NodeInfo
	for _, n := range there {
		info := schedulerframework.NewNodeInfo(n.pods...)
		info.SetNode(n.node)
		nodes = append(nodes, info)
	}
	s, err := Find(shapes, "", nodes, parsed, func(ns string) labels.Set { return labels.Set{"name": ns} }, neverOverBudget)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func without(key string) func(*corev1.Node) {
	return func(n *corev1.Node) { delete(n.Labels, key) }
}

// withAntiAffinity keeps a pod away from the domains of a key with pods of an app: pods of its
// namespace, or of namespaces by their label.
func withAntiAffinity(key, app string, namespace ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		term := objects.TermOn(key, app)
		for _, ns := range namespace {
			term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"name": ns}}
		}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
	}
}

func TestAntiAffinityBecomesLimits(t *testing.T) {
	zones := []*nodeWith{aNode("n0", objects.InZone("a")), aNode("n1", objects.InZone("a")), aNode("n2", objects.InZone("b"))}
	perNode := func(name string) jobspec.Limit { return jobspec.Limit{Name: name, Level: "node", Most: 1} }
	udp := func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].Protocol = corev1.ProtocolUDP }
	cases := map[string]struct {
		nodes  []*nodeWith
		levels []string
		shapes []*Shape
		want   [][]jobspec.Limit
	}{
		"anti-affinity by hostname is one to a node": {
			nodes: zones, shapes: []*Shape{asShape(3, objects.OfApp("x"), withAntiAffinity(corev1.LabelHostname, "x"))},
			want: [][]jobspec.Limit{{perNode("apart-0-0")}},
		},
		"anti-affinity to others is none": {
			nodes: zones, shapes: []*Shape{asShape(3, objects.OfApp("x"), withAntiAffinity(corev1.LabelHostname, "y"))},
			want: [][]jobspec.Limit{nil},
		},
		"of pods in another namespace is none": {
			nodes: zones, shapes: []*Shape{asShape(3, objects.OfApp("x"), withAntiAffinity(corev1.LabelHostname, "x", "elsewhere"))},
			want: [][]jobspec.Limit{nil},
		},
		"of pods in all namespaces with a label is some": {
			nodes: zones, shapes: []*Shape{asShape(3, objects.OfApp("x"), withAntiAffinity(corev1.LabelHostname, "x", objects.Namespace))},
			want: [][]jobspec.Limit{{perNode("apart-0-0")}},
		},
		"a configured level is named": {
			nodes: zones, levels: []string{objects.ZoneKey}, shapes: []*Shape{asShape(2, objects.OfApp("x"), withAntiAffinity(objects.ZoneKey, "x"))},
			want: [][]jobspec.Limit{{{Name: "apart-0-0", Level: "zone", Most: 1}}},
		},
		"any other key is value by value": {
			nodes: zones, shapes: []*Shape{asShape(2, objects.OfApp("x"), withAntiAffinity(objects.ZoneKey, "x"))},
			want: [][]jobspec.Limit{{{Name: "apart-0-0", Hosts: []string{"n[0-1]", "n2"}, Most: 1}}},
		},
		"a level that a node lacks is value by value too: that node is no domain": {
			nodes: append(slices.Clone(zones), aNode("n3")), levels: []string{objects.ZoneKey}, shapes: []*Shape{asShape(2, objects.OfApp("x"), withAntiAffinity(objects.ZoneKey, "x"))},
			want: [][]jobspec.Limit{{{Name: "apart-0-0", Hosts: []string{"n[0-1]", "n2"}, Most: 1}}},
		},
		"a value below two vertices is one domain": {
			nodes:  []*nodeWith{aNode("n0", objects.InZone("a"), ofKind("k")), aNode("n1", objects.InZone("b"), ofKind("k"))},
			levels: []string{objects.ZoneKey, "kind"}, shapes: []*Shape{asShape(2, objects.OfApp("x"), withAntiAffinity("kind", "x"))},
			want: [][]jobspec.Limit{{{Name: "apart-0-0", Hosts: []string{"n[0-1]"}, Most: 1}}},
		},
		"nodes with no hostname are no domain": {
			nodes: []*nodeWith{aNode("n0"), aNode("n1", without(corev1.LabelHostname))}, shapes: []*Shape{asShape(2, objects.OfApp("x"), withAntiAffinity(corev1.LabelHostname, "x"))},
			want: [][]jobspec.Limit{{{Name: "apart-0-0", Hosts: []string{"n0"}, Most: 1}}},
		},
		"two shapes that shun each other and their like share a limit": {
			nodes: zones, shapes: []*Shape{asShape(2, objects.OfApp("x"), withAntiAffinity(corev1.LabelHostname, "x")), asShape(2, objects.OfApp("x"), objects.CPU("2"), withAntiAffinity(corev1.LabelHostname, "x"))},
			want: [][]jobspec.Limit{{perNode("apart-0-0")}, {perNode("apart-0-0")}},
		},
		"one that is shunned by a single one, and a single one itself, share one": {
			nodes: zones, shapes: []*Shape{asShape(1, objects.OfApp("l"), withAntiAffinity(corev1.LabelHostname, "x")), asShape(1, objects.OfApp("x"))},
			want: [][]jobspec.Limit{{perNode("apart-0-0")}, {perNode("apart-0-0")}},
		},
		"who is shunned comes before who shuns": {
			nodes: zones, shapes: []*Shape{asShape(1, objects.OfApp("x")), asShape(1, objects.OfApp("l"), withAntiAffinity(corev1.LabelHostname, "x"))},
			want: [][]jobspec.Limit{{perNode("apart-0-0")}, {perNode("apart-0-0")}},
		},
		"beside two that share a limit, several that may share a node": {
			nodes: zones, shapes: []*Shape{
				asShape(1, objects.OfApp("x"), withAntiAffinity(corev1.LabelHostname, "x")), asShape(1, objects.OfApp("x"), objects.CPU("2"), withAntiAffinity(corev1.LabelHostname, "x")), asShape(2, objects.OfApp("x"), objects.CPU("3")),
			},
			want: [][]jobspec.Limit{{perNode("apart-0-0")}, {perNode("apart-0-0")}, nil},
		},
		"several that may share a node with their like are not limited by who shuns them": {
			nodes: zones, shapes: []*Shape{asShape(1, objects.OfApp("l"), withAntiAffinity(corev1.LabelHostname, "x")), asShape(2, objects.OfApp("x"))},
			want: [][]jobspec.Limit{nil, nil},
		},
		"a host port is one to a node, for all that have it": {
			nodes: zones, shapes: []*Shape{asShape(2, objects.HostPort(80)), asShape(1, objects.HostPort(80), objects.CPU("2")), asShape(1, objects.HostPort(81))},
			want: [][]jobspec.Limit{{perNode("ports-0")}, {perNode("ports-0")}, nil},
		},
		"another protocol is another port": {
			nodes: zones, shapes: []*Shape{asShape(1, objects.HostPort(80)), asShape(1, objects.HostPort(80), udp)},
			want: [][]jobspec.Limit{nil, nil},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := constraintsOn(t, tc.nodes, tc.levels, tc.shapes...).apartLimits(); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("limits = %+v\nwant     %+v", got, tc.want)
			}
		})
	}
}

func TestAffinityBecomesColocation(t *testing.T) {
	zones := func() []*nodeWith {
		return []*nodeWith{aNode("n0", objects.InZone("a")), aNode("n1", objects.InZone("b")), aNode("n2", objects.InZone("b")), aNode("n3")}
	}
	labelledAll := zones()[:3]
	rack := &jobspec.Topology{Required: "rack"}
	inOne := &jobspec.Topology{Required: "zone"}
	cases := map[string]struct {
		nodes  []*nodeWith
		levels []string
		own    *jobspec.Topology
		shapes []*Shape
		// want is, by colocation and shape, the topology or the hosts.
		want [][]any
		// eased says for which shapes the filters do not see the affinity.
		eased []bool
	}{
		"a level of the graph is required": {
			nodes: labelledAll, levels: []string{objects.ZoneKey}, shapes: []*Shape{asShape(2, objects.OfApp("x"), objects.NextTo(objects.ZoneKey, "x"))},
			want: [][]any{{inOne}}, eased: []bool{false},
		},
		"another key is tried value by value, the largest first": {
			nodes: zones(), shapes: []*Shape{asShape(2, objects.OfApp("x"), objects.NextTo(objects.ZoneKey, "x"))},
			want: [][]any{{[]string{"n1", "n2"}}, {[]string{"n0"}}}, eased: []bool{false},
		},
		"another level required by the group goes with it value by value": {
			nodes: labelledAll, levels: []string{objects.ZoneKey}, own: rack, shapes: []*Shape{asShape(2, objects.OfApp("x"), objects.NextTo(objects.ZoneKey, "x"))},
			want: [][]any{{[]string{"n1", "n2"}}, {[]string{"n0"}}}, eased: []bool{false},
		},
		"pods there that meet it leave it to the filters": {
			nodes: append(labelledAll[:2:2], labelledAll[2], aNode("n4").with(objects.Pod("old", objects.OfApp("x")))), shapes: []*Shape{asShape(2, objects.OfApp("x"), objects.NextTo(objects.ZoneKey, "x"))},
			want: [][]any{{nil}}, eased: []bool{false},
		},
		"those of other namespaces do not meet it": {
			nodes: []*nodeWith{aNode("n0", objects.InZone("a")).with(objects.Pod("old", objects.OfApp("x"), objects.Elsewhere))}, shapes: []*Shape{asShape(2, objects.OfApp("x"), objects.NextTo(objects.ZoneKey, "x"))},
			want: [][]any{{&jobspec.Topology{Required: "node"}}}, eased: []bool{false},
		},
		"workers go with their leader": {
			nodes: labelledAll, levels: []string{objects.ZoneKey}, shapes: []*Shape{asShape(2, objects.OfApp("w"), objects.NextTo(objects.ZoneKey, "l")), asShape(1, objects.OfApp("l"))},
			want: [][]any{{inOne, inOne}}, eased: []bool{true, false},
		},
		"whom nobody meets is left to the filters": {
			nodes: labelledAll, shapes: []*Shape{asShape(2, objects.OfApp("w"), objects.NextTo(objects.ZoneKey, "l"))},
			want: [][]any{{nil}}, eased: []bool{false},
		},
		"some of the shapes are bound by hosts where the group has a topology of its own": {
			nodes: labelledAll, levels: []string{objects.ZoneKey}, own: &jobspec.Topology{Balanced: "zone"},
			shapes: []*Shape{asShape(2, objects.OfApp("x"), objects.NextTo(objects.ZoneKey, "x")), asShape(1, objects.OfApp("y"))},
			want:   [][]any{{[]string{"n1", "n2"}, nil}, {[]string{"n0"}, nil}}, eased: []bool{false, false},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := constraintsOn(t, tc.nodes, tc.levels, tc.shapes...)
			var got [][]any
			for _, b := range s.colocations(tc.own, make([]map[string]bool, len(tc.shapes))) {
				var each []any
				for i := range tc.shapes {
					switch {
					case b.hosts[i] != nil:
						each = append(each, b.hosts[i])
					case b.topology[i] != tc.own:
						each = append(each, b.topology[i])
					default:
						each = append(each, nil)
					}
				}
				got = append(got, each)
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("bonds = %v, want %v", got, tc.want)
			}
			for i, pod := range s.Relaxed {
				if eased := pod != tc.shapes[i].Pods[0]; eased != tc.eased[i] {
					t.Errorf("shape %d: eased %v, want %v", i, eased, tc.eased[i])
				}
			}
		})
	}
}

func TestNewReturnsNilWithoutPodConstraints(t *testing.T) {
	claim := corev1.Volume{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}
	cases := map[string]struct {
		edit func(*corev1.Pod)
		want bool
	}{
		"nothing":         {edit: func(*corev1.Pod) {}},
		"a toleration":    {edit: func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "k"}} }},
		"a node selector": {edit: func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} }},
		"a config map":    {edit: func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "v"}} }},
		"a preferred spread": {edit: func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{WhenUnsatisfiable: corev1.ScheduleAnyway}}
		}},
		"a spread":            {edit: objects.SpreadOver(objects.ZoneKey, "x", 1), want: true},
		"anti-affinity":       {edit: withAntiAffinity(objects.ZoneKey, "x"), want: true},
		"affinity":            {edit: objects.NextTo(objects.ZoneKey, "x"), want: true},
		"a host port":         {edit: objects.HostPort(80), want: true},
		"a claim of a volume": {edit: func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{claim} }, want: true},
		"a claim of devices":  {edit: func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c"}} }, want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := hasPodConstraints(objects.Pod("p", tc.edit)); got != tc.want {
				t.Errorf("a filter could object: %v, want %v", got, tc.want)
			}
		})
	}
}

// A term may have thousands of requirements, and there may be as many existing pods.
func TestComparisonWithExistingPodsStopsWithTheBudget(t *testing.T) {
	node := aNode("n1")
	for i := range 1000 {
		node.with(objects.Pod(fmt.Sprint("there-", i)))
	}
	s := constraintsOn(t, []*nodeWith{node}, nil, asShape(1, objects.NextTo(corev1.LabelHostname, "none")))
	looks := 0
	s.isOverBudget = func() bool { looks++; return looks > 100 }
	s.findColocated()
	if looks < 100 || looks > 110 {
		t.Errorf("it has asked %d times, want it to end after 100", looks)
	}
}

// The same holds for the nodes of each constraint, with the pods on them.
func TestSpreadDomainsStopWithTheBudget(t *testing.T) {
	var nodes []*nodeWith
	for i := range 1000 {
		nodes = append(nodes, aNode(fmt.Sprint("n-", i)))
	}
	s := constraintsOn(t, nodes, nil, asShape(2, objects.OfApp("x"), objects.SpreadOver(corev1.LabelHostname, "x", 1)))
	looks := 0
	s.isOverBudget = func() bool { looks++; return looks > 100 }
	if err := s.findSpreads(); err != nil || looks < 100 || looks > 110 {
		t.Errorf("it has asked %d times, want it to end after 100; %v", looks, err)
	}
}
