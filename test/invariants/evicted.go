package invariants

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	// againAfter is how long after an eviction a group must not be evicted again for the same preemptor.
	againAfter = time.Minute
	// helpsWithin is how long after the last evicted pod has gone the preemptor must have started.
	helpsWithin = time.Minute
)

// evictions is what is remembered of groups and pods alone that were evicted for others.
type evictions struct {
	// evicted are in the order in which they began.
	evicted []*evicted
}

// An evicted is a group or a pod alone that is evicted for another.
type evicted struct {
	fam *family
	// of is the UID of the preemptor: of a PodGroup or of a pod.
	of types.UID
	// at is when the first pod was lost by it.
	at time.Time
	// members are the pods that were on nodes then, by UID.
	members map[types.UID]*pod
	// priority is the highest that a pod of the preemptor has had. It is not known if known is false.
	priority int32
	known    bool
	// upwardTold, partTold and helpTold report whether that is judged.
	upwardTold, partTold, helpTold bool
}

// preemptorText is the part of a mark's message that names the preemptor, and the owner that is suspended.
var preemptorText = regexp.MustCompile(`; preemptor ([^\s;]+)(; suspends owner )?`)

// preemptorIn reads the message of a mark. It returns "" if that names no preemptor.
func preemptorIn(message string) (of types.UID, suspends bool) {
	m := preemptorText.FindStringSubmatch(message)
	if m == nil {
		return "", false
	}
	return types.UID(m[1]), m[2] != ""
}

// evictedFor returns the UID of the preemptor for which a group is marked, and whether its owner is suspended for it.
func (g *groupFact) evictedFor() (of types.UID, suspends bool) {
	for _, c := range slices.Concat(g.condition(conditionPreempted), g.condition(conditionDisrupted)) {
		if c.status == "True" {
			return preemptorIn(c.message)
		}
	}
	return "", false
}

// seeLoss records that a pod is on its node no longer, if it is evicted. The pods of an owner that
// is suspended have no marks of their own.
func (j *judge) seeLoss(p *pod, at time.Time) {
	if p.family == nil {
		return
	}
	of := p.evictedFor
	if g := p.family.group; of == "" && g != nil {
		if uid, suspends := g.evictedFor(); suspends {
			of = uid
		}
	}
	if of == "" {
		return
	}
	p.evicted, p.preempted = true, true
	e := &evicted{fam: p.family, of: of, at: at, members: map[types.UID]*pod{p.uid: p}}
	for _, before := range slices.Backward(j.evicted) {
		if before.of != of || before.fam.key != e.fam.key {
			continue
		}
		if before.members[p.uid] != nil {
			return
		}
		since := at.Sub(before.at)
		if since < againAfter && !j.stirred(before.at) && !j.excuses.touches(before.at.Add(-grace), at) {
			j.report(RuleEvictedTwice, e.fam.about, at, "it was evicted %.1fs before for the same preemptor %s, and %s is evicted again", since.Seconds(), of, p.key.Name)
		}
		break
	}
	for uid, other := range e.fam.pods {
		if other.serving() && other.gone.IsZero() {
			e.members[uid] = other
		}
	}
	j.stats.Evicted++
	j.evicted = append(j.evicted, e)
}

// judgeDeletion judges whether a pod was deleted twice. It reports whether the
// pod is evicted for another, so that it may be deleted.
func (j *judge) judgeDeletion(a auditFact) bool {
	if a.user != schedulerAccount || a.verb != "delete" || a.subresource != "" {
		return false
	}
	var of []*pod
	for _, p := range j.pods {
		if p.key == a.pod && !p.created.After(a.received) && (p.gone.IsZero() || p.gone.After(a.received.Add(-grace))) {
			of = append(of, p)
		}
	}
	if len(of) != 1 {
		// It is not known which of two pods of a name it was.
		return slices.ContainsFunc(of, func(p *pod) bool { return p.preempted })
	}
	p := of[0]
	if !p.deleted.IsZero() && !j.excuses.touches(p.deleted.Add(-grace), a.received.Add(grace)) {
		j.report(RuleEvictedTwice, p.key, a.received, "%s deleted it, and again %.1fs later", a.user, a.received.Sub(p.deleted).Seconds())
	}
	p.deleted = a.received
	return p.preempted || p.evictedFor != ""
}

// judgeEvictions judges the evictions of which enough is known by now.
func (j *judge) judgeEvictions(now time.Time) {
	for _, e := range j.evicted {
		j.findPreemptor(e)
		if !e.upwardTold && now.Sub(e.at) >= judgeAfter {
			e.upwardTold = true
			j.judgeUpward(e)
		}
		if !e.partTold && j.excuses.elapsed(e.at, now) > j.cfg.Slack {
			e.partTold = true
			j.judgePart(e, now)
		}
	}
	j.judgeHelp(now)
	j.evicted = slices.DeleteFunc(j.evicted, func(e *evicted) bool {
		return e.upwardTold && e.partTold && (e.helpTold || now.Sub(e.at) > rememberExcuses) && now.Sub(e.at) > againAfter
	})
}

// findPreemptor reads the priority of a preemptor while it is known.
func (j *judge) findPreemptor(e *evicted) {
	see := func(p *pod) {
		if !e.known || p.priority > e.priority {
			e.priority, e.known = p.priority, true
		}
	}
	if p := j.pods[e.of]; p != nil {
		see(p)
	}
	if fam := j.familyOf(e.of); fam != nil && !e.upwardTold {
		for _, p := range fam.pods {
			see(p)
		}
	}
}

// familyOf returns the family of a PodGroup, by its UID. It returns nil if there is none.
func (j *judge) familyOf(group types.UID) *family {
	for _, fam := range j.families {
		if fam.group != nil && fam.group.uid == group {
			return fam
		}
	}
	return nil
}

// judgeUpward judges whom a group was evicted for. Pods of a preemptor may differ in
// priority, and which of them count is not known. So the highest is compared.
func (j *judge) judgeUpward(e *evicted) {
	if !e.known {
		return
	}
	for _, p := range sorted(e.members) {
		if p.priority >= e.priority {
			j.report(RuleEvictedUpward, e.fam.about, e.at, "its pod %s of priority %d was evicted for %s, which has %d", p.key.Name, p.priority, e.of, e.priority)
			return
		}
	}
}

// judgePart judges whether the rest of a group has followed.
func (j *judge) judgePart(e *evicted, now time.Time) {
	var left []string
	for _, p := range sorted(e.members) {
		if p.serving() && p.gone.IsZero() {
			left = append(left, p.key.Name)
		}
	}
	if len(left) == 0 || e.fam.group == nil {
		return
	}
	if need, have := j.need(e.fam, e.fam.count()); have < need {
		j.report(RuleEvictedPart, e.fam.about, now, "of %d pods that ran %.1fs ago, when the first was evicted for %s, %s still run: it needs %d",
			len(e.members), now.Sub(e.at).Seconds(), e.of, strings.Join(left, ", "), need)
	}
}

// judgeHelp judges whether evictions have helped their preemptors, each once for all that was evicted for it.
func (j *judge) judgeHelp(now time.Time) {
	by := map[types.UID][]*evicted{}
	for _, e := range j.evicted {
		if !e.helpTold {
			by[e.of] = append(by[e.of], e)
		}
	}
	for _, of := range slices.Sorted(maps.Keys(by)) {
		all := by[of]
		last, gone := all[0].at, true
		for _, e := range all {
			for _, p := range e.members {
				switch {
				case !p.gone.IsZero():
					last = later(last, p.gone)
				case !p.ended():
					gone = false
				}
			}
		}
		if !gone || j.excuses.elapsed(last, now) <= helpsWithin {
			continue
		}
		j.stats.Helped++
		for _, e := range all {
			e.helpTold = true
		}
		if e := all[0]; e.known && !j.helped(all, now) {
			j.report(RuleEvictedInVain, e.fam.about, now, "it was evicted for %s of priority %d, and since its last pod has gone, %.1fs ago, neither that nor another of this priority has started there",
				of, e.priority, now.Sub(last).Seconds())
		}
	}
}

// helped reports whether the room of all that was evicted for a preemptor was used as it had to be, or something
// explains that it was not.
func (j *judge) helped(all []*evicted, now time.Time) bool {
	first := all[0]
	freed := sets.Set[string]{}
	for _, e := range all {
		for _, p := range e.members {
			freed.Insert(p.node)
		}
	}
	for _, p := range j.pods {
		if freed.Has(p.node) && !p.bound.Before(first.at) && p.priority >= first.priority {
			return true
		}
	}
	return j.stirred(first.at) || j.excuses.deaf(first.at.Add(-grace), now) || !j.stillWaits(first.of, first.at)
}

// stillWaits reports whether a preemptor has waited for nodes, unchanged, since a moment.
func (j *judge) stillWaits(of types.UID, since time.Time) bool {
	if p := j.pods[of]; p != nil {
		return p.gone.IsZero() && p.pending() && !p.orphan
	}
	fam := j.familyOf(of)
	if fam == nil || fam.turn.After(since) || fam.resaid.After(since) {
		return false
	}
	for _, p := range fam.pods {
		if p.node != "" && !p.bound.Before(since) {
			return false
		}
	}
	c := fam.count()
	need, _ := j.need(fam, c)
	return c.serving == 0 && need > 0 && c.pending >= need
}

// sorted returns pods by name.
func sorted(pods map[types.UID]*pod) []*pod {
	return slices.SortedFunc(maps.Values(pods), func(p, q *pod) int { return strings.Compare(p.key.String(), q.key.String()) })
}
