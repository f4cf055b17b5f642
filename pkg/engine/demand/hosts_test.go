package demand

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/test/trials"
)

// randomConstraint returns a constraint on the hosts n0 to n9 and the properties p0 to p2.
func randomConstraint(r *rand.Rand, depth int) *jobspec.Constraint {
	c := &jobspec.Constraint{}
	switch op := r.IntN(7); {
	case op < 3:
		c.Op = jobspec.OpHostlist
		for range r.IntN(5) {
			c.Values = append(c.Values, []string{fmt.Sprint("n", r.IntN(10)), fmt.Sprintf("n[%d-%d]", r.IntN(5), 5+r.IntN(5))}[r.IntN(6)/5])
		}
		if r.IntN(2) == 0 {
			slices.Sort(c.Values)
		}
	case op == 3 || depth == 0:
		c.Op, c.Values = jobspec.OpProperties, []string{fmt.Sprint([]string{"", "^"}[r.IntN(2)], "p", r.IntN(3))}
	default:
		c.Op = []string{jobspec.OpNot, jobspec.OpAnd, jobspec.OpOr}[op-4]
		for range r.IntN(3) {
			c.Args = append(c.Args, *randomConstraint(r, depth-1))
		}
	}
	return c
}

// TestRulesForHostsAreTheConstraint compares rules and conditions with the compiled constraints.
func TestRulesForHostsAreTheConstraint(t *testing.T) {
	rules := 0
	for seed := range trials.Seeds(500) {
		r := rand.New(rand.NewPCG(seed, 0))
		all, always, now := randomConstraint(r, 3), randomConstraint(r, 3), randomConstraint(r, 3)
		js := matchtest.Slots("a", 1, matchtest.Cores(1))
		js.Attributes.System.Constraints = all
		a, err := Read(matchtest.Constrain(js, "a", jobspec.SlotAttributes{Constraints: always, ConstraintsNow: now}))
		if err != nil {
			t.Fatal(err)
		}
		rules += len(a.HostRules(0))
		if leaves := all.Leaves() + always.Leaves() + now.Leaves(); a.Shapes[0].ConstraintSteps != conditionSteps*leaves {
			t.Errorf("seed %d: %d steps for %d leaves", seed, a.Shapes[0].ConstraintSteps, leaves)
		}
		holds := func(c *jobspec.Constraint, v *resource.Vertex) bool {
			compiled, err := c.Compile()
			if err != nil {
				t.Fatal(err)
			}
			return compiled(v.Name, v.Rank, v.Properties)
		}
		for i := range 10 {
			v := &resource.Vertex{Name: fmt.Sprint("n", i), Properties: map[string]string{fmt.Sprint("p", r.IntN(3)): ""}}
			permanent, current := a.Allow(0, v)
			if want := holds(all, v) && holds(always, v); permanent != want || current != (want && holds(now, v)) {
				t.Errorf("seed %d: Allow(%s) = %t, %t, want %t, %t", seed, v.Name, permanent, current, want, want && holds(now, v))
			}
		}
	}
	if rules == 0 {
		t.Error("no constraint became a rule")
	}
}
