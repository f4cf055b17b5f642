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

// A Level is a layer of the graph between the cluster and its nodes. The nodes whose
// label Key has the same value are below one vertex, whose name is that value.
type Level struct {
	// Type is the type of the level's vertices, for instance "rack".
	Type string
	// Key is the node label, for instance "topology.example.com/rack".
	Key string
}

// Unlabelled is the name of the vertex of a level for the nodes
// that lack the level's label. No label can have this value.
const Unlabelled = "_none"

// ParseLevels reads the label keys of the levels, the outermost first. The type of a level is
// the part of its key after the slash. An error names the wrong key and its index in keys, from
// 0: it is no valid label key, or its type is the type of another level or of the graph itself.
func ParseLevels(keys []string) ([]Level, error) {
	levels := make([]Level, 0, len(keys))
	for i, key := range keys {
		if problems := content.IsLabelKey(key); len(problems) > 0 {
			return nil, fmt.Errorf("level %d: %q: not a label key: %s", i, key, strings.Join(problems, "; "))
		}
		l := Level{Type: key[strings.LastIndexByte(key, '/')+1:], Key: key}
		if reserved(l.Type) {
			return nil, fmt.Errorf("level %d: %q: type %q is reserved", i, key, l.Type)
		}
		if j := slices.IndexFunc(levels, func(o Level) bool { return o.Type == l.Type }); j >= 0 {
			return nil, fmt.Errorf("level %d: %q: type %q is already used by level %d, %q", i, key, l.Type, j, levels[j].Key)
		}
		levels = append(levels, l)
	}
	return levels, nil
}

// reserved reports whether a vertex type is already used in the graph for something other than a
// level. Extended resources have a slash in their names, which the type of a level never has.
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

// vertexName returns the name of the level's vertex above a node with these
// labels. An empty label counts as no label, because a vertex needs a name.
func (l Level) vertexName(labels map[string]string) string {
	if v := labels[l.Key]; v != "" {
		return v
	}
	return Unlabelled
}

// Domain returns the path to the vertex of a level above a node with these labels. Two nodes have
// the same domain if they are below the same vertex. It returns false if no level has the type.
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
