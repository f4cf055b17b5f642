package inventory

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// A DriftKind is a way in which the engine can differ from the cluster.
type DriftKind string

// The kinds of drift. SlotDiffers means that a slot has another
// node, job, holder, end or other amounts than in the cluster.
const (
	NodeMissing DriftKind = "node_missing"
	NodeSurplus DriftKind = "node_surplus"
	NodeDiffers DriftKind = "node_differs"
	SlotMissing DriftKind = "slot_missing"
	SlotSurplus DriftKind = "slot_surplus"
	SlotDiffers DriftKind = "slot_differs"
)

// DriftKinds returns all kinds.
func DriftKinds() []DriftKind {
	return []DriftKind{NodeMissing, NodeSurplus, NodeDiffers, SlotMissing, SlotSurplus, SlotDiffers}
}

// A Drift is a difference between the engine and the cluster that has lasted longer than any call
// or event can take. OnDrift is called just before the drift is repaired.
type Drift struct {
	Kind DriftKind
	// Node is the node that the drift is about, or the node where the slot is or should be.
	Node string
	// Key is the key of the slot: a pod's UID. It is empty for a node.
	Key string
	// Pod is the pod with this UID, if the cluster has it.
	Pod types.NamespacedName
	// Cluster and Engine describe in words what each side has, or "nothing".
	Cluster, Engine string
}

// nothing is the text for a side that has nothing.
const nothing = "nothing"

// describeNode describes a node in words: status, place, pools and properties.
func describeNode(g *resource.Graph) string {
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

// describeHolds describes in words the slots that are held under one key.
func describeHolds(holds []hold) string {
	if len(holds) == 0 {
		return nothing
	}
	words := make([]string, len(holds))
	for i, h := range holds {
		words[i] = fmt.Sprintf("%s on %s for job %d", amountsOf(h).Key(), h.slot.Node, h.job)
		if h.slot.Holder != "" {
			words[i] += " of " + h.slot.Holder
		}
		if h.slot.Shared {
			words[i] += ", shared"
		}
		if end := h.slot.R.Expiration; !end.IsZero() {
			words[i] += " until " + end.UTC().Format(time.RFC3339)
		}
	}
	return strings.Join(words, "; ")
}

// normalize removes from a hold the parts that only the engine knows: vertices, start and label. Then a
// slot that Match gave out can be compared with the requests of its pod.
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
	h.slot.R = until(held.Set(), h.slot.R.Expiration)
	h.slot.Label = ""
	return h
}
