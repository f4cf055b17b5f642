package group

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// The annotations that say how near to each other the pods of a group are placed.
// A level is named by the type of its vertices or by its label key; see Level.
const (
	// TopologyRequiredAnnotation names a level. All pods have to be below one vertex of it.
	TopologyRequiredAnnotation = "fluence.flux-framework.org/topology-required"
	// TopologyPreferredAnnotation lists levels, with commas. The pods are placed below
	// as few vertices of each as possible; the first level counts more than the next.
	TopologyPreferredAnnotation = "fluence.flux-framework.org/topology-preferred"
	// TopologyBalancedAnnotation names a level. The pods are spread over
	// its vertices in equal shares, and over as few vertices as possible.
	TopologyBalancedAnnotation = "fluence.flux-framework.org/topology-balanced"
	// ExclusiveAnnotation gives the group whole nodes if it is "true": its
	// policy becomes the policy of the same order that takes whole nodes.
	ExclusiveAnnotation = "fluence.flux-framework.org/exclusive"
	// PodsPerNodeAnnotation is how many pods of the group may be on one node: a whole number from 1 to MaxSize.
	PodsPerNodeAnnotation = "fluence.flux-framework.org/pods-per-node"
)

// ExclusiveTrue is the value of ExclusiveAnnotation that asks for whole nodes.
const ExclusiveTrue = "true"

// A Level is a layer of the graph that topology annotations may name.
type Level struct {
	// Type is the type of its vertices. Key is the node label that makes them.
	Type, Key string
}

// TopologyAnnotations holds the values of the annotations as they were written.
type TopologyAnnotations struct{ Required, Preferred, Balanced, Exclusive, PodsPerNode string }

// TopologyAnnotationsOf reads the annotations of a PodGroup or a pod.
func TopologyAnnotationsOf(annotations map[string]string) TopologyAnnotations {
	return TopologyAnnotations{
		Required:  annotations[TopologyRequiredAnnotation],
		Preferred: annotations[TopologyPreferredAnnotation],
		Balanced:  annotations[TopologyBalancedAnnotation],
		Exclusive: annotations[ExclusiveAnnotation],

		PodsPerNode: annotations[PodsPerNodeAnnotation],
	}
}

// Fields returns the fields by the keys of their annotations.
func (t *TopologyAnnotations) Fields() map[string]*string {
	return map[string]*string{
		TopologyRequiredAnnotation:  &t.Required,
		TopologyPreferredAnnotation: &t.Preferred,
		TopologyBalancedAnnotation:  &t.Balanced,
		ExclusiveAnnotation:         &t.Exclusive,
		PodsPerNodeAnnotation:       &t.PodsPerNode,
	}
}

// MostPerNode returns how many pods of the group may be on one node, and 0 if there is no bound. An error
// names the annotation and the value in words fit for a user.
func (t TopologyAnnotations) MostPerNode() (int64, error) {
	if t.PodsPerNode == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(t.PodsPerNode, 10, 32)
	if err != nil || n < 1 || n > MaxSize {
		return 0, fmt.Errorf("annotation %s: %q: must be a whole number from 1 to %d", PodsPerNodeAnnotation, t.PodsPerNode, MaxSize)
	}
	return int64(n), nil
}

// Parse returns the topology, with the types of the levels. It returns nil if no topology is
// asked for. It checks the other values too. An error names the annotation, the value and the levels in words
// fit for a user.
func (t TopologyAnnotations) Parse(levels []Level) (*jobspec.Topology, error) {
	return t.parse(func(annotation, name string) (string, error) { return levelOf(annotation, name, levels) })
}

// Validate returns the error of Parse that does not depend on the levels. It returns nil if there are levels with
// which Parse would succeed.
func (t TopologyAnnotations) Validate() error {
	_, err := t.parse(possibleLevel)
	return err
}

// parse is Parse. levelOf returns the type of the level that an annotation names, and nothing for no name.
func (t TopologyAnnotations) parse(levelOf func(annotation, name string) (string, error)) (*jobspec.Topology, error) {
	if t == (TopologyAnnotations{}) {
		return nil, nil
	}
	var topology jobspec.Topology
	var err error
	if topology.Required, err = levelOf(TopologyRequiredAnnotation, t.Required); err != nil {
		return nil, err
	}
	if topology.Balanced, err = levelOf(TopologyBalancedAnnotation, t.Balanced); err != nil {
		return nil, err
	}
	if t.Preferred != "" {
		for name := range strings.SplitSeq(t.Preferred, ",") {
			l, err := levelOf(TopologyPreferredAnnotation, strings.TrimSpace(name))
			switch {
			case err != nil:
				return nil, err
			case l == "":
				return nil, fmt.Errorf("annotation %s: %q: one of the levels has no name", TopologyPreferredAnnotation, t.Preferred)
			case slices.Contains(topology.Preferred, l):
				return nil, fmt.Errorf("annotation %s: %q: level %s is named twice", TopologyPreferredAnnotation, t.Preferred, l)
			}
			topology.Preferred = append(topology.Preferred, l)
		}
	}
	if e := t.Exclusive; e != "" && e != ExclusiveTrue && e != "false" {
		return nil, &NotBoolError{Annotation: ExclusiveAnnotation, Value: e}
	}
	if _, err := t.MostPerNode(); err != nil {
		return nil, err
	}
	switch {
	case topology.Balanced != "" && topology.Preferred != nil:
		return nil, fmt.Errorf("annotations %s: %q and %s: %q: set only one of them", TopologyPreferredAnnotation, t.Preferred, TopologyBalancedAnnotation, t.Balanced)
	case topology.Required == "" && topology.Balanced == "" && topology.Preferred == nil:
		return nil, nil
	}
	return &topology, nil
}

// A NotBoolError says that an annotation is neither true nor false.
type NotBoolError struct{ Annotation, Value string }

func (e *NotBoolError) Error() string {
	return fmt.Sprintf(`annotation %s: %q: must be "true" or "false"`, e.Annotation, e.Value)
}

// levelNode is the level of the nodes. It needs no configuration.
const levelNode = "node"

// levelOf returns the type of the level that an annotation
// names. It returns nothing if the annotation is empty.
func levelOf(annotation, name string, levels []Level) (string, error) {
	switch name {
	case "":
		return "", nil
	case levelNode, corev1.LabelHostname:
		return levelNode, nil
	}
	known := []string{levelNode}
	for _, l := range levels {
		if name == l.Type || name == l.Key {
			return l.Type, nil
		}
		known = append(known, l.Type)
	}
	return "", fmt.Errorf("annotation %s: %q: no such level; the levels are %s (argument topologyLevels of the scheduler)", annotation, name, strings.Join(known, ", "))
}

// possibleLevel returns a name that an annotation gives to a level if some level could have that name: a name
// is the key of a node label, or the type that is made of one.
func possibleLevel(annotation, name string) (string, error) {
	if strings.Trim(name, keyCharacters) != "" {
		return "", fmt.Errorf("annotation %s: %q: cannot be the name of a level, such as %s or rack", annotation, name, levelNode)
	}
	return levelOf(annotation, name, []Level{{Type: name}})
}
