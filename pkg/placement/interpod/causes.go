package interpod

import (
	"cmp"
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/resource"
)

// maxCauseShapes is the maximum number of shapes for which Causes compares shapes with each other.
const maxCauseShapes = 64

// A Cause is a constraint of the pods because of which there is not enough room.
type Cause struct {
	// Text says it, in words fit for a user.
	Text string
	// Room is for how many of the pods that the constraint counts there is room with it.
	Room int
	// Lasting is true if the constraint leaves too little room in an empty cluster too. Otherwise Text
	// and Room are about the present.
	Lasting bool
}

// Causes returns the constraints of s that leave too little room for the required pods, each by
// itself. There would be room for them without the constraint, by the scheduler's snapshot. If the pods
// need more domains than there are, the room does not matter: such a cause is lasting. ruledOut has, for each shape, the nodes that
// are ruled out. unresolvable has those that are ruled out for good.
func Causes(s *Constraints, ruledOut, unresolvable []map[string]bool) []Cause {
	f := causeFinder{s, ruledOut, unresolvable}
	causes := f.ofSpreads()
	if len(s.shapes) <= maxCauseShapes {
		causes = append(causes, f.ofApart()...)
	}
	causes = append(causes, f.ofColocation()...)
	if s.IsStopped() {
		return nil
	}
	return causes
}

// A causeFinder finds causes. See Causes for its fields.
type causeFinder struct {
	*Constraints
	ruledOut, unresolvable []map[string]bool
}

// required returns the number of required pods of some shapes.
func (s causeFinder) required(shapes []int) int {
	n := 0
	for _, i := range shapes {
		n += int(s.shapes[i].Required)
	}
	return n
}

// ofSpreads returns the spread constraints that leave too little room.
func (s causeFinder) ofSpreads() []Cause {
	var causes []Cause
	for _, sp := range s.spreads {
		if s.IsStopped() {
			return nil
		}
		n := s.required(sp.counted)
		room := sp.capacities(n, s.capacity(), s.ruledOut)
		ranges := sp.countRanges(n, room)
		if len(ranges) == 0 {
			continue
		}
		all, allowed, ever, lowest, most := 0, 0, 0, 0, 0
		for i, d := range sp.domains {
			all += room[i]
			allowed += min(room[i], ranges[0][i].max)
			ever += ranges[0][i].max
			most = max(most, d.existing+ranges[0][i].max)
			if o := sp.domains[lowest]; d.existing+room[i] < o.existing+room[lowest] {
				lowest = i
			}
		}
		// With too few domains, what each may take does not depend on the room.
		lasting := len(sp.domains) < sp.minDomains && ever < n
		if !lasting && (all < n || allowed >= n) {
			continue
		}
		causes = append(causes, Cause{sp.cause(lowest, room[lowest], most), allowed, lasting})
	}
	return causes
}

// cause says why a spread constraint allows at most most pods in each domain: too few domains exist, or
// the domain with this index has room for so many more pods only.
func (sp *spreadConstraint) cause(lowest, room, most int) string {
	over := fmt.Sprintf("spread over %s, maxSkew %d", levelName(sp.level, sp.key), sp.maxSkew)
	if len(sp.domains) < sp.minDomains {
		return fmt.Sprintf("%s, minDomains %d: there are %d, so at most %d in each", over, sp.minDomains, len(sp.domains), most)
	}
	d, has := sp.domains[lowest], ""
	if d.existing > 0 {
		has = fmt.Sprintf("%d and ", d.existing)
	}
	return fmt.Sprintf("%s: %s has %sroom for %d, so at most %d in each of the %d", over, d.value, has, room, most, len(sp.domains))
}

// levelName returns the name of a level, or the label of domains that are no level.
func levelName(level, key string) string {
	switch level {
	case "":
		return key
	case resource.TypeNode:
		return "nodes"
	default:
		return level
	}
}

// ofApart returns the anti-affinity and the host ports that leave too little room.
func (s causeFinder) ofApart() []Cause {
	var causes []Cause
	add := func(clashes []bitset, key string, by func(clique []int) string) {
		for _, clique := range s.cliques(clashes) {
			if s.IsStopped() {
				return
			}
			if c, ok := s.apart(clique, key, by(clique)); ok {
				causes = append(causes, c)
			}
		}
	}
	for _, key := range s.antiAffinityKeys() {
		add(s.antiAffinityClashes(key), key, func([]int) string { return "podAntiAffinity on " + key })
	}
	add(s.portClashes(), corev1.LabelHostname, func(clique []int) string {
		return fmt.Sprintf("host port %d", hostPorts(s.shapes[clique[0]].Pods[0])[0].HostPort)
	})
	return causes
}

// apart returns the cause of shapes of which each domain of a key takes one pod, if there are too few
// domains for them.
func (s causeFinder) apart(clique []int, key, by string) (Cause, bool) {
	d, n, room := s.domainsOf(key), s.required(clique), s.capacity()
	if n < 2 {
		return Cause{}, false
	}
	labelled, usable, withRoom, all := 0, 0, 0, 0
	for _, v := range d.values {
		hosts := d.hosts[v]
		labelled += len(hosts)
		if anyUsable(clique, hosts, s.unresolvable) {
			usable++
		}
		in := room.sum(clique, hosts, s.ruledOut, n)
		withRoom += min(1, in)
		all += in
	}
	if labelled < len(s.nodes) {
		// Nodes without the label may take any number of the pods.
		return Cause{}, false
	}
	domain, domains := "node", "nodes"
	if d.level != resource.TypeNode {
		domain = "domain"
		if d.level != "" {
			domain = d.level
		}
		domains = domain + "s"
	}
	if usable == 1 {
		domains = domain
	}
	text := fmt.Sprintf("at most one to a %s (%s)", domain, by)
	switch {
	case usable < n:
		return Cause{fmt.Sprintf("%s, %d %s", text, usable, domains), usable, true}, true
	case withRoom < n && all >= n:
		return Cause{fmt.Sprintf("%s, room on %d of %d %s", text, withRoom, usable, domains), withRoom, false}, true
	default:
		return Cause{}, false
	}
}

// anyUsable reports whether one of some shapes is not ruled out on one of the hosts.
func anyUsable(shapes []int, hosts []string, out []map[string]bool) bool {
	for _, h := range hosts {
		for _, i := range shapes {
			if !out[i][h] {
				return true
			}
		}
	}
	return false
}

// ofColocation returns the required affinity, and the label of the group's domain, that leave too
// little room in each domain.
func (s causeFinder) ofColocation() []Cause {
	var causes []Cause
	for _, t := range s.colocated {
		if s.IsStopped() {
			return nil
		}
		d, n, room := s.domainsOf(t.key), s.required(t.shapes), s.capacity()
		all, best, where := 0, -1, ""
		for _, v := range d.values {
			in := room.sum(t.shapes, d.hosts[v], s.ruledOut, math.MaxInt32)
			all += in
			if in > best {
				best, where = in, v
			}
		}
		if best < 0 || best >= n || all < n {
			continue
		}
		by := "podAffinity on " + t.key
		if t.key == s.domain {
			by = "node label " + t.key
		}
		causes = append(causes, Cause{fmt.Sprintf("all in one %s (%s), %s has room for %d", cmp.Or(d.level, "domain"), by, where, best), best, false})
	}
	return causes
}
