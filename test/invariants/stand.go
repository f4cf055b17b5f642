package invariants

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// A said is the text of the annotations on how the pods of a group are to be placed.
type said struct{ required, preferred, balanced, exclusive, policy string }

func saidOf(annotations map[string]string) said {
	return said{
		required:  annotations[requiredAnnotation],
		preferred: annotations[preferredAnnotation],
		balanced:  annotations[balancedAnnotation],
		exclusive: annotations[exclusiveAnnotation],
		policy:    annotations[matchPolicyAnnotation],
	}
}

// or fills the empty fields of s from another.
func (s said) or(o said) said {
	for _, f := range []struct {
		is    *string
		other string
	}{{&s.required, o.required}, {&s.preferred, o.preferred}, {&s.balanced, o.balanced}, {&s.exclusive, o.exclusive}, {&s.policy, o.policy}} {
		if *f.is == "" {
			*f.is = f.other
		}
	}
	return s
}

// whole reports whether the group is exclusive.
func (s said) whole() bool {
	return s.exclusive == "true" || slices.Contains([]string{"firstnodex", "lonodex", "hinodex"}, s.policy)
}

// wrong returns the first value that names no level, or is no valid
// value. It returns "" if there is none. The levels are label keys.
func (s said) wrong(levels []string) string {
	names := []string{}
	for _, one := range []string{s.required, s.balanced} {
		if one != "" {
			names = append(names, one)
		}
	}
	if s.preferred != "" {
		for name := range strings.SplitSeq(s.preferred, ",") {
			names = append(names, strings.TrimSpace(name))
		}
	}
	for _, name := range names {
		if keysTo(name, levels) == nil {
			return name
		}
	}
	if e := s.exclusive; e != "" && e != "true" && e != "false" {
		return e
	}
	return ""
}

// keysTo returns the labels by whose values a domain of a level differs from all
// others: the level's label and the labels of the levels around it. For the level
// of the nodes that is the host name. It returns nil if there is no such level.
func keysTo(name string, levels []string) []string {
	if name == levelNode {
		return []string{corev1.LabelHostname}
	}
	for i, key := range levels {
		if name == key || name != "" && name == key[strings.LastIndex(key, "/")+1:] {
			return levels[:i+1]
		}
	}
	return nil
}

// A term selects pods of one namespace, in the domains of a label.
type term struct {
	key     string
	selects labels.Selector
}

// A spread is a constraint. It bounds how many more
// of the selected pods one domain has than another.
type spread struct {
	term
	most int
}

// A port is a host port of a pod.
type port struct {
	number   int32
	protocol corev1.Protocol
}

// A stand is where a pod may be placed with regard to
// other pods, by the constraints that the rules judge.
type stand struct {
	apart, together []term
	spreads         []spread
	ports           []port
	// suits are the nodes that the pod's node selector and node affinity allow.
	suits nodeaffinity.RequiredNodeAffinity
}

func standOf(p *corev1.Pod) stand {
	s := stand{suits: nodeaffinity.GetRequiredNodeAffinity(p)}
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		s.apart = termsOf(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	if a := p.Spec.Affinity; a != nil && a.PodAffinity != nil {
		s.together = termsOf(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	for _, c := range p.Spec.TopologySpreadConstraints {
		odd := c.MinDomains != nil || c.NodeAffinityPolicy != nil || c.NodeTaintsPolicy != nil || len(c.MatchLabelKeys) > 0
		if selects, err := metav1.LabelSelectorAsSelector(c.LabelSelector); err == nil && !odd && c.WhenUnsatisfiable == corev1.DoNotSchedule {
			s.spreads = append(s.spreads, spread{term{c.TopologyKey, selects}, int(c.MaxSkew)})
		}
	}
	for _, c := range p.Spec.Containers {
		for _, of := range c.Ports {
			if of.HostPort > 0 && of.HostIP == "" {
				s.ports = append(s.ports, port{of.HostPort, of.Protocol})
			}
		}
	}
	return s
}

// termsOf returns the terms that select pods in the pod's namespace alone.
func termsOf(all []corev1.PodAffinityTerm) (terms []term) {
	for _, t := range all {
		odd := len(t.Namespaces) > 0 || t.NamespaceSelector != nil || len(t.MatchLabelKeys) > 0 || len(t.MismatchLabelKeys) > 0
		if selects, err := metav1.LabelSelectorAsSelector(t.LabelSelector); err == nil && !odd {
			terms = append(terms, term{t.TopologyKey, selects})
		}
	}
	return terms
}
