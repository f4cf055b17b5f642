package invariants

import (
	"slices"
	"time"
)

// judgeRemovals judges the deletes and evictions by Fluence of which all is known
// by now.
func (j *judge) judgeRemovals(now time.Time) {
	j.removals = slices.DeleteFunc(j.removals, func(a auditFact) bool {
		due := now.Sub(a.received) >= judgeAfter
		if due {
			j.judgeRemoval(a)
		}
		return due
	})
}

// judgeRemoval judges one: it is allowed only to start an incomplete group again.
func (j *judge) judgeRemoval(a auditFact) {
	j.stats.Removals++
	what := a.verb
	if a.subresource != "" {
		what = a.subresource
	}
	p := j.latest[a.pod]
	if p == nil || p.family == nil {
		j.report(RulePodMoved, a.pod, a.received, "%s asked for its %s: it is in no group of Fluence's", a.user, what)
		return
	}
	may, _ := p.family.restarts()
	if g := p.family.group; g == nil || g.policy == "" {
		may = may || p.policy == policyRestart // it may have gone by now
	}
	told := p.family.wasIncomplete(a.received)
	if may && told {
		return
	}
	if j.excuses.deaf(a.received.Add(-judgeAfter), a.received.Add(judgeAfter)) {
		return // what was told of the group may not have been seen in time
	}
	j.report(RulePodMoved, a.pod, a.received, "%s asked for its %s, which only policy %s of a group with condition %s=True allows: of group %s policy %s was %t and the condition %t",
		a.user, what, policyRestart, conditionIncomplete, p.family.key, policyRestart, may, told)
}

// wasIncomplete reports whether the condition was true at that time, as far as
// deliveries may differ from it.
func (f *partial) wasIncomplete(at time.Time) bool {
	if f.incomplete.IsZero() || f.incomplete.After(at.Add(judgeAfter)) {
		return false
	}
	return f.incomplete.After(f.until) || f.until.After(at.Add(-judgeAfter))
}
