package interpod

import "testing"

// Each domain counts, also a domain without members so far.
func TestTheSkewIsOfAllDomains(t *testing.T) {
	cases := map[string]struct {
		sp   *spreadConstraint
		node string
		want bool
	}{
		"the lowest domain":               {spreadOf(1, 1, 0, 1, 1), "a0", true},
		"one above the lowest":            {spreadOf(1, 1, 0, 1, 1), "b0", false},
		"one above it with a wider skew":  {spreadOf(2, 1, 0, 1, 1), "b0", true},
		"all are level":                   {spreadOf(1, 1, 1, 1, 1), "c1", true},
		"too few domains count as empty":  {spreadOf(1, 4, 1, 1, 1), "c1", false},
		"a node of no domain is not ours": {spreadOf(1, 1, 0, 9), "z0", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.sp.owners = []int{0}
			sk := SkewTracker{spread: tc.sp, counts: tc.sp.counts(), domain: tc.sp.domainOf()}
			if got := sk.Allows(Target{Node: tc.node}); got != tc.want {
				t.Errorf("one more on %s: %v, want %v", tc.node, got, tc.want)
			}
			sk.Add(Target{Node: "a0"})
			if got := sk.counts[0] - tc.sp.domains[0].existing; got != 1 {
				t.Errorf("%d more counted in the first domain, want 1", got)
			}
		})
	}
}
