package match

// The policies of Fluxion, by its names. A policy puts the nodes in an order;
// one after the other they are then filled as far as they go. The order in which
// the leaves of a pool are taken within a node is the engine's own.
//
// Fluxion scores each vertex by its own id (low, high) or by its own and, before
// that, its node's (lonode, hinode). Where a node has one divisible pool of each
// type, all that a slot holds is on one node and of one vertex a type, so only
// the order of nodes is left to choose: low and lonode cannot differ there, nor
// can high and hinode.
const (
	// PolicyFirst takes the nodes in the order in which a walk through the graph
	// from its root meets them, depth first, and the first that fit: those of one
	// rack come one after the other, whatever their ids. What stood in the graph
	// before Ready is met by name, what came later as it came.
	PolicyFirst = "first"
	// PolicyLow takes the lowest ids first.
	PolicyLow = "low"
	// PolicyHigh takes the highest ids first.
	PolicyHigh = "high"
	// PolicyLonode takes the nodes of the lowest ids first.
	PolicyLonode = "lonode"
	// PolicyHinode takes the nodes of the highest ids first.
	PolicyHinode = "hinode"
	// PolicyLonodex takes nodes as PolicyLonode does, and whole: from then on
	// until they are given back nobody else but the request's Holder is given
	// anything there. What a slot holds of the pools is what it asked for, and
	// several slots may share a node.
	PolicyLonodex = "lonodex"
)

// Policies lists the policies that a Request may name.
func Policies() []string {
	return []string{PolicyFirst, PolicyLow, PolicyHigh, PolicyLonode, PolicyHinode, PolicyLonodex}
}
