package invariants

import (
	"fmt"
	"time"
)

// waiting is what is remembered of a family that waits for nodes.
type waiting struct {
	// waits reports whether it lacks pods that could be placed.
	waits bool
	// untold is the time since which it has waited without a true reason.
	untold time.Time
	// reported reports whether the violation was reported.
	reported bool
	// stuck is the condition that should have changed by now.
	stuck conditionFact
	// unchanged is the time since which the condition has been as it is.
	unchanged time.Time
	// podTold reports whether a pod of a family without a PodGroup was given a reason.
	podTold bool
	// refusedAll is the time since which the condition has claimed
	// that the group waits, although all its pods are on nodes.
	refusedAll time.Time
	// refusedTold reports whether that violation was reported.
	refusedTold bool
}

// weighReason judges whether a group that waits is given a reason.
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

// weighRefusal judges whether the condition of a group still
// claims that it waits, although all its pods are on nodes.
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

// untold returns what is wrong with the condition of a group that waits, "" if nothing.
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

// stale returns what in the condition of a group that waits is out of date, "" if nothing.
func (g *groupFact) stale(c count) string {
	for _, s := range g.condition(conditionScheduled) {
		members := c.serving + c.pending
		switch {
		case s.reason == reasonNoMatcher, s.reason == reasonNoPodGroup, s.reason == reasonBinding && c.serving == 0:
			return fmt.Sprintf("it is still %s (%s)", s.reason, s.message)
		case (s.reason == reasonGathering || s.reason == reasonSuspended) && members >= g.minMember:
			return fmt.Sprintf("it is still %s (%s), and %d pods exist, which is enough", s.reason, s.message, members)
		}
	}
	return ""
}

// wrongLevel returns a fault if the condition does not report the annotation
// that keeps all pods of the group from starting. It returns "" otherwise.
func (j *judge) wrongLevel(fam *family) string {
	s := fam.group.condition(conditionScheduled)[0]
	for _, p := range fam.pods {
		if p.pending() && fam.group.said.or(p.said).wrong(j.cfg.Levels) == "" {
			return ""
		}
	}
	if s.reason == reasonTopology || s.reason == reasonAnnotation || s.reason == reasonSize || s.reason == reasonPolicy {
		return ""
	}
	return fmt.Sprintf("it is %s (%s), and an annotation names no level", s.reason, s.message)
}

// stuckReason returns a fault if a group refused with NotReserved was not tried again in time,
// "" otherwise. The same reason with another message counts as another attempt. NodeRefused is
// not judged, because a filter may refuse the same node in the same words at every attempt.
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

// weighUngrouped judges pods without a PodGroup: a condition or
// an event of one of them must give the reason why they wait.
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

// weighTold judges a family that waits. fault is what
// is wrong with the reason it was given, "" if nothing.
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
