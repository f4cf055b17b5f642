package chaos

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What users write, by docs/topology.md.
const (
	requiredAnnotation  = "fluence.flux-framework.org/topology-required"
	preferredAnnotation = "fluence.flux-framework.org/topology-preferred"
	balancedAnnotation  = "fluence.flux-framework.org/topology-balanced"
	wholeNodesLabel     = "fluence.flux-framework.org/whole-nodes"
	exclusiveAnnotation = "fluence.flux-framework.org/exclusive"
)

// rackLabel makes the level below the zones. Not every node has one.
const rackLabel = "topology.example.com/rack"

// racks is how many names of racks each zone has. The number after the last is none.
const racks = 2

// levels are the scheduler's topologyLevels.
func levels() []string { return []string{corev1.LabelTopologyZone, rackLabel} }

// putInRack labels a node with a rack, unless the number is that of none.
func putInRack(labels map[string]string, n int) {
	if n < racks {
		labels[rackLabel] = rackName(n)
	}
}

func rackName(n int) string { return fmt.Sprintf("rack-%d", n) }

// portsFrom is the first of the host ports, of which there are so many.
const (
	portsFrom = 31000
	ports     = 3
)

// memberLabel numbers bare pods, so that one that was deleted can be made again.
const memberLabel = "chaos-member"

// A Stand is how the members of a group are to stand to each other. The zero value
// says nothing.
type Stand struct {
	// Apart: required anti-affinity by hostname.
	Apart bool
	// Port is a host port; 0 for none.
	Port int
	// Spread: over the zones with maxSkew 1, DoNotSchedule.
	Spread bool
	// Together: required affinity by zone.
	Together bool
	// ByName selects also pods of groups that had the name before.
	ByName bool
	// Required, Preferred, Balanced and Exclusive are annotations, empty for none.
	Required, Preferred, Balanced, Exclusive string
	// OnPodGroup puts the annotations on the PodGroup, where that is the user's own.
	OnPodGroup bool
	// Unknown: one of the annotations names no level, or says nothing.
	Unknown bool
	// Other is what every second member asks for, and every Tolerant-th tolerates the
	// taints that come and go, of bare pods; nil and 0 for none.
	Other    *Shape
	Tolerant int
}

// names are those of what a stand says, for figures.
func (s Stand) names() (all []string) {
	for _, f := range []struct {
		say  bool
		name string
	}{
		{s.Apart, "apart"},
		{s.Port > 0, "port"},
		{s.Spread, "spread"},
		{s.Together, "together"},
		{s.Required != "" && !s.Unknown, "required"},
		{s.Preferred != "" && !s.Unknown, "preferred"},
		{s.Balanced != "" && !s.Unknown, "balanced"},
		{s.Exclusive != "" && !s.Unknown, "exclusive"},
		{s.Unknown, "unknown"},
		{s.Other != nil, "two-shapes"},
		{s.Tolerant > 0, "some-tolerate"},
	} {
		if f.say {
			all = append(all, f.name)
		}
	}
	return all
}

// String names all that it says.
func (s Stand) String() string {
	words := s.names()
	for _, f := range []struct {
		say   bool
		name  string
		value any
	}{
		{s.Port > 0, "port", s.Port},
		{s.ByName, "by-name", true},
		{s.Required != "", requiredAnnotation, s.Required},
		{s.Preferred != "", preferredAnnotation, s.Preferred},
		{s.Balanced != "", balancedAnnotation, s.Balanced},
		{s.Exclusive != "", exclusiveAnnotation, s.Exclusive},
		{s.OnPodGroup, "on-podgroup", true},
		{s.Tolerant > 0, "tolerant", s.Tolerant},
	} {
		if f.say {
			words = append(words, fmt.Sprintf("%s=%v", f.name[strings.LastIndex(f.name, "/")+1:], f.value))
		}
	}
	if s.Other != nil {
		words = append(words, fmt.Sprintf("other=%v", *s.Other))
	}
	return strings.Join(words, " ")
}

// standShare is how many of a hundred groups of several pods say how they stand, which
// is about a third of all groups.
const standShare = 60

// drawStand draws it, and a request that leaves it a chance.
func drawStand(d *dice, w *Workload) {
	drawOneStand(d, &w.Stand)
	if d.chance(20) {
		drawOneStand(d, &w.Stand)
	}
	w.Stand.ByName, w.Stand.OnPodGroup = d.chance(25), d.chance(50)
	if request := oneOf(d, 250, 500, 1000, 2000); w.Worker.MilliCPU > 2000 {
		w.Worker = Shape{MilliCPU: request, MiB: 128}
	}
	if w.Maker != Pods {
		return
	}
	if d.chance(40) {
		w.Stand.Other = &Shape{MilliCPU: oneOf(d, 300, 1500, 3000), MiB: 256}
	}
	if d.chance(40) {
		w.Stand.Tolerant = d.between(2, 3)
	}
}

func drawOneStand(d *dice, s *Stand) {
	level := oneOf(d, "zone", corev1.LabelTopologyZone, "zone", "rack", rackLabel, "node")
	switch n := d.IntN(100); {
	case n < 16:
		s.Apart = true
	case n < 30:
		s.Port = portsFrom + d.IntN(ports)
	case n < 48:
		s.Spread = true
	case n < 60:
		s.Together = true
	case n < 75:
		s.Required = level
	case n < 82:
		s.Balanced = level
	case n < 88:
		s.Preferred = oneOf(d, "rack", "zone, rack", corev1.LabelTopologyZone, "node")
	case n < 94:
		s.Exclusive = "true"
	default:
		s.Unknown = true
		switch d.IntN(4) {
		case 0:
			s.Preferred = "zone, row"
		case 1:
			s.Balanced = "example.com/row"
		case 2:
			s.Exclusive = "perhaps"
		default:
			s.Required = "row"
		}
	}
}

// annotations are those that a stand asks for.
func (s Stand) annotations() map[string]string {
	a := map[string]string{}
	for key, value := range map[string]string{
		requiredAnnotation: s.Required, preferredAnnotation: s.Preferred, balancedAnnotation: s.Balanced, exclusiveAnnotation: s.Exclusive,
	} {
		if value != "" {
			a[key] = value
		}
	}
	return a
}

// put writes the fields of a pod that a stand asks for.
func (s Stand) put(t *corev1.PodTemplateSpec) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{serialLabel: t.Labels[serialLabel]}}
	if s.ByName {
		selector.MatchLabels = map[string]string{workloadLabel: t.Labels[workloadLabel]}
	}
	if s.Apart || s.Together {
		t.Spec.Affinity = &corev1.Affinity{}
	}
	if s.Apart {
		t.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{LabelSelector: selector, TopologyKey: corev1.LabelHostname},
		}}
	}
	if s.Together {
		t.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{LabelSelector: selector, TopologyKey: corev1.LabelTopologyZone},
		}}
	}
	if s.Spread {
		t.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector,
		}}
	}
	if s.Port > 0 {
		t.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: int32(s.Port), HostPort: int32(s.Port)}}
	}
}

// shape is what the i-th of the bare pods of a group asks for.
func (w Workload) shape(i int) Shape {
	switch {
	case w.Leader != nil && i == w.Workers:
		return *w.Leader
	case w.Stand.Other != nil && i%2 == 1:
		return *w.Stand.Other
	default:
		return w.Worker
	}
}

// number reads the number of a bare pod.
func number(p *corev1.Pod) int {
	n, _ := strconv.Atoi(p.Labels[memberLabel])
	return n
}
