package matchtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// crossed returns two racks and a node outside of racks: r1 has n2 and n4, r2 has n1 and n5. Their
// order by name differs from the depth-first order.
func crossed() []*resource.Graph {
	in := func(name, rack string) *resource.Graph {
		return Node(name, [][2]string{{"rack", rack}}, Cores(2))
	}
	return []*resource.Graph{in("n5", "r2"), in("n4", "r1"), in("n1", "r2"), Node("n3", nil, Cores(2)), in("n2", "r1")}
}

// ordered returns the rule that a policy fills the crossed racks in this order, even if a part of
// the first node is taken.
func ordered(p, want string) rule {
	return rule{needs: policy(p), test: func(t *testing.T, s *subject) {
		s.load(t, crossed()...)
		s.places(t, 1, Slots("a", 7, Cores(1)), want, underPolicy(p), forHolder("h"))
		s.release(t, 1)
		first, _, _ := strings.Cut(want, " ")
		var rest []string
		for i, slot := range strings.Fields(want)[1:] {
			_, node, _ := strings.Cut(slot, "@")
			rest = append(rest, fmt.Sprintf("%d@%s", i, node))
		}
		s.places(t, 2, Slots("a", 1, Cores(1)), first, underPolicy(p), forHolder("h"))
		s.places(t, 3, Slots("a", 6, Cores(1)), strings.Join(rest, " "), underPolicy(p), forHolder("h"))
	}}
}

const (
	rising  = "0@n1 1@n1 2@n2 3@n2 4@n3 5@n3 6@n4"
	falling = "0@n5 1@n5 2@n4 3@n4 4@n3 5@n3 6@n2"
	walked  = "0@n3 1@n3 2@n2 3@n2 4@n4 5@n4 6@n1"
)

var policyRules = map[string]rule{
	"low fills the lowest ids first":             ordered(match.PolicyLow, rising),
	"lonodex fills the nodes of lowest ids":      ordered(match.PolicyLonodex, rising),
	"hinodex fills the nodes of highest ids":     ordered(match.PolicyHinodex, falling),
	"firstnodex fills in the order of the graph": ordered(match.PolicyFirstnodex, walked),
	"high fills the highest ids first":           ordered(match.PolicyHigh, falling),
	"hinode fills the nodes of highest ids":      ordered(match.PolicyHinode, falling),
	"first fills in the order of the graph":      ordered(match.PolicyFirst, walked),
	"lonode fills the nodes of lowest ids first": {test: func(t *testing.T, s *subject) {
		s.load(t, crossed()...)
		s.places(t, 1, Slots("a", 7, Cores(1)), rising, underPolicy(match.PolicyLonode))
	}},
	"a policy that the engine lacks is invalid": {test: func(t *testing.T, s *subject) {
		s.load(t, crossed()...)
		for _, p := range match.Policies() {
			if p == match.PolicyLonode || slices.Contains(s.can.Policies, p) {
				s.match(t, 1, Slots("a", 1, Cores(1)), underPolicy(p), forHolder("h"))
				s.release(t, 1)
			} else {
				s.fails(t, 1, Slots("a", 1, Cores(1)), match.ErrInvalid, underPolicy(p), forHolder("h"))
			}
		}
	}},
	"another policy of the job is a conflict": {needs: policy(match.PolicyHigh), test: func(t *testing.T, s *subject) {
		s.load(t, crossed()...)
		s.places(t, 1, Slots("a", 1, Cores(1)), "0@n5", underPolicy(match.PolicyHigh))
		s.fails(t, 1, Slots("a", 1, Cores(1)), match.ErrConflict, underPolicy(match.PolicyLonode))
		s.places(t, 1, Slots("a", 1, Cores(1)), "0@n5", underPolicy(match.PolicyHigh))
	}},
	"what does not fit is passed over, whatever the policy": {needs: policy(match.PolicyHigh), test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)), Node("n2", nil, Cores(4)), Node("n3", nil, Cores(1)))
		s.places(t, 1, Slots("a", 3, Cores(2)), "0@n2 1@n2 2@n1", underPolicy(match.PolicyHigh))
	}},
	"near goes before the policy": {needs: both(near, policy(match.PolicyHigh)), test: func(t *testing.T, s *subject) {
		s.load(t, crossed()...)
		s.places(t, 1, Slots("a", 7, Cores(1)), "0@n2 1@n2 2@n4 3@n4 4@n5 5@n5 6@n3", underPolicy(match.PolicyHigh), nearTo("n2"))
	}},
	"near goes before the order of the graph": {needs: both(near, policy(match.PolicyFirst)), test: func(t *testing.T, s *subject) {
		s.load(t, crossed()...)
		s.places(t, 1, Slots("a", 7, Cores(1)), "0@n5 1@n5 2@n1 3@n1 4@n3 5@n3 6@n2", underPolicy(match.PolicyFirst), nearTo("n5"))
	}},
	"in the order of the graph what came later stands behind": {needs: policy(match.PolicyFirst), test: func(t *testing.T, s *subject) {
		in := func(name, rack string) *resource.Graph { return Node(name, [][2]string{{"rack", rack}}, Cores(1)) }
		s.load(t, in("n1", "r1"), in("n2", "r2"))
		js := Jobspec(Slot("a", jobspec.Between(1, 9), Cores(1)))
		how := []option{underPolicy(match.PolicyFirst), as(match.WithoutAllocating)}
		s.places(t, 1, js, "0@n1 1@n2", how...)
		s.put(t, in("n0", "r1"))
		s.put(t, in("n4", "r0"))
		s.put(t, in("n3", "r1"))
		s.places(t, 1, js, "0@n1 1@n0 2@n3 3@n2 4@n4", how...)
		s.put(t, in("n1", "r2"))
		s.places(t, 1, js, "0@n0 1@n3 2@n2 3@n1 4@n4", how...)
		s.remove(t, "n0")
		s.remove(t, "n2")
		s.places(t, 1, js, "0@n3 1@n1 2@n4", how...)
		s.put(t, in("n3", "r1")) // n3 is put again as it was.
		s.places(t, 1, js, "0@n3 1@n1 2@n4", how...)
	}},
}
