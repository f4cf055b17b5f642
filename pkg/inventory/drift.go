package inventory

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// A DriftKind tells the ways apart in which the engine can differ from the
// cluster.
type DriftKind string

// The kinds of drift. A slot differs that stands on another node, or is of
// another job or holder, or has other amounts than the cluster calls for.
const (
	NodeMissing DriftKind = "node_missing"
	NodeSurplus DriftKind = "node_surplus"
	NodeDiffers DriftKind = "node_differs"
	SlotMissing DriftKind = "slot_missing"
	SlotSurplus DriftKind = "slot_surplus"
	SlotDiffers DriftKind = "slot_differs"
)

// DriftKinds lists them.
func DriftKinds() []DriftKind {
	return []DriftKind{NodeMissing, NodeSurplus, NodeDiffers, SlotMissing, SlotSurplus, SlotDiffers}
}

// A Drift is a difference between the engine and the cluster that has lasted for
// longer than anything that is on its way. It is healed when it is told of.
type Drift struct {
	Kind DriftKind
	// Node is the node that it is about, or where the slot stands or should.
	Node string
	// Key is the slot's, a pod's UID; empty for a node.
	Key string
	// Pod is the pod of that UID, if the cluster has it.
	Pod types.NamespacedName
	// Cluster and Engine say in words what either has; "nothing" where it has none.
	Cluster, Engine string
}

// nothing is the word for a side that has nothing.
const nothing = "nothing"

// nodeWords says what a node is: status, place, pools and properties.
func nodeWords(g *resource.Graph) string {
	if g == nil {
		return nothing
	}
	node := nodeOf(g)
	words := []string{"up"}
	if node.Status != resource.Up {
		words[0] = "down"
	}
	below := false
	for i := range g.Vertices {
		v := &g.Vertices[i]
		switch {
		case v.Type == resource.TypeNode:
			below = true
		case below:
			words = append(words, fmt.Sprintf("%s=%d%s", v.Type, v.Size, v.Unit))
		default:
			words = append(words, v.Type+":"+v.Name)
		}
		if v.Type != resource.TypeNode && v.Status != resource.Up {
			words = append(words, "(down)")
		}
	}
	if len(node.Properties) > 0 {
		words = append(words, fmt.Sprintf("properties=%v", node.Properties))
	}
	return strings.Join(words, " ")
}

// holdWords says what is held under one key.
func holdWords(holds []hold) string {
	if len(holds) == 0 {
		return nothing
	}
	words := make([]string, len(holds))
	for i, h := range holds {
		words[i] = fmt.Sprintf("%s on %s for job %d", amountsOf(h).Shape(), h.slot.Node, h.job)
		if h.slot.Holder != "" {
			words[i] += " of " + h.slot.Holder
		}
		if h.slot.Shared {
			words[i] += ", shared"
		}
	}
	return strings.Join(words, "; ")
}

// normalize returns what is held without what only an engine knows of it, so that
// what a Match gave out can be compared with what a pod calls for.
func normalize(h hold, levels []translate.Level) hold {
	held := make(translate.Amounts, len(h.slot.R.Vertices))
	for i := range h.slot.R.Vertices {
		v := &h.slot.R.Vertices[i]
		onTheWay := v.Type == resource.TypeCluster || v.Type == resource.TypeNode ||
			slices.ContainsFunc(levels, func(l translate.Level) bool { return l.Type == v.Type })
		if !onTheWay && v.Amount > 0 {
			held.Add(translate.Amounts{v.Type: v.Amount})
		}
	}
	h.slot.R = held.Set()
	h.slot.Label = ""
	return h
}
