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
	// PolicyFirstnodex takes nodes as PolicyFirst does, and whole.
	PolicyFirstnodex = "firstnodex"
	// PolicyHinodex takes nodes as PolicyHinode does, and whole.
	PolicyHinodex = "hinodex"
)

// The policies that go only with graphs that were added (see GraphEngine).
const (
	// PolicyLocality prefers vertices whose ids are consecutive.
	PolicyLocality = "locality"
	// PolicyVariation prefers vertices of a low performance class, which is their
	// property perf_class.
	PolicyVariation = "variation"
)

// Policies lists the policies that a Request may name whatever the graph.
func Policies() []string {
	return []string{
		PolicyFirst, PolicyLow, PolicyHigh, PolicyLonode, PolicyHinode,
		PolicyFirstnodex, PolicyLonodex, PolicyHinodex,
	}
}

// TakesWhole says whether a policy, one of Policies, gives out whole nodes.
func TakesWhole(policy string) bool {
	return policy == PolicyFirstnodex || policy == PolicyLonodex || policy == PolicyHinodex
}

// GraphPolicies lists the policies that a Request for a graph that was added may
// name. Beside them it may spell one out as Fluxion's custom policies are:
// "policy=high|low" with any of "node_centric=true|false",
// "node_exclusive=true|false" and "stop_on_1_matches=true|false", apart by blanks.
func GraphPolicies() []string {
	return append(Policies(), PolicyLocality, PolicyVariation)
}
