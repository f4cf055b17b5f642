package invariants

import "testing"

// A refusal counts as rest only if no further change is to come.
func TestAtRest(t *testing.T) {
	cases := map[string]struct {
		tell func(s *script)
		want bool
	}{
		"refused":                         {tell: func(s *script) { two(s) }, want: true},
		"placed":                          {tell: func(s *script) { running(s) }, want: true},
		"gathering":                       {tell: func(s *script) { gathering(s) }, want: true},
		"gathering, and enough are there": {tell: func(s *script) { gathering(s).pod("b", "g") }},
		"gathering, and one that is there is not to stay": {
			tell: func(s *script) { gathering(s).pod("b", "g", deleting) }, want: true,
		},
		"without a matcher":     {tell: func(s *script) { two(s).group("g", 2, because("MatcherUnavailable", "x")) }},
		"waiting for its binds": {tell: func(s *script) { two(s).group("g", 2, because("Binding", "x")) }},
		"waiting for the rest of them": {tell: func(s *script) {
			two(s).bind("a", "n").group("g", 2, because("Binding", "x"))
		}},
		"no PodGroup, and there is one": {tell: func(s *script) { two(s).group("g", 2, because("NoPodGroup", "x")) }},
		"a started group without a matcher": {tell: func(s *script) {
			loses(s, because("MatcherUnavailable", "x")).group("g", 2, because("MatcherUnavailable", "x"))
		}},
		"a group that has lost a pod":        {tell: func(s *script) { running(s).remove("a") }},
		"a native group that has lost a pod": {tell: func(s *script) { running(s).group("g", 2, native).remove("a") }, want: true},
		"a pod of a StatefulSet that is gone": {
			tell: func(s *script) { s.group("g", 1, placed()).owner().disown().pod("a", "g", controlled("set")) }, want: true,
		},
		"a pod of a StatefulSet that has long been gone": {
			tell: func(s *script) {
				s.node("n", 8).owner().group("g", 2, placed()).pod("a", "g", controlled("set")).bind("a", "n").disown().after(goneWithin + testSlack + tick)
			},
		},
		"a group that has lost a pod, and then its StatefulSet": {tell: func(s *script) { ofSet(s).remove("a").disown() }, want: true},
		"a group that has lost a pod, not its StatefulSet":      {tell: func(s *script) { ofSet(s).remove("a") }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			tc.tell(s)
			if got := len(s.restless(s.now)) == 0; got != tc.want {
				t.Errorf("at rest is %t, want %t", got, tc.want)
			}
		})
	}
}

// ofSet adds two pods of a StatefulSet that run, and their group.
func ofSet(s *script) *script {
	return s.node("n", 8).owner().group("g", 2, placed()).
		pod("a", "g", controlled("set")).pod("b", "g", controlled("set")).bind("a", "n").bind("b", "n")
}
