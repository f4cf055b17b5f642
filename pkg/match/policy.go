package match

// The policies have Fluxion's names. A policy orders the nodes. The engine fills them one after the
// other, each as far as possible. Within a node, the engine chooses which leaves of a pool it uses.
//
// Fluxion scores a vertex by its own id (low, high), or by its node's id first and by its own
// second (lonode, hinode). If a node has one divisible pool of each type, a slot is on one node and
// on one vertex of each type, so only the order of the nodes is left to choose. Therefore low and
// lonode do not differ there, nor do high and hinode.
const (
	// PolicyFirst takes the nodes in depth-first order of the graph, so that the nodes of one rack
	// follow each other, whatever their ids. The children of a vertex are visited by name if they were
	// there at Ready. Children that were added or moved later follow, in the order in which they came.
	PolicyFirst = "first"
	// PolicyLow takes the nodes with the lowest ids first.
	PolicyLow = "low"
	// PolicyHigh takes the nodes with the highest ids first.
	PolicyHigh = "high"
	// PolicyLonode takes the nodes with the lowest ids first.
	PolicyLonode = "lonode"
	// PolicyHinode takes the nodes with the highest ids first.
	PolicyHinode = "hinode"
	// PolicyLonodex takes nodes in the order of PolicyLonode, and takes them whole: until the slots
	// are released, only the request's Holder is given slots on these nodes. A slot still holds only
	// the amounts that it asked for, and several slots may share a node.
	PolicyLonodex = "lonodex"
	// PolicyFirstnodex takes nodes in the order of PolicyFirst, and takes them whole.
	PolicyFirstnodex = "firstnodex"
	// PolicyHinodex takes nodes in the order of PolicyHinode, and takes them whole.
	PolicyHinodex = "hinodex"
)

// The policies only for graphs that were added (see GraphEngine).
const (
	// PolicyLocality prefers vertices with consecutive ids.
	PolicyLocality = "locality"
	// PolicyVariation prefers vertices with a low performance class, the property perf_class.
	PolicyVariation = "variation"
)

// A NodeOrder is the order in which a policy takes nodes.
type NodeOrder int

const (
	// LowestFirst takes the nodes with the lowest ids first.
	LowestFirst NodeOrder = iota
	// HighestFirst takes the nodes with the highest ids first.
	HighestFirst
	// DepthFirst takes the nodes in depth-first order of the graph.
	DepthFirst
)

// A Preference is a criterion that comes before the ids. Only policies for graphs that were added
// have one.
type Preference int

const (
	// NoPreference compares ids alone.
	NoPreference Preference = iota
	// Consecutive prefers vertices with consecutive ids.
	Consecutive
	// LowPerfClass prefers vertices with a low performance class.
	LowPerfClass
)

// A Policy describes how an engine orders and takes nodes.
type Policy struct {
	Name  string
	Order NodeOrder
	// NodeCentric reports whether the id of a vertex's node counts before the vertex's own id.
	NodeCentric bool
	// Exclusive reports whether nodes are given out whole.
	Exclusive bool
	// InFluxion reports whether the engine over Fluxion's library supports the policy.
	InFluxion bool
	// Prefers is NoPreference for policies that are valid for both kinds of graph. The policies only
	// for graphs that were added have a preference.
	Prefers Preference
}

// policies lists every policy once. A new policy with an existing NodeOrder is one more line here:
// engines read the line, and a test fails for each list elsewhere that lacks the policy. A new
// NodeOrder also needs code in the engines: pkg/engine/store/order.go and pkg/traverser/policy.go.
//
// Invariant: for each NodeOrder there are two NodeCentric policies without a preference, one of
// them Exclusive.
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

// PolicyOf returns the policy with this name. It returns false if GraphPolicies has no such name.
func PolicyOf(name string) (Policy, bool) {
	for i := range policies {
		if policies[i].Name == name {
			return policies[i], true
		}
	}
	return Policy{}, false
}

// Policies lists the policies that a Request may name for either kind of graph.
func Policies() []string {
	return policyNames(func(p Policy) bool { return p.Prefers == NoPreference })
}

// IsExclusive reports whether a policy, one of Policies, gives out whole nodes.
func IsExclusive(policy string) bool {
	p, _ := PolicyOf(policy)
	return p.Exclusive
}

// WithExclusive returns the policy with the same node order and with the given Exclusive. It
// returns the given policy if that has this value already, or if the policy is not known.
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

// GraphPolicies lists the policies that a Request may name for a graph that was added. Such a
// Request may also spell out a custom policy in Fluxion's syntax: "policy=high|low" with any of
// "node_centric=true|false", "node_exclusive=true|false" and "stop_on_1_matches=true|false",
// separated by blanks.
func GraphPolicies() []string {
	return policyNames(func(Policy) bool { return true })
}

// policyNames lists the names of the policies for which some returns true.
func policyNames(some func(Policy) bool) []string {
	names := make([]string, 0, len(policies))
	for _, p := range policies {
		if some(p) {
			names = append(names, p.Name)
		}
	}
	return names
}
