package matchtest

import (
	"errors"
	"strings"
	"testing"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
)

// Limited adds limits to the slots of one label, and returns js.
func Limited(js *jobspec.Jobspec, label string, l ...jobspec.Limit) *jobspec.Jobspec {
	a := js.Attributes.System.Fluence[label]
	a.Limits = append(a.Limits, l...)
	return Constrain(js, label, a)
}

// mixed requests x slots of a and y slots of b, each of one core.
func mixed(x, y int64) *jobspec.Jobspec {
	return Jobspec(Slot("a", jobspec.Exactly(x), Cores(1)), Slot("b", jobspec.Exactly(y), Cores(1)))
}

var limitRules = map[string]rule{
	"no more slots stand below a vertex than a limit allows": {needs: limits, test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		js := Limited(Slots("a", 4, Cores(1)), "a", jobspec.Limit{Name: "l", Level: "rack", Most: 2})
		s.places(t, 1, js, "0@n1 1@n1 2@n3 3@n3")
		r := s.refuses(t, 2, Limited(Slots("a", 5, Cores(1)), "a", jobspec.Limit{Name: "l", Level: "rack", Most: 2}), match.ErrUnsatisfiable)
		if s.can.Reasons && (r.Code != match.TooFew || r.Found != 4) {
			t.Errorf("the reason is %+v, want TooFew with 4 found", r)
		}
	}},
	"no more slots stand on some hosts than a limit allows": {needs: limits, test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		js := Limited(Slots("a", 4, Cores(2)), "a",
			jobspec.Limit{Name: "l", Hosts: []string{"n[1-2],n4"}, Most: 3}, jobspec.Limit{Name: "m", Hosts: []string{"n2"}, Most: 0})
		s.places(t, 1, js, "0@n1 1@n1 2@n3 3@n3")
	}},
	"each list of hosts is bounded by itself": {needs: limits, test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		js := Limited(Slots("a", 4, Cores(2)), "a", jobspec.Limit{Name: "l", Hosts: []string{"n[1-2]", "n4"}, Most: 1})
		s.places(t, 1, js, "0@n1 1@n3 2@n3 3@n4")
	}},
	"a host in two lists of a limit is invalid": invalidLimit(jobspec.Limit{Name: "l", Hosts: []string{"n[1-2]", "n2"}, Most: 1}),
	"slots of several labels count together": {needs: both(shapes, limits), test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		port := jobspec.Limit{Name: "port", Level: "node", Most: 1}
		s.places(t, 1, Limited(Limited(mixed(2, 2), "a", port), "b", port), "0@n1 1@n2 2@n3 3@n4")
		s.refuses(t, 2, Limited(Limited(mixed(2, 3), "a", port), "b", port), match.ErrUnsatisfiable)
	}},
	"labels without the limit do not count": {needs: both(shapes, limits), test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		js := Limited(mixed(2, 2), "a", jobspec.Limit{Name: "port", Level: "node", Most: 1})
		s.places(t, 1, js, "0@n1 1@n2 2@n1 3@n1")
	}},
	"a limit of a level that no vertex is of bounds nothing": {needs: limits, test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		js := Limited(Slots("a", 2, Cores(1)), "a", jobspec.Limit{Name: "l", Level: "row", Most: 1})
		s.places(t, 1, js, "0@n1 1@n1")
	}},
	"hosts that overlap without nesting leave no way untried": {needs: limits, test: func(t *testing.T, s *subject) {
		// A slot on n1 would leave no room for the other slot.
		s.load(t, Node("n1", nil, Cores(2)), Node("n2", nil, Cores(2)), Node("n3", nil, Cores(2)))
		js := Limited(Slots("a", 2, Cores(1)), "a",
			jobspec.Limit{Name: "l", Hosts: []string{"n1,n2"}, Most: 1}, jobspec.Limit{Name: "m", Hosts: []string{"n1,n3"}, Most: 1})
		s.places(t, 1, js, "0@n2 1@n3")
		js = Limited(Slots("a", 2, Cores(1)), "a", jobspec.Limit{Name: "l", Hosts: []string{"n1,n2"}, Most: 1},
			jobspec.Limit{Name: "m", Hosts: []string{"n2,n3"}, Most: 1}, jobspec.Limit{Name: "n", Hosts: []string{"n1,n3"}, Most: 1})
		s.refuses(t, 2, js, match.ErrUnsatisfiable)
	}},
	"slots of a range go no further than a limit": {needs: both(ranges, limits), test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		js := Limited(Jobspec(Slot("a", jobspec.Between(1, 9), Cores(1))), "a", jobspec.Limit{Name: "l", Level: "node", Most: 1})
		s.places(t, 1, js, "0@n1 1@n2 2@n3 3@n4")
	}},
	"two limits of one name that say different things are invalid": {needs: both(shapes, limits), test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		js := Limited(mixed(1, 1), "a", jobspec.Limit{Name: "port", Level: "node", Most: 1})
		_, err := s.try(t.Context(), 1, Limited(js, "b", jobspec.Limit{Name: "port", Level: "node", Most: 2}))
		if !errors.Is(err, match.ErrInvalid) || !strings.Contains(err.Error(), "port") {
			t.Errorf("Match() = %v, want the error %q with the name", err, match.ErrInvalid)
		}
	}},
	"a limit without a name is invalid":             invalidLimit(jobspec.Limit{Level: "node", Most: 1}),
	"a limit of neither level nor hosts is invalid": invalidLimit(jobspec.Limit{Name: "l", Most: 1}),
	"a limit of level and hosts is invalid":         invalidLimit(jobspec.Limit{Name: "l", Level: "node", Hosts: []string{"n1"}, Most: 1}),
	"a limit below 0 is invalid":                    invalidLimit(jobspec.Limit{Name: "l", Level: "node", Most: -1}),
	"a limit of hosts that are none is invalid":     invalidLimit(jobspec.Limit{Name: "l", Hosts: []string{"n[1-"}, Most: 1}),
	"an engine that takes no limits says so": {test: func(t *testing.T, s *subject) {
		if s.can.Limits {
			t.Skip("this engine takes limits")
		}
		s.load(t, inRacks()...)
		s.fails(t, 1, Limited(Slots("a", 1, Cores(1)), "a", jobspec.Limit{Name: "l", Level: "node", Most: 1}), match.ErrInvalid)
	}},
}

func invalidLimit(l jobspec.Limit) rule {
	return rule{test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		s.fails(t, 1, Limited(Slots("a", 1, Cores(1)), "a", l), match.ErrInvalid)
	}}
}
