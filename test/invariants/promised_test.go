package invariants

import (
	"testing"
	"time"
)

// promised writes the condition of the group g, which waits: from when it has room, and what the message says of that.
func (s *script) promised(from, of string) *script {
	return s.group("g", 2, because("NoRoom", "promised 2 nodes from "+from+of+"; needs 2 pods"))
}

func TestPromiseBroken(t *testing.T) {
	broken := []broke{{RulePromiseBroken, "ns/g"}}
	// waits is a group that is promised room from the first minute on.
	waits := func(s *script) *script { return two(s).promised("00:01:00Z", "").after(10 * time.Second) }
	// starts lets it start at last, so that nothing else is wrong.
	starts := func(s *script) { s.bind("a", "n").bind("b", "n").group("g", 2, placed()) }
	run(t, map[string]tale{
		"it is kept":                 {tell: func(s *script) { starts(waits(s).after(51 * time.Second)) }},
		"it comes earlier":           {tell: func(s *script) { starts(waits(s).promised("00:00:30Z", "").after(5 * time.Second)) }},
		"it comes later":             {tell: func(s *script) { starts(waits(s).promised("00:02:00Z", "").after(5 * time.Second)) }, want: broken},
		"it comes two seconds later": {tell: func(s *script) { starts(waits(s).promised("00:01:02Z", "").after(5 * time.Second)) }},
		"it comes later second by second": {tell: func(s *script) {
			starts(waits(s).promised("00:01:02Z", "").after(5*time.Second).promised("00:01:04Z", "").after(5 * time.Second))
		}, want: broken},
		"it comes later, on another day": {tell: func(s *script) { starts(waits(s).promised("2026-01-02T00:01:00Z", "").after(5 * time.Second)) }, want: broken},
		"it comes earlier, and later again": {tell: func(s *script) {
			starts(waits(s).promised("00:00:30Z", "").promised("00:01:00Z", "").after(5 * time.Second))
		}, want: broken},
		"it comes later, and says why": {tell: func(s *script) {
			starts(waits(s).promised("00:02:00Z", " (before: from 00:01:00Z; node n is gone)").after(time.Minute))
		}},
		"it comes later, and gives nothing as the cause": {
			tell: func(s *script) {
				starts(waits(s).promised("00:02:00Z", " (before: from 00:01:00Z; )").after(5 * time.Second))
			},
			want: broken,
		},
		"it comes later again, of the same cause": {tell: func(s *script) {
			const why = " (before: from 00:01:00Z; node n is gone)"
			starts(waits(s).promised("00:02:00Z", why).after(time.Second).promised("00:03:00Z", why).after(5 * time.Second))
		}},
		"it comes later, while the matcher does not answer": {
			tell: func(s *script) {
				starts(waits(s).group("g", 2, because("MatcherUnavailable", "x")).after(time.Second).promised("00:02:00Z", "").after(5 * time.Second))
			},
			want: broken,
		},
		"it ends, and another is made": {tell: func(s *script) {
			starts(waits(s).group("g", 2, refusal()).after(time.Second).promised("00:02:00Z", "").after(5 * time.Second))
		}},
		"it comes later after the scheduler was killed": {tell: func(s *script) {
			end := waits(s).excuse()
			s.heard()
			s.after(5 * time.Second)
			end()
			starts(s.after(5*time.Second).promised("00:02:00Z", "").after(5 * time.Second))
		}},
		"it comes later after the scheduler was killed before it was made": {
			tell: func(s *script) {
				s.excuse()()
				s.heard()
				starts(waits(s.after(10*time.Second)).promised("00:02:00Z", "").after(5 * time.Second))
			},
			want: broken,
		},
		"it comes later after an annotation has changed": {tell: func(s *script) {
			waits(s).group("g", 2, func(g *groupFact) { g.annotations = map[string]string{durationAnnotation: "5m"} })
			starts(s.after(time.Second).promised("00:02:00Z", "").after(5 * time.Second))
		}},
		"it comes later a moment before a pod is seen to change": {tell: func(s *script) {
			starts(waits(s).promised("00:02:00Z", "").after(time.Second).edit("a", priority(-10)).after(5 * time.Second))
		}},
		"it comes later, and another group has changed": {
			tell: func(s *script) {
				waits(s).group("other", 1, refusal()).pod("c", "other")
				starts(s.after(time.Second).promised("00:02:00Z", "").after(5 * time.Second))
			},
			want: broken,
		},
		"it is over":              {tell: func(s *script) { starts(waits(s).after(88 * time.Second)) }, want: broken},
		"it is over for a moment": {tell: func(s *script) { starts(waits(s).after(86 * time.Second)) }},
		"it is over, and says why": {tell: func(s *script) {
			starts(waits(s).promised("00:01:00Z", ", which is over: pod x should have ended at 00:00:59Z").after(10 * time.Minute))
		}},
		"it is over when it is first told": {tell: func(s *script) { starts(two(s).after(time.Minute).promised("00:00:30Z", "").after(36 * time.Second)) }},
		"it is over while the API is away": {tell: func(s *script) {
			end := waits(s).excuse()
			s.after(10 * time.Minute)
			end()
			starts(s.after(time.Second))
		}},
		"it is over, and its Job is suspended": {tell: func(s *script) {
			waits(s).remove("a").remove("b").after(10 * time.Minute)
		}},
		"it is over, and two are told of it": {
			tell: func(s *script) {
				starts(waits(s).after(88*time.Second).promised("00:02:00Z", "").after(95 * time.Second))
			},
			want: append(broken[:1:1], broken[0], broken[0]),
		},
	})
}

// A pod alone has no PodGroup that could say what it is promised.
func TestAPromiseToAPodAloneIsBroken(t *testing.T) {
	says := func(from string) func(*podFact) {
		return func(p *podFact) { p.text = "promised 1 node from " + from + "; needs 1 pod" }
	}
	run(t, map[string]tale{"it comes later": {
		tell: func(s *script) {
			s.node("n", 8).pod("a", "", says("00:01:00Z")).after(time.Second).edit("a", says("00:02:00Z")).after(5*time.Second).bind("a", "n")
		},
		want: []broke{{RulePromiseBroken, "ns/a"}},
	}})
}

func TestPromisesAreCounted(t *testing.T) {
	s := newScript(t)
	two(s).promised("00:01:00Z", "").after(time.Second).promised("00:02:00Z", " (before: from 00:01:00Z; node n is gone)")
	if n := s.judge.promised(); n != 1 {
		t.Errorf("%d groups are promised room, want 1", n)
	}
	s.bind("a", "n").bind("b", "n").group("g", 2, placed())
	s.group("late", 1, because("NoRoom", "promised 1 node from 00:00:01Z, which is over: pod x should have ended at 00:00:01Z; x")).pod("c", "late").after(time.Minute)
	s.bind("c", "n").group("late", 1, placed())
	s.group("ended", 1, because("NoRoom", "promised 1 node from 00:05:00Z; x")).pod("d", "ended").group("ended", 1, refusal())
	if got := [4]int{s.stats.Promised, s.stats.PromisesMoved, s.stats.PromisesKept, s.stats.PromisesEnded}; got != [4]int{3, 1, 1, 1} || s.judge.promised() != 0 {
		t.Errorf("promised, moved, kept, ended: %v, and %d now", got, s.judge.promised())
	}
}

// The controller may end a pod after its duration. That is a loss for which the rest of the group may be evicted.
func TestTheControllerEndsPodsAfterTheirDuration(t *testing.T) {
	moved := []broke{{RulePodMoved, "ns/a"}}
	// lasts gives the pods of running a duration, and says since when they are on their nodes.
	lasts := func(s *script, d string) *script {
		for _, n := range []string{"a", "b"} {
			s.edit(n, func(p *podFact) { p.annotations, p.boundAt = map[string]string{durationAnnotation: d}, s.now })
		}
		return s
	}
	run(t, map[string]tale{
		"after it": {tell: func(s *script) {
			lasts(running(s), "20s").after(20 * time.Second).evict("a").evict("b").remove("a").remove("b")
		}},
		"before it":  {tell: func(s *script) { lasts(running(s), "20s").after(15 * time.Second).evict("a") }, want: moved},
		"without it": {tell: func(s *script) { running(s).after(20 * time.Second).evict("a") }, want: moved},
		"after that of the PodGroup": {tell: func(s *script) {
			lasts(running(s), "20h").group("g", 2, func(g *groupFact) { g.annotations = map[string]string{durationAnnotation: "20s"} })
			s.after(20 * time.Second).evict("a").evict("b").remove("a").remove("b")
		}},
		"a moment after it was raised": {tell: func(s *script) {
			lasts(running(s), "20s").after(20*time.Second).group("g", 2, func(g *groupFact) { g.annotations = map[string]string{durationAnnotation: "20h"} })
			s.evict("a").evict("b").remove("a").remove("b")
		}},
		"by the scheduler": {
			tell: func(s *script) { lasts(running(s), "20s").after(20 * time.Second).deleteAsScheduler("a") },
			want: moved,
		},
		"and the rest is evicted by policy restart": {tell: func(s *script) {
			running(s).group("g", 2, restart).edit("a", func(p *podFact) { p.annotations, p.boundAt = map[string]string{durationAnnotation: "20s"}, s.now })
			s.after(20*time.Second).evict("a").remove("a").after(testTimeout).evict("b").group("g", 2, restart, lacking("True")).remove("b")
		}},
	})
}
