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

// A NodeOrder is the order in which a policy takes nodes.
type NodeOrder int

const (
	// LowestFirst takes the nodes of the lowest ids first.
	LowestFirst NodeOrder = iota
	// HighestFirst takes the nodes of the highest ids first.
	HighestFirst
	// DepthFirst takes the nodes as a walk through the graph meets them.
	DepthFirst
)

// A Preference is what a policy looks at before ids, in a graph that was added.
type Preference int

const (
	// NoPreference looks at ids alone.
	NoPreference Preference = iota
	// Consecutive prefers vertices whose ids are consecutive.
	Consecutive
	// LowPerfClass prefers vertices of a low performance class.
	LowPerfClass
)

// A Policy is what engines go by.
type Policy struct {
	Name  string
	Order NodeOrder
	// NodeCentric says that the id of a vertex's node weighs more than its own.
	NodeCentric bool
	// Exclusive says that nodes are given out whole.
	Exclusive bool
	// InFluxion says that the engine over Fluxion's library takes the policy.
	InFluxion bool
	// Prefers is not NoPreference for a policy that goes only with graphs that were added.
	Prefers Preference
}

// policies has every policy once. A new one that takes nodes in an order which is there already is a
// line here: engines read from the line what to do, and tests tell which list of names lacks it. Each
// order has a policy that takes whole nodes, by its own name. A new order is code in the engines as
// well: pkg/engine/store/order.go, pkg/traverser/policy.go.
var policies = []Policy{
	{Name: PolicyFirst, Order: DepthFirst, NodeCentric: true, InFluxion: true},
	{Name: PolicyLow, InFluxion: true},
	{Name: PolicyHigh, Order: HighestFirst, InFluxion: true},
	{Name: PolicyLonode, NodeCentric: true, InFluxion: true},
	{Name: PolicyHinode, Order: HighestFirst, NodeCentric: true, InFluxion: true},
	{Name: PolicyFirstnodex, Order: DepthFirst, NodeCentric: true, Exclusive: true},
	{Name: PolicyLonodex, NodeCentric: true, Exclusive: true, InFluxion: true},
	{Name: PolicyHinodex, Order: HighestFirst, NodeCentric: true, Exclusive: true},
	{Name: PolicyLocality, Order: HighestFirst, Prefers: Consecutive},
	{Name: PolicyVariation, Prefers: LowPerfClass},
}

// PolicyOf returns what there is to know of a policy. It is false for a name that is none of
// GraphPolicies.
func PolicyOf(name string) (Policy, bool) {
	for i := range policies {
		if policies[i].Name == name {
			return policies[i], true
		}
	}
	return Policy{}, false
}

// Policies lists the policies that a Request may name whatever the graph.
func Policies() []string {
	return policyNames(func(p Policy) bool { return p.Prefers == NoPreference })
}

// IsExclusive says whether a policy, one of Policies, gives out whole nodes.
func IsExclusive(policy string) bool {
	p, _ := PolicyOf(policy)
	return p.Exclusive
}

// WithExclusive returns the policy that takes nodes in the same order as one of Policies, and takes
// them whole, or does not.
func WithExclusive(policy string, exclusive bool) string {
	named, ok := PolicyOf(policy)
	if !ok || named.Exclusive == exclusive {
		return policy
	}
	for _, p := range policies {
		if p.Exclusive == exclusive && p.Order == named.Order && p.NodeCentric && p.Prefers == NoPreference {
			return p.Name
		}
	}
	return policy
}

// GraphPolicies lists the policies that a Request for a graph that was added may
// name. Beside them it may spell one out as Fluxion's custom policies are:
// "policy=high|low" with any of "node_centric=true|false",
// "node_exclusive=true|false" and "stop_on_1_matches=true|false", apart by blanks.
func GraphPolicies() []string {
	return policyNames(func(Policy) bool { return true })
}

// policyNames lists the names of some policies.
func policyNames(some func(Policy) bool) []string {
	names := make([]string, 0, len(policies))
	for _, p := range policies {
		if some(p) {
			names = append(names, p.Name)
		}
	}
	return names
}
