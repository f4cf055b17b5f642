package invariants

import (
	"fmt"
	"time"
)

// waiting is what is remembered of a family that waits for nodes.
type waiting struct {
	// waits: it lacks pods that could be placed.
	waits bool
	// untold is since when it has waited without being told why.
	untold time.Time
	// reported: the violation was.
	reported bool
	// stuck is the condition that should have changed by now, and unchanged since when
	// it has been as it is.
	stuck     conditionFact
	unchanged time.Time
	// podTold: a pod of it was told why, where there is no PodGroup.
	podTold bool
	// refusedAll is since when it has said that it waits though all of its pods are on
	// nodes; refusedTold: the violation was reported.
	refusedAll  time.Time
	refusedTold bool
}

// weighReason judges whether a group that waits is told why.
func (j *judge) weighReason(fam *family, c count, need, have int, now time.Time) {
	j.weighRefusal(fam, c, need, have, now)
	if c.pending == 0 || have >= need {
		fam.content()
		return
	}
	fault := fam.group.untold(c.serving)
	if fault == "" {
		fault = fam.group.stale(c)
	}
	if fault == "" {
		fault = j.wrongLevel(fam)
	}
	if fault == "" {
		fault = j.stuckReason(fam, now)
	} else {
		fam.unchanged = time.Time{}
	}
	j.weighTold(fam, fault, now, fmt.Sprintf("%d pods wait and %d of %d are on nodes", c.pending, have, need))
}

// weighRefusal judges whether a group all of whose pods are on nodes still says that it
// waits for them.
func (j *judge) weighRefusal(fam *family, c count, need, have int, now time.Time) {
	said := fam.group.refusal()
	if said == (conditionFact{}) || need == 0 || have < need || c.serving == 0 || c.pending > 0 {
		fam.refusedAll, fam.refusedTold = time.Time{}, false
		return
	}
	fam.open = true
	if fam.refusedAll.IsZero() {
		fam.refusedAll = now
	}
	if !fam.refusedTold && j.excuses.elapsed(fam.refusedAll, now) > j.cfg.Slack {
		fam.refusedTold = true
		j.report(RuleNoReason, fam.about, now, "all of its %d pods are on nodes, and for more than %v the condition %s has said that they are not: it is False (%s: %s)",
			have, j.cfg.Slack, conditionScheduled, said.reason, said.message)
	}
}

// untold says what is wrong with the condition of a group that waits; empty is
// nothing.
func (g *groupFact) untold(serving int) string {
	found := g.condition(conditionScheduled)
	switch {
	case len(found) == 0:
		return "there is none"
	case len(found) > 1:
		return fmt.Sprintf("there are %d", len(found))
	case found[0].status == "True" && serving == 0:
		return fmt.Sprintf("it is True (%s: %s) and nothing is on a node", found[0].reason, found[0].message)
	case found[0].status != "False":
		return fmt.Sprintf("it is %s (%s: %s)", found[0].status, found[0].reason, found[0].message)
	case found[0].reason == "" || found[0].message == "":
		return fmt.Sprintf("its reason is %q and its message %q", found[0].reason, found[0].message)
	}
	return ""
}

// stale says what of the condition of a group that waits is not so, or must not stay
// so; empty is nothing.
func (g *groupFact) stale(c count) string {
	for _, s := range g.condition(conditionScheduled) {
		members := c.serving + c.pending
		switch {
		case s.reason == reasonNoMatcher, s.reason == reasonNoPodGroup, s.reason == reasonBinding && c.serving == 0:
			return fmt.Sprintf("it is still %s (%s)", s.reason, s.message)
		case s.reason == reasonGathering && members >= g.minMember:
			return fmt.Sprintf("it is still %s (%s), and %d pods exist, which is enough", s.reason, s.message, members)
		}
	}
	return ""
}

// wrongLevel says that a group was not told of the annotation that keeps all of it
// from starting; empty is nothing.
func (j *judge) wrongLevel(fam *family) string {
	s := fam.group.condition(conditionScheduled)[0]
	for _, p := range fam.pods {
		if p.pending() && fam.group.said.or(p.said).wrong(j.cfg.Levels) == "" {
			return ""
		}
	}
	if s.reason == reasonTopology || s.reason == reasonSize || s.reason == reasonPolicy {
		return ""
	}
	return fmt.Sprintf("it is %s (%s), and an annotation names no level", s.reason, s.message)
}

// stuckReason says that a group was not tried again that must be; empty is nothing. A
// reason that comes again with another message is none. NodeRefused is not judged: a
// filter may refuse the same node in the same words at every attempt.
func (j *judge) stuckReason(fam *family, now time.Time) string {
	s := fam.group.condition(conditionScheduled)[0]
	if s.reason != reasonNotReserved {
		fam.unchanged = time.Time{}
		return ""
	}
	fam.open = true
	if fam.unchanged.IsZero() || fam.stuck != s {
		fam.stuck, fam.unchanged = s, now
	}
	// Slack passes once more until the fault is reported.
	limit := longestPause + 2*j.cfg.Slack
	if j.excuses.elapsed(fam.unchanged, now) <= limit {
		return ""
	}
	return fmt.Sprintf("it is still %s (%s), longer than %v", s.reason, s.message, limit)
}

// weighUngrouped judges pods that have no PodGroup: a condition or an event of one
// of them must tell why they wait.
func (j *judge) weighUngrouped(fam *family, c count, now time.Time) {
	if c.pending == 0 {
		fam.podTold = false
		fam.content()
		return
	}
	for _, p := range fam.pods {
		fam.podTold = fam.podTold || p.told
	}
	fault := ""
	if !fam.podTold {
		fault = "they have no PodGroup, and no pod has the condition PodScheduled=False or an event"
	}
	j.weighTold(fam, fault, now, fmt.Sprintf("%d pods wait", c.pending))
}

func (f *waiting) content() {
	f.waits, f.untold, f.reported, f.unchanged = false, time.Time{}, false, time.Time{}
}

// weighTold judges a family that waits. The fault is what is wrong with what it was
// told, empty if nothing is.
func (j *judge) weighTold(fam *family, fault string, now time.Time, what string) {
	if !fam.waits {
		fam.waits = true
		j.stats.Waited++
	}
	if fault == "" {
		if !fam.untold.IsZero() {
			j.stats.Told++
		}
		fam.untold, fam.reported = time.Time{}, false
		return
	}
	fam.open = true
	if fam.untold.IsZero() {
		fam.untold = now
	}
	if waited := j.excuses.elapsed(fam.untold, now); waited > j.cfg.Slack && !fam.reported {
		fam.reported = true
		j.report(RuleNoReason, fam.about, now, "%s: for %.1fs (limit %v) the condition %s has not been False with one reason that is so: %s",
			what, waited.Seconds(), j.cfg.Slack, conditionScheduled, fault)
	}
}
