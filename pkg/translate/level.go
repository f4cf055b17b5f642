package translate

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A Level is a layer of the graph between the cluster and its nodes: the nodes
// whose label Key has the same value stand below one vertex, which has that
// value as its name.
type Level struct {
	// Type is the type of the level's vertices, for instance "rack".
	Type string
	// Key is the node label, for instance "topology.example.com/rack".
	Key string
}

// Unlabelled names the vertex of a level below which those nodes stand that
// lack the level's label. It can be no label's value.
const Unlabelled = "_none"

// ParseLevels reads the label keys of the levels, the outermost first. A
// level's type is what follows the slash of its key. An error names the place
// in keys, counted from 0, and the key that is wrong: no label key, or of a type
// that another level or the graph itself has.
func ParseLevels(keys []string) ([]Level, error) {
	levels := make([]Level, 0, len(keys))
	for i, key := range keys {
		if problems := content.IsLabelKey(key); len(problems) > 0 {
			return nil, fmt.Errorf("level %d: %q: not a label key: %s", i, key, strings.Join(problems, "; "))
		}
		l := Level{Type: key[strings.LastIndexByte(key, '/')+1:], Key: key}
		if reserved(l.Type) {
			return nil, fmt.Errorf("level %d: %q: type %q has another meaning in the graph", i, key, l.Type)
		}
		if j := slices.IndexFunc(levels, func(o Level) bool { return o.Type == l.Type }); j >= 0 {
			return nil, fmt.Errorf("level %d: %q: type %q is that of level %d, %q", i, key, l.Type, j, levels[j].Key)
		}
		levels = append(levels, l)
	}
	return levels, nil
}

// reserved reports whether the graph of a cluster has vertices of this type
// that are not of a level. Extended resources have a slash in their names, and
// so no level's type.
func reserved(vertexType string) bool {
	switch vertexType {
	case resource.TypeCluster, resource.TypeNode, jobspec.SlotType,
		TypeCore, TypeMemory, TypePods,
		string(corev1.ResourceCPU), string(corev1.ResourceEphemeralStorage):
		return true
	default:
		return strings.HasPrefix(vertexType, corev1.ResourceHugePagesPrefix)
	}
}

// vertexName returns the name of the level's vertex that a node with these
// labels stands below. A label may be there and empty, which no name can be.
func (l Level) vertexName(labels map[string]string) string {
	if v := labels[l.Key]; v != "" {
		return v
	}
	return Unlabelled
}

// Domain names the vertex of a level that a node with these labels stands below, by
// the way down to it, so that two nodes have the same domain if they stand below the
// same vertex. It is false where the type is none of the levels.
func Domain(labels map[string]string, levels []Level, levelType string) (string, bool) {
	var path strings.Builder
	for _, l := range levels {
		path.WriteByte('/')
		path.WriteString(l.vertexName(labels))
		if l.Type == levelType {
			return path.String(), true
		}
	}
	return "", false
}
