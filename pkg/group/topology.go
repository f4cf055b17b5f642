package group

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/match"
)

// The annotations that say how the pods of a group stand together. A level is named
// by the type of its vertices or by its label key; see Level.
const (
	// TopologyRequiredAnnotation names the level of which all pods are to stand on one
	// vertex.
	TopologyRequiredAnnotation = "fluence.flux-framework.org/topology-required"
	// TopologyPreferredAnnotation lists levels, by commas, of which the pods are to
	// stand on as few vertices as can be, the first before the next.
	TopologyPreferredAnnotation = "fluence.flux-framework.org/topology-preferred"
	// TopologyBalancedAnnotation names the level over whose vertices the pods are spread
	// in equal shares, over as few as can be.
	TopologyBalancedAnnotation = "fluence.flux-framework.org/topology-balanced"
	// ExclusiveAnnotation, if "true", gives the group whole nodes: its policy becomes
	// the one of the same order that takes them.
	ExclusiveAnnotation = "fluence.flux-framework.org/exclusive"
)

// ReasonInvalidTopology is that one of the topology annotations names no level, or has
// a value that says nothing.
const ReasonInvalidTopology = "InvalidTopology"

// A Level is a layer of the graph that topology annotations may name.
type Level struct {
	// Type is the type of its vertices, Key the node label that makes them.
	Type, Key string
}

// A Topology says how the pods of a group stand together, by the types of levels.
type Topology struct {
	Required  string
	Preferred []string
	Balanced  string
}

// TopologySaid is what the annotations say, word for word.
type TopologySaid struct{ Required, Preferred, Balanced, Exclusive string }

// SaidOfTopology reads the annotations of a PodGroup or a pod.
func SaidOfTopology(annotations map[string]string) TopologySaid {
	return TopologySaid{
		Required:  annotations[TopologyRequiredAnnotation],
		Preferred: annotations[TopologyPreferredAnnotation],
		Balanced:  annotations[TopologyBalancedAnnotation],
		Exclusive: annotations[ExclusiveAnnotation],
	}
}

// or fills in what t leaves open.
func (t TopologySaid) or(o TopologySaid) TopologySaid {
	for _, f := range []struct {
		is    *string
		other string
	}{{&t.Required, o.Required}, {&t.Preferred, o.Preferred}, {&t.Balanced, o.Balanced}, {&t.Exclusive, o.Exclusive}} {
		if *f.is == "" {
			*f.is = f.other
		}
	}
	return t
}

// parse returns the topology, nil if none is asked for. An error names annotation,
// value and levels in words fit for a user.
func (t TopologySaid) parse(levels []Level) (*Topology, error) {
	if t == (TopologySaid{}) {
		return nil, nil
	}
	var is Topology
	var err error
	if is.Required, err = levelOf(TopologyRequiredAnnotation, t.Required, levels); err != nil {
		return nil, err
	}
	if is.Balanced, err = levelOf(TopologyBalancedAnnotation, t.Balanced, levels); err != nil {
		return nil, err
	}
	if t.Preferred != "" {
		for name := range strings.SplitSeq(t.Preferred, ",") {
			l, err := levelOf(TopologyPreferredAnnotation, strings.TrimSpace(name), levels)
			switch {
			case err != nil:
				return nil, err
			case l == "":
				return nil, fmt.Errorf("annotation %s: %q: a level without a name", TopologyPreferredAnnotation, t.Preferred)
			case slices.Contains(is.Preferred, l):
				return nil, fmt.Errorf("annotation %s: %q: level %s is named twice", TopologyPreferredAnnotation, t.Preferred, l)
			}
			is.Preferred = append(is.Preferred, l)
		}
	}
	if e := t.Exclusive; e != "" && e != "true" && e != "false" {
		return nil, fmt.Errorf(`annotation %s: %q: must be "true" or "false"`, ExclusiveAnnotation, e)
	}
	if is.Required == "" && is.Balanced == "" && is.Preferred == nil {
		return nil, nil
	}
	return &is, nil
}

// levelNode is the level of the nodes themselves, which needs no configuration.
const levelNode = "node"

// levelOf returns the type of the level that an annotation names, empty if it names
// none.
func levelOf(annotation, name string, levels []Level) (string, error) {
	if name == "" || name == levelNode {
		return name, nil
	}
	known := []string{levelNode}
	for _, l := range levels {
		if name == l.Type || name == l.Key {
			return l.Type, nil
		}
		known = append(known, l.Type)
	}
	return "", fmt.Errorf("annotation %s: %q: no such level; there are %q (topologyLevels of the scheduler)", annotation, name, known)
}

// saidTopology is what the PodGroup says of the topology or else the pod.
func (s *state) saidTopology(m *member) TopologySaid {
	said := SaidOfTopology(m.pod.Annotations)
	if s.podGroup != nil {
		return s.podGroup.Topology.or(said)
	}
	return said
}

// whole returns the policy of the same order that takes whole nodes.
func whole(policy string) string {
	switch policy {
	case match.PolicyFirst:
		return match.PolicyFirstnodex
	case match.PolicyHigh, match.PolicyHinode:
		return match.PolicyHinodex
	case match.PolicyLow, match.PolicyLonode, "":
		return match.PolicyLonodex
	default:
		return policy
	}
}
