package inventory

import (
	"maps"
	"slices"

	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// A ChangeKind is a kind of Change.
type ChangeKind string

// The changes that may alter the answer to a request that
// was refused. A pod that takes resources is no such change.
const (
	// Loaded means that the graph is loaded and can be matched, in a new epoch. Slots that only the
	// caller's own Match had booked in the epoch before are gone.
	Loaded ChangeKind = "Loaded"
	// Lost means that the engine does not answer or
	// lost its graph. Epoch is 0 until the next Loaded.
	Lost ChangeKind = "Lost"
	// NodeAdded means that the graph has one more node, up or down.
	NodeAdded ChangeKind = "NodeAdded"
	// NodeChanged means that a node's pools, levels or status have changed. Taints,
	// and labels that are no level, are not in the graph and cause no change.
	NodeChanged ChangeKind = "NodeChanged"
	// NodeRemoved means that the graph has one node less.
	NodeRemoved ChangeKind = "NodeRemoved"
	// Freed means that slots were released, or shrank, or that the holder of their node changed.
	Freed ChangeKind = "Freed"
)

// A Change is a change that the engine has taken.
type Change struct {
	Kind ChangeKind
	// Generation is the inventory's generation after the change.
	Generation uint64
	// Node is the node that the change is about. It is empty for Loaded and Lost.
	Node string
	// Gain is the amount by which the free room on the node may have grown, by type: the amounts
	// that were released or added, or the whole node if it came up or moved in the graph. The
	// unused rest of a node that was held whole is not counted.
	Gain translate.Amounts
	// IncludesShared is true if pods that run on every node held some of the freed amounts, so that
	// the room for other pods may be larger than it ever was.
	IncludesShared bool
}

// changesOf returns the changes of a batch of deltas: first the nodes, in the order of the deltas,
// then the freed amounts, by node.
func changesOf(nodes []nodeDelta, holds []holdDelta) []Change {
	var changes []Change
	for _, s := range nodes {
		c := Change{Kind: NodeChanged, Node: s.key, Gain: grown(s.before, s.after)}
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
		changes = append(changes, Change{Kind: Freed, Node: node, Gain: freed[node], IncludesShared: shared[node]})
	}
	return changes
}

// grown returns the amounts by which the pools of a node are larger than before.
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

// addFreed adds to freed, by node, the amounts by which the slots of one pod shrank. The amounts
// that other pods take are not subtracted, because such a pod may have been booked long before the
// cluster showed it.
func addFreed(freed map[string]translate.Amounts, s holdDelta) {
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
		if amounts = positive(amounts); len(amounts) == 0 && !holderChanged(s) && !endsEarlier(s) {
			continue
		}
		if freed[node] == nil {
			freed[node] = translate.Amounts{}
		}
		freed[node].Add(amounts)
	}
}

// endsEarlier reports whether a slot ends earlier than before. Then its room may be promised, or used until something that is
// promised begins.
func endsEarlier(s holdDelta) bool {
	return slices.ContainsFunc(s.before, func(was hold) bool {
		return slices.ContainsFunc(s.after, func(is hold) bool {
			before, now := was.slot.R.Expiration, is.slot.R.Expiration
			return was.sameSlot(is) && !now.IsZero() && (before.IsZero() || now.Before(before))
		})
	})
}

// holderChanged reports whether a slot has another holder than before, or another Shared.
func holderChanged(s holdDelta) bool {
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

// subtract subtracts b from the types that a has. Amounts may become negative.
func subtract(a, b translate.Amounts) {
	for t := range a {
		a[t] -= b[t]
	}
}

// positive returns a without the amounts that are not positive.
func positive(a translate.Amounts) translate.Amounts {
	maps.DeleteFunc(a, func(_ string, n int64) bool { return n <= 0 })
	return a
}
