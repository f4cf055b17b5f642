package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/flux-k8s/fluence/test/trials"
)

// A Job has all nodes. Of two groups that wait, the one of the higher priority needs more nodes than the other one. It
// starts first when the Job is deleted and when its pods succeed, although the nodes do not fall free at once.
func TestTheHigherPriorityGetsTheNodesOfAJobThatEnds(t *testing.T) {
	const nodes, high, low = 8, 6, 4
	s := tell(t)
	s.nodes("n", nodes, "8")
	name := s.patient(1000, 10)
	ends := map[string]struct {
		annotation string
		end        func()
	}{
		"deleted": {end: func() { s.kubectl("delete", "job", "base", "-n", s.ns) }},
		"ended":   {annotation: "annotations: {kwok.fluence.flux-framework.org/run-for: 6s}", end: func() {}},
	}
	for how, tc := range ends {
		first := 0
		n := trials.Count(2)
		for range n {
			s.applyText(job("base", nodes, "8", tc.annotation))
			s.running("base-", nodes)
			// The group that comes first is the one of the lower priority.
			s.applyText(prioritized(job("low", low, "8"), name(10)))
			s.applyText(prioritized(job("high", high, "8"), name(1000)))
			s.refused("job-high-", "NoRoom", "needs 6 pods with cpu 8")
			s.refused("job-low-", "NoRoom", "needs 4 pods with cpu 8")
			tc.end()
			s.eventually("one of the groups runs", func(context.Context) (bool, string) {
				h, l := len(s.onNodes("high-")), len(s.onNodes("low-"))
				return h == high || l == low, fmt.Sprintf("%d pods of high and %d of low are on nodes", h, l)
			})
			if len(s.onNodes("high-")) == high {
				first++
			}
			s.kubectl("delete", "job", "high", "low", "base", "-n", s.ns, "--ignore-not-found")
			for _, prefix := range []string{"high-", "low-", "base-"} {
				s.eventually("no pod of "+prefix+" is left", func(context.Context) (bool, string) {
					left := s.pods(prefix)
					return len(left) == 0, fmt.Sprintf("%d are left", len(left))
				})
			}
		}
		t.Logf("the base %s: the higher priority was the first in %d of %d trials", how, first, n)
		if first != n {
			t.Errorf("the base %s: the higher priority was the first in %d of %d trials", how, first, n)
		}
	}
}

// A Job has all nodes, and three groups wait. The first needs five nodes, the second needs three and the last needs one.
// The nodes of the Job do not fall free at once when it is deleted. The first and the second get them.
func TestTheNodesOfADeletedJobGoToGroupsInTheirOrder(t *testing.T) {
	const nodes, first, second = 8, 5, 3
	s := tell(t)
	s.nodes("n", nodes, "8")
	name := s.patient(10)
	wrong, n := 0, trials.Count(2)
	for k := range n {
		s.applyText(job("base", nodes, "8", ""))
		s.running("base-", nodes)
		for _, g := range []struct {
			name  string
			nodes int
		}{{"first", first}, {"second", second}, {"small", 1}} {
			manifest := job(g.name, g.nodes, "8", "")
			if g.name == "first" && k%2 == 1 {
				manifest = prioritized(manifest, name(10))
			}
			s.applyText(manifest)
			s.refused("job-"+g.name+"-", "NoRoom", fmt.Sprintf("needs %d pod", g.nodes))
		}
		s.kubectl("delete", "job", "base", "-n", s.ns)
		s.eventually("all nodes are taken", func(context.Context) (bool, string) {
			f, g, l := len(s.onNodes("first-")), len(s.onNodes("second-")), len(s.onNodes("small-"))
			return f+g == nodes || l == 1, fmt.Sprintf("%d pods of the first, %d of the second and %d of the last are on nodes", f, g, l)
		})
		if len(s.onNodes("small-")) > 0 {
			wrong++
		}
		s.kubectl("delete", "job", "first", "second", "small", "base", "-n", s.ns, "--ignore-not-found")
		s.eventually("no pod is left", func(context.Context) (bool, string) {
			left := s.pods("")
			return len(left) == 0, fmt.Sprintf("%d are left", len(left))
		})
	}
	if wrong > 0 {
		t.Errorf("the last group passed the second one in %d of %d trials", wrong, n)
	}
}
