package matchtest

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
)

// invalid returns the rule that a request is match.ErrInvalid in a graph with room for it.
func invalid(id match.JobID, js *jobspec.Jobspec, how ...option) rule {
	return rule{test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		s.fails(t, id, js, match.ErrInvalid, how...)
		s.holding(t, "")
	}}
}

// skewed returns a valid jobspec after a change.
func skewed(change func(js *jobspec.Jobspec)) *jobspec.Jobspec {
	js := Slots("a", 1, Cores(1))
	change(js)
	return js
}

var argumentRules = map[string]rule{
	"a request without a jobspec is invalid":       invalid(1, nil),
	"job 0 cannot hold anything":                   invalid(0, Slots("a", 1, Cores(1))),
	"an unknown operation is invalid":              invalid(1, Slots("a", 1, Cores(1)), as(match.Op(99))),
	"an unknown policy is invalid":                 invalid(1, Slots("a", 1, Cores(1)), underPolicy("elsewhere")),
	"a duration below 0 is invalid":                invalid(1, Slots("a", 1, Cores(1)), lasting(-time.Second)),
	"fewer keys than slots are invalid":            invalid(1, Slots("a", 2, Cores(1)), keys("x")),
	"more keys than slots are invalid":             invalid(1, Slots("a", 2, Cores(1)), keys("x", "y", "z")),
	"two slots of one key are invalid":             invalid(1, Slots("a", 2, Cores(1)), keys("x", "x")),
	"a jobspec without resources is invalid":       invalid(1, skewed(func(js *jobspec.Jobspec) { js.Resources = nil })),
	"a slot that asks for nothing is invalid":      invalid(1, Slots("a", 1)),
	"a slot without a label is invalid":            invalid(1, skewed(func(js *jobspec.Jobspec) { js.Resources[0].Label = "" })),
	"a slot count of 0 is invalid":                 invalid(1, Slots("a", 0, Cores(1))),
	"a slot count below 0 is invalid":              invalid(1, Slots("a", -1, Cores(1))),
	"an amount of 0 is invalid":                    invalid(1, Slots("a", 1, Cores(0))),
	"an amount below 0 is invalid":                 invalid(1, Slots("a", 1, Cores(-1))),
	"a pool asked for twice is invalid":            invalid(1, Slots("a", 1, Cores(1), Cores(2))),
	"a range that ends below its start is invalid": invalid(1, Jobspec(Slot("a", jobspec.Between(3, 2), Cores(1)))),
	"a range with an unknown operator is invalid": invalid(1, Jobspec(
		Slot("a", jobspec.Count{Min: 1, Max: 2, Operator: '-', Operand: 1}, Cores(1)))),
	"more slots than an engine can list are invalid": invalid(1, Slots("a", math.MaxUint32, Cores(1))),
	"an unknown constraint is invalid": invalid(1, skewed(func(js *jobspec.Jobspec) {
		js.Attributes.System.Constraints = &jobspec.Constraint{Op: "phase-of-the-moon", Values: []string{"full"}}
	})),
	"attributes of a label that no slot has are invalid": invalid(1, skewed(func(js *jobspec.Jobspec) {
		Constrain(js, "b", jobspec.SlotAttributes{MaxPerLevel: map[string]int64{"node": 1}})
	})),
	"a bound of no slots is invalid": invalid(1, skewed(func(js *jobspec.Jobspec) {
		Constrain(js, "a", jobspec.SlotAttributes{MaxPerLevel: map[string]int64{"node": 0}})
	})),
	"an update of job 0 is invalid": {needs: updates, test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		s.badUpdate(t, match.Job{Slots: []match.Slot{Held("a", "n1", Cores(1))}})
	}},
	"an update that names no node is invalid": {needs: updates, test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		s.badUpdate(t, match.Job{ID: 1, Slots: []match.Slot{Held("a", "", Cores(1))}})
	}},
	"an update with an amount below 0 is invalid": {needs: updates, test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		s.badUpdate(t, match.Job{ID: 1, Slots: []match.Slot{Held("a", "n1", Cores(-1))}})
	}},
}

// badUpdate updates a good job and a bad job in one call, which must fail and change nothing.
func (s *subject) badUpdate(t *testing.T, bad match.Job) {
	t.Helper()
	good := match.Job{ID: 8, Slots: []match.Slot{Held("a", "n1", Cores(1))}}
	if err := s.Update(t.Context(), s.epoch, good, bad); !errors.Is(err, match.ErrInvalid) {
		t.Errorf("Update() = %v, want the error %q", err, match.ErrInvalid)
	}
	s.holding(t, "")
}
