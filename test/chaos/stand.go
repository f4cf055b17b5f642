package chaos

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// These are the names that users write, by docs/topology.md.
const (
	requiredAnnotation  = "fluence.flux-framework.org/topology-required"
	preferredAnnotation = "fluence.flux-framework.org/topology-preferred"
	balancedAnnotation  = "fluence.flux-framework.org/topology-balanced"
	wholeNodesLabel     = "fluence.flux-framework.org/whole-nodes"
	exclusiveAnnotation = "fluence.flux-framework.org/exclusive"
)

// rackLabel is the level below the zones. Some nodes have no rack.
const rackLabel = "topology.example.com/rack"

// racks is the number of names of racks. The number after the last means no rack.
const racks = 2

// levels returns the scheduler's topologyLevels.
func levels() []string { return []string{corev1.LabelTopologyZone, rackLabel} }

// putInRack labels a node with a rack, unless the number means no rack.
func putInRack(labels map[string]string, n int) {
	if n < racks {
		labels[rackLabel] = rackName(n)
	}
}

func rackName(n int) string { return fmt.Sprintf("rack-%d", n) }

// portsFrom is the first host port that groups use. ports is the number of host ports.
const (
	portsFrom = 31000
	ports     = 3
)

// memberLabel has the number of a bare pod, so that a deleted one can be created again.
const memberLabel = "chaos-member"

// A Stand is the constraints on where a group's members are placed with
// regard to each other and to other groups. The zero value has none.
type Stand struct {
	// Apart is required anti-affinity by hostname.
	Apart bool
	// Port is a host port. Zero means none.
	Port int
	// Spread is a constraint over the zones with maxSkew 1 and DoNotSchedule.
	Spread bool
	// Together is required affinity by zone.
	Together bool
	// ByName makes the selectors match pods of earlier groups with the same name too.
	ByName bool
	// Required, Preferred, Balanced and Exclusive are annotations. An empty one is left out.
	Required, Preferred, Balanced, Exclusive string
	// OnPodGroup puts the annotations on the user's own PodGroup, if there is one.
	OnPodGroup bool
	// Unknown reports whether one of the annotations names no level, or has no valid value.
	Unknown bool
	// Other is the shape of every second bare pod. Nil means that all are alike.
	Other *Shape
	// Tolerant makes every Tolerant-th bare pod tolerate
	// the taints that come and go. Zero means none.
	Tolerant int
}

// names returns the names of the constraints, for statistics.
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

// String returns all constraints.
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

// standShare is the percentage of groups of several pods
// that get a Stand. That is about a third of all groups.
const standShare = 60

// drawStand draws a Stand, and a request small enough for the group to be placed.
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

// annotations returns the annotations of a Stand.
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

// put writes the pod fields of a Stand.
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

// shape returns the shape of the i-th bare pod of a group.
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

// number returns the number of a bare pod.
func number(p *corev1.Pod) int {
	n, _ := strconv.Atoi(p.Labels[memberLabel])
	return n
}
