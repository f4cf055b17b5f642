package inventory

import (
	"maps"
	"slices"

	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// A Kind tells the changes apart.
type ChangeKind string

// The changes that may alter the answer to a request that was refused. That a
// pod came to hold something does not.
const (
	// Loaded: the graph is filled and verdicts are given, in a new epoch. What
	// only the caller's own Match had booked in the former one is gone.
	Loaded ChangeKind = "Loaded"
	// Lost: the engine does not answer or lost its graph; Epoch is 0 until the
	// next Loaded.
	Lost ChangeKind = "Lost"
	// NodeAdded: the graph has one more node, up or down.
	NodeAdded ChangeKind = "NodeAdded"
	// NodeChanged: a node's pools, levels or status are others. Changes of taints
	// and of labels that are no level's are none of the graph.
	NodeChanged ChangeKind = "NodeChanged"
	// NodeRemoved: the graph has one node less.
	NodeRemoved ChangeKind = "NodeRemoved"
	// Freed: slots were given back, or shrank, or leave their node to others than
	// before.
	Freed ChangeKind = "Freed"
)

// A Change is something that the engine has taken.
type Change struct {
	Kind ChangeKind
	// Generation is the inventory's after the change.
	Generation uint64
	// Node is the node that the change is about; empty for Loaded and Lost.
	Node string
	// More says by how much of each type the room on the node may have grown: what
	// was freed there, or added, or all there is when the node came up or moved to
	// another place in the graph. The rest of a node that was somebody's as a whole
	// is not in it.
	More translate.Amounts
	// Shared says that some of what was freed was held by pods that run on every node,
	// so that there may be more room than there ever was for others.
	Shared bool
}

// changesOf tells what a batch of steps has changed: nodes in the order of the
// steps, then what was freed, by node.
func changesOf(nodes []nodeStep, holds []holdStep) []Change {
	var changes []Change
	for _, s := range nodes {
		c := Change{Kind: NodeChanged, Node: s.key, More: grown(s.before, s.after)}
		switch {
		case s.before == nil && s.after == nil:
			continue // came and went between two batches
		case s.before == nil:
			c.Kind = NodeAdded
		case s.after == nil:
			c.Kind = NodeRemoved
		}
		changes = append(changes, c)
	}
	freed, shared := map[string]translate.Amounts{}, map[string]bool{}
	for _, s := range holds {
		addFreed(freed, s)
		for _, h := range s.before {
			shared[h.slot.Node] = shared[h.slot.Node] || h.slot.Shared
		}
	}
	for _, node := range slices.Sorted(maps.Keys(freed)) {
		changes = append(changes, Change{Kind: Freed, Node: node, More: freed[node], Shared: shared[node]})
	}
	return changes
}

// grown returns by how much the pools of a node are larger than before.
func grown(before, after *resource.Graph) translate.Amounts {
	if after == nil || nodeOf(after).Status != resource.Up {
		return nil
	}
	now := translate.Pools(after)
	if before != nil {
		b, a := nodeOf(before), nodeOf(after)
		if b.Status == resource.Up && b.Path == a.Path {
			subtract(now, translate.Pools(before))
		}
	}
	return positive(now)
}

// addFreed adds to freed, by node, what one pod holds less than before. Pods are not
// set off against each other: what another has come to hold may have been booked
// long before the cluster told of it.
func addFreed(freed map[string]translate.Amounts, s holdStep) {
	less := map[string]translate.Amounts{}
	for _, h := range s.before {
		if less[h.slot.Node] == nil {
			less[h.slot.Node] = translate.Amounts{}
		}
		less[h.slot.Node].Add(amountsOf(h))
	}
	for _, h := range s.after {
		subtract(less[h.slot.Node], amountsOf(h))
	}
	for node, amounts := range less {
		if amounts = positive(amounts); len(amounts) == 0 && !holderChanged(s) {
			continue
		}
		if freed[node] == nil {
			freed[node] = translate.Amounts{}
		}
		freed[node].Add(amounts)
	}
}

// holderChanged reports whether a slot leaves its node to others than before.
func holderChanged(s holdStep) bool {
	return slices.ContainsFunc(s.before, func(was hold) bool {
		return slices.ContainsFunc(s.after, func(is hold) bool {
			return was.sameSlot(is) && (was.slot.Holder != is.slot.Holder || was.slot.Shared != is.slot.Shared)
		})
	})
}

func amountsOf(h hold) translate.Amounts {
	a := translate.Amounts{}
	for _, share := range h.slot.R.Vertices {
		a[share.Type] = share.Amount
	}
	return a
}

// subtract takes b from a as far as a has it; amounts may come out negative.
func subtract(a, b translate.Amounts) {
	for t := range a {
		a[t] -= b[t]
	}
}

// positive returns a without what is not more than zero.
func positive(a translate.Amounts) translate.Amounts {
	maps.DeleteFunc(a, func(_ string, n int64) bool { return n <= 0 })
	return a
}
