package invariants

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// steadyFor is how long before its bind a pod may have been
	// placed. What changed in that time is not used to judge the bind.
	steadyFor = 5 * time.Second
	// standAfter is how long after a bind it is judged by the pods
	// near it. Pods that were placed with it have been bound by then.
	standAfter = steadyFor + judgeAfter
)

// A standing is a bind by Fluence, and the time of its request.
type standing struct {
	bind
	received time.Time
	// from is the time since which the facts that the bind is judged by must have been unchanged.
	from time.Time
	// excused reports whether only rules without exception are judged.
	excused bool
	// self is the pod as it is now.
	self *pod
}

// judgeStandings judges the binds about which everything is known by now.
func (j *judge) judgeStandings(now time.Time) {
	n := 0
	for n < len(j.standings) && now.Sub(j.standings[n].at) >= standAfter {
		s := j.standings[n]
		n++
		if s.self = j.pods[s.pod.uid]; s.self == nil {
			continue
		}
		s.from = j.excuses.clear(s.received, steadyFor)
		if j.judgeLevel(s) || s.excused || s.received.Sub(s.from) > remember/2 {
			continue // its group must not start, or some facts of that time are forgotten
		}
		j.stats.Stands++
		j.judgeRequired(s)
		j.judgeNeighbours(s)
		for _, c := range s.pod.stand.spreads {
			j.judgeSpread(s, c)
		}
		for _, t := range s.pod.stand.together {
			j.judgeTogether(s, "its required affinity by "+t.key, []string{t.key}, func(p *pod) bool {
				return p.key.Namespace == s.pod.key.Namespace && t.selects.Matches(p.labels)
			})
		}
	}
	j.standings = slices.Delete(j.standings, 0, n)
}

// judgeLevel judges a bind by the values that its group's annotations
// must not have. It reports whether there was a violation.
func (j *judge) judgeLevel(s standing) bool {
	is, certain := j.said(s.self, s.from)
	wrong := is.wrong(j.cfg.Levels)
	if !certain || wrong == "" {
		return false
	}
	j.report(RuleNoLevel, s.pod.key, s.received, "it must never start, since %q in an annotation names no level or says nothing: it was bound to node %s", wrong, s.pod.node)
	return true
}

// judgeRequired judges a bind by its group's required topology level.
func (j *judge) judgeRequired(s standing) {
	is, certain := j.said(s.self, s.from)
	if !certain || is.required == "" {
		return
	}
	j.judgeTogether(s, requiredAnnotation+"="+is.required, keysTo(is.required, j.cfg.Levels), func(p *pod) bool {
		return siblings(p, s.self)
	})
}

// said returns the annotations of a pod's group, and whether they are unchanged since a moment.
func (j *judge) said(p *pod, from time.Time) (is said, certain bool) {
	if p.family == nil {
		return p.said, true
	}
	if g := p.family.group; g != nil {
		return g.said.or(p.said), !p.family.resaid.After(from)
	}
	return p.said, !p.family.resaid.After(from)
}

// siblings reports whether two pods are certainly of one group.
func siblings(p, q *pod) bool {
	return p.family != nil && p.family == q.family || p.controller != "" && p.controller == q.controller
}

// judgeNeighbours judges a bind by the pods in the same domains.
// It reports each rule once, with all pods that break it.
func (j *judge) judgeNeighbours(s standing) {
	horizon := s.received.Add(-grace)
	found := map[string][]string{}
	add := func(rule, why string) {
		if why != "" {
			found[rule] = append(found[rule], why)
		}
	}
	for t := range j.tenants {
		other := j.pods[t.uid]
		if other == nil || t.uid == s.pod.uid || !t.there(s.version, horizon) {
			continue
		}
		if t.node == s.pod.node {
			add(RuleTooClose, onePort(s, other))
			add(RuleNotAlone, j.notAlone(s, t, other))
		}
		if other.key.Namespace == s.pod.key.Namespace && (siblings(other, s.self) || !t.charges[0].at.After(horizon)) {
			add(RuleTooClose, j.tooClose(s, t, other))
		}
	}
	for _, rule := range slices.Sorted(maps.Keys(found)) {
		slices.Sort(found[rule])
		j.report(rule, s.pod.key, s.received, "it was bound to node %s, and %s", s.pod.node, abridged(found[rule]))
	}
}

// onePort returns a text if another pod has the same host port, "" otherwise.
func onePort(s standing, other *pod) string {
	for _, p := range s.pod.stand.ports {
		if slices.Contains(other.stand.ports, p) {
			return fmt.Sprintf("%s had port %d there already;", other.key, p.number)
		}
	}
	return ""
}

// tooClose returns a text if required anti-affinity of
// either pod keeps one from the other, "" otherwise.
func (j *judge) tooClose(s standing, t *tenant, other *pod) string {
	var keys []string
	for _, term := range s.pod.stand.apart {
		if term.selects.Matches(other.labels) {
			keys = append(keys, term.key)
		}
	}
	for _, term := range other.stand.apart {
		if term.selects.Matches(s.pod.labels) {
			keys = append(keys, term.key)
		}
	}
	for _, key := range keys {
		here, ok := j.domain(s.pod.node, []string{key}, s.from, s.at)
		there, also := j.domain(t.node, []string{key}, s.from, s.at)
		if ok && also && here == there && here != outside {
			return fmt.Sprintf("required anti-affinity by %s %s keeps it from %s on node %s;", key, here, other.key, t.node)
		}
	}
	return ""
}

// notAlone returns a text if pods of two of Fluence's groups are
// on one node and one of the groups is exclusive, "" otherwise.
func (j *judge) notAlone(s standing, t *tenant, other *pod) string {
	if !t.ours || other.family == nil || s.self.family == nil || siblings(other, s.self) {
		return ""
	}
	mine, certain := j.said(s.self, s.from)
	others, also := j.said(other, s.from)
	switch {
	case certain && mine.whole():
		return fmt.Sprintf("its group has whole nodes, and %s of another was there;", other.key)
	case also && others.whole() && !j.mayShare(s, t):
		return fmt.Sprintf("%s was there, whose group has whole nodes;", other.key)
	default:
		return ""
	}
}

// mayShare reports whether a scheduler that was restarted before a bind
// may have found the tenant's node shared. A node with pods of other
// namespaces is shared, and another scheduler can put such pods there.
func (j *judge) mayShare(s standing, t *tenant) bool {
	if t.joined {
		return true
	}
	for _, other := range j.nodes[t.node].tenants {
		if other.from < s.version && t.beside(other) && j.excuses.touches(later(t.since, other.since), s.at) {
			return true
		}
	}
	return false
}

// judgeTogether judges whether a pod is in a domain with the pods it has to be
// with. If some of those pods are on nodes, one of them must be in its domain.
func (j *judge) judgeTogether(s standing, what string, keys []string, with func(*pod) bool) {
	here, ok := j.domain(s.pod.node, keys, s.from, s.at)
	if !ok {
		return
	}
	var elsewhere []string
	for t := range j.tenants {
		other := j.pods[t.uid]
		if other == nil || t.uid == s.pod.uid || t.from >= s.version || t.to != 0 && t.ended.Before(s.from) || !with(other) {
			continue
		}
		where, ok := j.domain(t.node, keys, s.from, s.at)
		if !ok || where == here {
			return
		}
		if t.ours && t.stays(s.version) {
			elsewhere = append(elsewhere, fmt.Sprintf("%s on %s of %s", other.key, t.node, where))
		}
	}
	if len(elsewhere) > 0 {
		slices.Sort(elsewhere)
		j.report(RuleNotTogether, s.pod.key, s.received, "it was bound to node %s of %s, and by %s it has to be with %s",
			s.pod.node, here, what, abridged(elsewhere))
	}
}

// there reports whether the tenant was certainly known to be on its
// node when a pod was bound at a version: Fluence had bound it before,
// or it had been delivered before the horizon, and it had not ended.
func (t *tenant) there(version uint64, horizon time.Time) bool {
	return t.from < version && (t.to == 0 || t.to > version) && (t.ours || !t.charges[0].at.After(horizon))
}

// stays reports whether the tenant was on its node at a version and had no deletion timestamp.
func (t *tenant) stays(version uint64) bool {
	return t.from < version && (t.to == 0 || t.to > version) && (t.leaves == 0 || t.leaves > version)
}

// outside is the domain of nodes that lack a label.
const outside = "-"

// steady returns a node as it was from one moment to another. It returns
// false if the node's labels changed or the node was not there all the time.
func (j *judge) steady(node string, from, to time.Time) (is nodeFact, ok bool) {
	b := j.nodes[node]
	if b == nil {
		return nodeFact{}, false
	}
	for i, s := range b.states {
		if i+1 < len(b.states) && !b.states[i+1].at.After(from) || s.at.After(to.Add(grace)) {
			continue
		}
		if s.gone || s.at.After(from) && !ok || ok && !maps.Equal(is.labels, s.labels) {
			return nodeFact{}, false
		}
		is, ok = s.nodeFact, true
	}
	return is, ok
}

// domain returns the domain of a node by the values of
// some labels. It returns false if that is not certain.
func (j *judge) domain(node string, keys []string, from, to time.Time) (string, bool) {
	is, ok := j.steady(node, from, to)
	values := make([]string, len(keys))
	for k, key := range keys {
		values[k] = outside
		if v, ok := is.labels[key]; ok {
			values[k] = v
		}
	}
	return strings.Join(values, "/"), ok
}

// suitsNode reports whether a pod's node selector and node affinity allow a node.
func (s stand) suitsNode(f nodeFact) bool {
	ok, err := s.suits.Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.name, Labels: f.labels}})
	return ok && err == nil
}
