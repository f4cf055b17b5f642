package model

import (
	"math"

	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// lifetime is the lifetime of a graph in seconds.
const lifetime = 3153600000

// A request is a resource of a jobspec, and the minimum
// amounts of tracked types that it requests below it, by type.
type request struct {
	jobspec.Resource
	with  []request
	below map[string]int64
}

// prepare returns the requests and the sums of their amounts.
// A request for exclusive use makes its type shadow-exclusive.
func (g *graph) prepare(rs []jobspec.Resource, shadow map[string]bool) ([]request, map[string]int64) {
	out := make([]request, len(rs))
	sums := map[string]int64{}
	for i, r := range rs {
		out[i].Resource = r
		out[i].with, out[i].below = g.prepare(r.With, shadow)
		if r.Exclusive != nil && *r.Exclusive {
			shadow[r.Type] = true
		}
		if g.tracked[r.Type] {
			sums[r.Type] += r.Count.Min
		}
		for t, n := range out[i].below {
			sums[t] += r.Count.Min * n
		}
	}
	return out, sums
}

// nodes returns the minimum number of nodes that requests need.
func nodes(rs []request) (n int64) {
	for _, r := range rs {
		if r.Type == "node" {
			n += r.Count.Min
		}
		n += r.Count.Min * nodes(r.with)
	}
	return n
}

// knows reports whether the graph knows all types of the requests.
func (g *graph) knows(rs []jobspec.Resource) bool {
	for _, r := range rs {
		if _, ok := g.number[r.Type]; !ok || !g.knows(r.With) {
			return false
		}
	}
	return true
}

// calc returns the largest number up to n that a count accepts, 0 if there is none.
func calc(c jobspec.Count, n int64) int64 {
	if c.Min < 1 || c.Min > c.Max || c.Min > n {
		return 0
	}
	best := c.Min
	for q := c.Min; q <= min(n, c.Max); {
		best = q
		next := q
		switch c.Operator {
		case '+':
			most := min(n, c.Max)
			return most - (most-c.Min)%max(1, c.Operand)
		case '*':
			next = q * c.Operand
		case '^':
			next = int64(min(math.Pow(float64(q), float64(c.Operand)), 1<<40))
		}
		if next <= q {
			break
		}
		q = next
	}
	return best
}

// most returns the largest number that a count accepts.
func most(c jobspec.Count) int64 { return calc(c, math.MaxUint32) }
