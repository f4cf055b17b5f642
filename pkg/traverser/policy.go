package traverser

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/flux-k8s/fluence/pkg/match"
)

// A policy is the preference among candidates (Fluxion's match policies).
type policy struct {
	// high prefers the highest score; otherwise the lowest is preferred.
	high bool
	// nodeCentric gives the id of the node more weight than the id of the vertex.
	nodeCentric bool
	// nodeExclusive gives out a node with everything below it.
	nodeExclusive bool
	// early stops the walk as soon as enough is found, and
	// visits children in the order of their edges' weights.
	early bool
	// locality prefers runs of consecutive scores.
	locality bool
	// variation takes the score from the property perf_class.
	variation bool
}

// policyOf returns the policy for a policy of package match.
func policyOf(m match.Policy) policy {
	p := policy{nodeCentric: m.NodeCentric, nodeExclusive: m.Exclusive}
	switch m.Order {
	case match.LowestFirst:
	case match.HighestFirst:
		p.high = true
	case match.DepthFirst: // by the highest score, as in Fluxion
		p.high, p.early = true, true
	}
	switch m.Prefers {
	case match.NoPreference:
	case match.Consecutive:
		p.locality = true
	case match.LowPerfClass:
		p.variation = true
	}
	return p
}

// parsePolicy reads the name of a policy or the text of a custom policy. It fails if the
// text is neither in match.GraphPolicies nor a custom policy. The error names the text.
func parsePolicy(text string) (policy, error) {
	if m, ok := match.PolicyOf(text); ok {
		return policyOf(m), nil
	}
	if !strings.Contains(text, "=") {
		return policy{}, fmt.Errorf("%q: must be one of %q", text, match.GraphPolicies())
	}
	var p policy
	ordered := false
	seen := make(map[string]bool)
	for pair := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(pair, "=")
		if seen[key] {
			return p, fmt.Errorf("%q: %s appears twice", text, key)
		}
		seen[key] = true
		to := map[string]*bool{
			"node_centric": &p.nodeCentric, "node_exclusive": &p.nodeExclusive, "stop_on_1_matches": &p.early,
		}[key]
		var err error
		switch {
		case key == "policy" && (value == match.PolicyHigh || value == match.PolicyLow):
			p.high, ordered = value == match.PolicyHigh, true
		case key == "policy":
			err = fmt.Errorf("%q: must be high or low", value)
		case to == nil:
			return p, fmt.Errorf("%q: unknown key %q", text, key)
		default:
			*to, err = parseBool(value)
		}
		if err != nil {
			return p, fmt.Errorf("%q: %s: %w", text, key, err)
		}
	}
	if !ordered {
		return p, fmt.Errorf("%q: no policy=high or policy=low", text)
	}
	return p, nil
}

func parseBool(value string) (bool, error) {
	switch value {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%q: must be true or false", value)
}

// worst is the performance class of a vertex that has none.
const worst = 9999

// score returns the score by which candidates are compared. ok
// is false for a node that a node-centric policy cannot score.
func (p *policy) score(g *graph, u vid, factor int64) (score int64, ok bool) {
	if p.variation {
		return 1 + g.perfClass(u), true
	}
	if !p.nodeCentric {
		return 1 + g.id[u] + 1, true
	}
	if typeID(g.typ[u]) == typeNode {
		return 1 + g.id[u] + 1, g.id[u] >= -1 && g.uniq[u] >= 0
	}
	return 1 + factor + g.id[u] + 1, true
}

// nodeFactor returns the amount that a node adds to the score of the vertices below it.
func nodeFactor(id, uniq int64) int64 {
	distance := uniq%10000 - 1
	if distance < 0 {
		distance = -distance
	}
	return (id+2)*10000 + distance
}

func (g *graph) perfClass(u vid) int64 {
	n, err := strconv.ParseInt(g.properties[u]["perf_class"], 10, 64)
	if err != nil || n < 0 || n > worst {
		return worst
	}
	return n
}
