package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A policy determines the order in which candidates are taken.
type policy struct {
	high      bool // larger scores first
	node      bool // a score begins with the node's
	exclusive bool // nodes are shadow-exclusive
	stops     bool // explores the children in order of weight, until it has enough
	locality  bool
	variation bool
}

var policies = map[string]policy{
	"low":        {},
	"high":       {high: true},
	"lonode":     {node: true},
	"hinode":     {high: true, node: true},
	"lonodex":    {node: true, exclusive: true},
	"hinodex":    {high: true, node: true, exclusive: true},
	"first":      {high: true, node: true, stops: true},
	"firstnodex": {high: true, node: true, stops: true, exclusive: true},
	"locality":   {locality: true, high: true},
	"variation":  {variation: true},
}

// parsePolicy reads a name, or text such as "policy=high node_centric=true".
func parsePolicy(text string) (policy, error) {
	if p, ok := policies[text]; ok {
		return p, nil
	}
	var p policy
	named := false
	for word := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(word, "=")
		yes := value == "true"
		switch {
		case key == "policy" && (value == "high" || value == "low"):
			p.high, named = value == "high", true
		case value != "true" && value != "false":
			return p, fmt.Errorf("matcher_policy: %q: unknown", word)
		case key == "node_centric":
			p.node = yes
		case key == "node_exclusive":
			p.exclusive = yes
		case key == "stop_on_1_matches":
			p.stops = yes
		default:
			return p, fmt.Errorf("matcher_policy: %q: unknown", word)
		}
	}
	if !named {
		return p, fmt.Errorf("matcher_policy: %q: unknown", text)
	}
	return p, nil
}

// score returns the score of a vertex below node, which is nil if there is none.
func (p policy) score(u, node *vertex) int64 {
	if p.variation {
		const worst = 9999
		class, err := strconv.ParseInt(u.properties["perf_class"], 10, 64)
		if err != nil || class < 0 || class > worst {
			class = worst
		}
		return 1 + class
	}
	score := 1 + u.id + 1
	if p.node && node != nil && u.typ != "node" {
		score += (node.id+2)*10000 + max(node.uniq%10000-1, 1-node.uniq%10000)
	}
	return score
}

// A place is where candidates are sorted.
type place int

const (
	inSlot place = iota
	inVertex
	atRoot
)

// sort sorts candidates into the order in which they are taken.
func (p policy) sort(cs []candidate, at place) {
	high := p.high || p.variation && at == inSlot
	value := func(c candidate) int64 { return c.score }
	if p.locality && at == atRoot {
		runs := runsOf(cs)
		value = func(c candidate) int64 { return runs[c.score] }
	}
	sortLike(cs, func(a, b candidate) bool {
		if high {
			a, b = b, a
		}
		return value(a) < value(b)
	})
}

// runsOf returns for every score the first score of its run of consecutive integers.
func runsOf(cs []candidate) map[int64]int64 {
	var scores []int64
	for _, c := range cs {
		scores = append(scores, c.score)
	}
	slices.Sort(scores)
	scores = slices.Compact(scores)
	runs := map[int64]int64{}
	for i, s := range scores {
		runs[s] = s
		if i > 0 && s == scores[i-1]+1 {
			runs[s] = runs[scores[i-1]]
		}
	}
	return runs
}
