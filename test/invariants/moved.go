package invariants

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// judgeRemovals judges Fluence's deletes and evictions about which everything is known by now.
func (j *judge) judgeRemovals(now time.Time) {
	j.removals = slices.DeleteFunc(j.removals, func(a auditFact) bool {
		due := now.Sub(a.received) >= judgeAfter
		if due {
			j.judgeRemoval(a)
		}
		return due
	})
}

// judgeRemoval judges one delete or eviction. It is allowed to restart an incomplete group, after the duration of a pod,
// and for a group of a higher priority, which judgeEvictions judges.
func (j *judge) judgeRemoval(a auditFact) {
	j.stats.Removals++
	what := a.verb
	if a.subresource != "" {
		what = a.subresource
	}
	if j.judgeDeletion(a) || a.user == controllerUser && (a.subresource == "eviction" || a.verb == "delete") && j.wasOverdue(a.pod, a.received) {
		return
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
	never := may && told && !j.wasMet(p.family, a.received)
	if may && told && !never {
		return
	}
	if j.excuses.deaf(a.received.Add(-judgeAfter), a.received.Add(judgeAfter)) {
		return // Fluence may have seen the changes of the group too late
	}
	if never {
		j.report(RulePodMoved, a.pod, a.received, "%s asked for its %s: group %s has lost nothing that it had, as far as this process can know; what it asks for it never had", a.user, what, p.family.key)
		return
	}
	j.report(RulePodMoved, a.pod, a.received, "%s asked for its %s, which only policy %s of a group with condition %s=True allows: of group %s policy %s was %t and the condition %t",
		a.user, what, policyRestart, conditionIncomplete, p.family.key, policyRestart, may, told)
}

// wasMet reports whether a family that was evicted from at a time may have been
// complete before. The family must have lost a member other than by an eviction. If
// the controller began while the family lacked pods, that process must have continued
// what another had begun, or must have been able to see the family complete.
func (j *judge) wasMet(fam *family, at time.Time) bool {
	if !slices.ContainsFunc(slices.Collect(maps.Keys(fam.losses)), func(uid types.UID) bool { return j.wasLost(fam, uid, at) }) {
		return false
	}
	switch {
	case j.turned.IsZero() || j.turned.After(at) || j.excuses.began(j.turned, at):
		return true
	case fam.incomplete.Before(j.turned.Add(judgeAfter)):
		return true
	default:
		return fam.unmet.IsZero() || fam.unmet.After(j.turned.Add(-judgeAfter))
	}
}

// wasLost reports whether a member was lost before a
// moment, while other members ran, and not by Fluence.
func (j *judge) wasLost(fam *family, uid types.UID, at time.Time) bool {
	ran := fam.started
	if ran.IsZero() || ran.After(at) {
		ran = fam.before
	}
	lost := fam.losses[uid]
	if lost.Before(ran.Add(-judgeAfter)) || lost.After(at.Add(judgeAfter)) {
		return false
	}
	p := j.pods[uid]
	return p == nil || !p.evicted || p.overdue(lost)
}

// wasIncomplete reports whether the condition was True
// at a time, give or take how late deliveries may be.
func (f *partial) wasIncomplete(at time.Time) bool {
	if f.incomplete.IsZero() || f.incomplete.After(at.Add(judgeAfter)) {
		return false
	}
	return f.incomplete.After(f.until) || f.until.After(at.Add(-judgeAfter))
}
