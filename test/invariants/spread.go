package invariants

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// judgeSpread judges a spread constraint by two certain bounds: at least how many pods the domain
// of the bound pod has, and at most how many each domain can have had when the pod was placed.
func (j *judge) judgeSpread(s standing, c spread) {
	keys := []string{c.key}
	own, ok := j.domain(s.pod.node, keys, s.from, s.at)
	if !ok || own == outside {
		return
	}
	can := j.domainsFor(s, keys)
	floating, least := j.unplaced(s, c), 0
	for t := range j.tenants {
		p := j.pods[t.uid]
		if p == nil || !selected(s, c, p) || t.to != 0 && t.ended.Before(s.from) {
			continue
		}
		where, steady := j.domain(t.node, keys, s.from, s.at)
		if !steady || t.since.After(s.at.Add(grace)) {
			floating++
			continue
		}
		if _, ok := can[where]; ok {
			can[where]++
		}
		if where != own {
			continue
		}
		old := !t.since.After(s.received.Add(-grace))
		if t.uid == s.pod.uid || t.stays(s.version) && (old || t.ours && siblings(p, s.self)) {
			least++
		}
	}
	if len(can) == 0 {
		return
	}
	before := maps.Clone(can)
	j.stats.Spreads++
	if most := leastOf(can, floating); least-most > c.most {
		j.report(RuleSkewed, s.pod.key, s.received, "it was bound to node %s of %s %s, which had %d of the pods that its constraint selects, and another has %d at the most, with maxSkew %d: %s, and %d that may be anywhere",
			s.pod.node, c.key, own, least, most, c.most, counts(before), floating)
	}
}

func selected(s standing, c spread, p *pod) bool {
	return p.key.Namespace == s.pod.key.Namespace && c.selects.Matches(p.labels)
}

// unplaced returns how many selected pods had no node, but may have been counted wherever Fluence
// was about to put them. Fluence may have died meanwhile, or the pods were refused there.
func (j *judge) unplaced(s standing, c spread) (n int) {
	for _, p := range j.pods {
		if p.node == "" && selected(s, c, p) && (p.gone.IsZero() || p.gone.After(s.from)) {
			n++
		}
	}
	return n
}

// domainsFor returns the domains that a pod's constraint has for certain, each with a count of 0.
func (j *judge) domainsFor(s standing, keys []string) map[string]int {
	can := map[string]int{}
	for name := range j.nodes {
		is, ok := j.steady(name, s.from, s.at)
		if where, _ := j.domain(name, keys, s.from, s.at); ok && where != outside && s.pod.stand.suitsNode(is) {
			can[where] = 0
		}
	}
	return can
}

// leastOf returns how many pods the smallest domain can have at most, with a number of
// further pods in any domain. It puts each of them into the smallest domain (water-filling).
func leastOf(counts map[string]int, more int) int {
	for {
		lowest := ""
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			if lowest == "" || counts[name] < counts[lowest] {
				lowest = name
			}
		}
		if more == 0 {
			return counts[lowest]
		}
		counts[lowest]++
		more--
	}
}

func counts(of map[string]int) string {
	var each []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		each = append(each, fmt.Sprintf("%s %d", name, of[name]))
	}
	return strings.Join(each, ", ")
}
