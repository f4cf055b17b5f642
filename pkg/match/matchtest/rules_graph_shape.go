package matchtest

import (
	"testing"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
)

// asked returns a jobspec of any shape. Its only task is on the slot "a".
func asked(resources ...jobspec.Resource) *jobspec.Jobspec {
	js := Jobspec(resources...)
	js.Tasks = js.Tasks[:1]
	js.Tasks[0].Slot = "a"
	return js
}

// vertices requests a number of vertices of a type, with these resources in each.
func vertices(kind string, n int64, with ...jobspec.Resource) jobspec.Resource {
	return jobspec.Resource{Type: kind, Count: jobspec.Exactly(n), With: with}
}

func exclusive(r jobspec.Resource) jobspec.Resource {
	yes := true
	r.Exclusive = &yes
	return r
}

var graphShapeRules = map[string]graphRule{
	"slots within nodes": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(2))
		js := asked(vertices("rack", 2, vertices("node", 1, Slot("a", jobspec.Exactly(2), whole("core", 1)))))
		a := s.give(t, 1, js)
		if len(a.Slots) != 4 {
			t.Fatalf("%d slots were given out, want 4: %s", len(a.Slots), standing(a.Slots))
		}
		same(t, "the racks", leaves(pathsOf(a.R), "rack"), []string{"/rack0", "/rack1"})
	},
	"a slot that is on two nodes has no node": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		js := asked(jobspec.Resource{Type: jobspec.SlotType, Count: jobspec.Exactly(1), Label: "a", With: []jobspec.Resource{
			vertices("node", 2, vertices("core", 1)),
		}})
		s.stands(t, 1, js, "0@")
	},
	"what is outside of slots is a slot without a label": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		js := asked(exclusive(vertices("node", 1, vertices("core", 2))))
		a := s.give(t, 1, js)
		if len(a.Slots) != 1 || a.Slots[0].Label != "" || a.Slots[0].Node != "node0" {
			t.Errorf("slots are %+v, want one without a label on node0", a.Slots)
		}
		s.release(t, 1)
		same(t, "what is held", s.find(t, "sched-now=allocated"), []string{})
	},
	"a range is given as much as there is": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		js := Jobspec(Slot("a", jobspec.Between(1, 5), whole("core", 3)))
		s.stands(t, 1, js, "v@node0 w@node1", keys("v", "w", "x", "y", "z"))
	},
	"an empty node meets a request that names its level": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		s.give(t, 1, Slots("a", 1, whole("core", 1)))
		js := asked(exclusive(vertices("node", 1, vertices("core", 1))))
		if a := s.give(t, 2, js); a.Slots[0].Node != "node1" {
			t.Errorf("an exclusive node was given at %q, want node1", a.Slots[0].Node)
		}
		s.refuse(t, 3, js, match.ErrBusy)
	},
	"constraints keep slots to nodes": func(t *testing.T, s *graphSubject) {
		g := machine(2)
		for i := range g.Vertices {
			if v := &g.Vertices[i]; v.Name == "node1" || v.Name == "node3" {
				v.Properties = map[string]string{"fast": ""}
			}
		}
		s.loadGraph(t, g)
		for id, c := range []jobspec.Constraint{
			{Op: jobspec.OpProperties, Values: []string{"fast"}}, {Op: jobspec.OpHostlist, Values: []string{"node[1,3]"}},
			{Op: jobspec.OpRanks, Values: []string{"1,3"}},
		} {
			js := Slots("a", 2, whole("core", 3))
			js.Attributes.System.Constraints = &c
			s.stands(t, match.JobID(id+1), js, "0@node1 1@node3")
			s.release(t, match.JobID(id+1))
		}
	},
}
