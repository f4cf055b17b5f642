package invariants

import (
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// lossGrace is how long before the first bind a loss still explains
// why not all members were bound, because binds were on their way.
const lossGrace = 5 * time.Second

// startGrace is how long after the first bind the other binds of the same
// match may be on their way. A disturbance after that does not count.
const startGrace = 5 * time.Second

// partial is what is remembered of a family that has pods on nodes.
type partial struct {
	// started is the time when the first member got a node, zero while no member has one.
	started time.Time
	// ever are the members that have had a node since started.
	ever map[types.UID]bool
	// size is the minMember at the time started.
	size int
	// refused is the refusal in the group's condition when it started.
	refused conditionFact
	// turned reports whether nodes have changed since then
	// that the rest of the group may have been assigned.
	turned bool
	// disturbed reports whether a fault kept Fluence
	// from hearing or answering when the group started.
	disturbed bool
	// whole reports whether the group has had all the pods it needs.
	whole bool
	// met is the number of pods it needed then, lowered when it needs fewer.
	// Raising the minimum of a group that runs makes it lack nothing that it had.
	met int
	// lost is the time when a member was last lost.
	lost time.Time
	// lacking is the time since which it has had too few pods on nodes.
	// since is the time when, since lacking, it first had the most.
	lacking, since time.Time
	// most is the most pods that it has had on nodes since lacking.
	most int
	// startTold and lackTold report whether the violation was reported.
	startTold, lackTold bool

	// incomplete is the time when the condition became True. until is the time when it ended.
	incomplete, until time.Time
	// toEvict are the members that the policy has to evict.
	toEvict map[types.UID]bool
	// there are the members that had not failed and were not being deleted, when the
	// family was last compared. held are the members on nodes or succeeded at that time.
	there, held map[types.UID]bool
	// losses are the times when members stopped being on
	// nodes. They begin with the start before the last one.
	losses map[types.UID]time.Time
	// before is the time of the previous start.
	before time.Time
	// unmet is the time since which the group has had
	// fewer pods than it needs, zero while it has enough.
	unmet time.Time
}

// rest begins anew, because no member is on a node.
func (f *partial) rest() {
	before := f.before
	if !f.started.IsZero() {
		before = f.started
	}
	*f = partial{
		lost: f.lost, incomplete: f.incomplete, until: f.until, there: f.there, held: f.held,
		losses: f.losses, before: before, unmet: f.unmet,
	}
}

// regrouped records that the PodGroup has come, changed or gone.
func (fam *family) regrouped(before *groupFact, now time.Time) {
	is, was := fam.group != nil && fam.group.incomplete(), fam.incomplete.After(fam.until)
	switch {
	case is && !was:
		fam.incomplete = now
		fam.toEvict = map[types.UID]bool{}
		for uid, p := range fam.pods {
			if p.serving() {
				fam.toEvict[uid] = true
			}
		}
	case !is && was:
		fam.turn = now
		fam.until, fam.toEvict = later(now, fam.incomplete.Add(1)), nil
	}
	var said, wasSaid said
	if fam.group != nil {
		said = fam.group.said
	}
	if before != nil {
		wasSaid = before.said
	}
	if said != wasSaid && (before != nil || fam.count().serving > 0) {
		fam.resaid = now
	}
	if before != nil && fam.group != nil && before.minMember != fam.group.minMember {
		fam.turn = now
	}
	if before == nil || fam.group == nil || before.uid != fam.group.uid {
		// Another PodGroup begins to count anew.
		fam.since, fam.untold, fam.unchanged = time.Time{}, time.Time{}, time.Time{}
	}
}

// weighPartial judges a family whose pods should be on nodes together. It returns how many
// of them have to be there. A raise of the minimum while the family runs does not count.
func (j *judge) weighPartial(fam *family, c count, need, have int, now time.Time) int {
	if c.serving > 0 && fam.started.IsZero() {
		fam.started, fam.size, fam.ever = now, fam.group.minMember, map[types.UID]bool{}
		fam.refused = fam.group.refusal()
		maps.DeleteFunc(fam.losses, func(_ types.UID, at time.Time) bool { return at.Before(fam.before) })
	}
	fam.compare(now)
	switch {
	case have >= need:
		fam.unmet = time.Time{}
	case fam.unmet.IsZero():
		fam.unmet = now
	}
	if c.serving == 0 {
		fam.rest()
		return need
	}
	if have >= need {
		fam.met = need
	}
	if end := fam.started.Add(startGrace); j.excuses.touches(fam.started.Add(-lossGrace), earlier(now, end)) {
		fam.disturbed = true
	}
	if !fam.whole && (have >= need || len(fam.ever) >= fam.group.minMember) {
		fam.whole = true
		j.stats.Started++
		j.stats.LongestStart = max(j.stats.LongestStart, j.excuses.elapsed(fam.started, now))
		if !fam.disturbed && need > 1 {
			j.stats.Together++
		}
	}
	if fam.met > 0 {
		fam.met = min(fam.met, need)
		need = fam.met
	}
	if have >= need {
		fam.lacking, fam.since, fam.lackTold = time.Time{}, time.Time{}, false
		j.weighEviction(fam, now)
		return need
	}
	fam.open = true
	if fam.lacking.IsZero() {
		fam.lacking, fam.since, fam.most = now, time.Time{}, 0
		j.stats.Partial++
	}
	if fam.since.IsZero() || have > fam.most {
		fam.since, fam.most = now, have
	}
	j.stats.LongestPartial = max(j.stats.LongestPartial, now.Sub(fam.lacking))
	j.weighStart(fam, need, have, now)
	j.weighLack(fam, need, have, now)
	j.weighEviction(fam, now)
	return need
}

// compare records which members were lost, and which have a node.
func (fam *family) compare(now time.Time) {
	there, held := map[types.UID]bool{}, map[types.UID]bool{}
	for uid, p := range fam.pods {
		if p.serving() || p.phase == corev1.PodSucceeded && !p.deleting {
			held[uid] = p.serving()
		}
		if !p.deleting && p.phase != corev1.PodFailed {
			there[uid] = true
		}
		if fam.ever != nil && (p.serving() || p.phase == corev1.PodSucceeded) {
			fam.ever[uid] = true
		}
	}
	for uid := range fam.there {
		if !there[uid] {
			fam.lost, fam.turn = now, now
		}
	}
	for uid, served := range fam.held {
		if serves, is := held[uid]; !is || served && !serves {
			if fam.losses == nil {
				fam.losses = map[types.UID]time.Time{}
			}
			fam.losses[uid] = now
		}
	}
	fam.there, fam.held = there, held
}

// weighStart judges a group that starts for the first
// time: after its first bind the others must follow.
func (j *judge) weighStart(fam *family, need, have int, now time.Time) {
	fam.turned = fam.turned || j.turnedAway(fam)
	explained := fam.whole || fam.startTold || fam.turned || fam.lost.After(fam.started.Add(-lossGrace)) || fam.group.minMember > fam.size
	took := j.excuses.elapsed(fam.started, now)
	if explained || took <= j.cfg.StartWithin {
		return
	}
	fam.startTold, fam.lackTold = true, true
	j.report(RulePartialGang, fam.about, now, "it must start together or not at all: %.1fs after its first bind, without what was excused, %d of %d pods are on nodes, and nothing explains it",
		took.Seconds(), have, need)
}

// turnedAway reports whether the nodes assigned to the rest of a group
// may have changed after it started: something happened to nodes, and
// since then the group has been given a reason why the rest has none.
func (j *judge) turnedAway(fam *family) bool {
	told := fam.group.refusal()
	switch {
	case told == conditionFact{}, told == fam.refused, told.reason == reasonBinding, told.reason == reasonNoMatcher:
		return false
	default:
		return j.stirred(fam.started.Add(-lossGrace))
	}
}

// refusal returns the condition with the reason why a group
// is not placed. It returns an empty one if there is none.
func (g *groupFact) refusal() conditionFact {
	for _, c := range g.condition(conditionScheduled) {
		if c.status == "False" {
			return c
		}
	}
	return conditionFact{}
}

// weighLack judges a group that lacks members. Nothing reports that on a native PodGroup.
func (j *judge) weighLack(fam *family, need, have int, now time.Time) {
	if fam.lackTold || fam.group.native || fam.group.incomplete() || j.abandoned(fam, now) {
		return
	}
	limit := j.timeout(fam) + j.cfg.Slack
	if lacks := j.excuses.elapsed(later(fam.since, j.turned), now); lacks > limit {
		fam.lackTold = true
		j.report(RulePartialGang, fam.about, now, "%d of %d pods have been on nodes for %.1fs: after %v the condition %s must be True, and it is not; pods: %s",
			have, need, lacks.Seconds(), limit, conditionIncomplete, fam.describePods())
	}
}

// weighEviction judges whether the policy restart was carried out
// on all members that were on nodes when the condition became True.
func (j *judge) weighEviction(fam *family, now time.Time) {
	if len(fam.toEvict) == 0 {
		return
	}
	if _, must := fam.restarts(); !must {
		return
	}
	if !fam.unmet.IsZero() && fam.group.unseen() && j.excuses.touches(fam.unmet.Add(-grace), fam.incomplete) {
		// The controller was started after the group was last complete. It does not
		// evict when it has not seen the group complete, and the condition tells so.
		fam.toEvict = nil
		return
	}
	var left []string
	for uid := range fam.toEvict {
		if p := fam.pods[uid]; p == nil || !p.serving() || p.evicted {
			delete(fam.toEvict, uid)
		} else {
			left = append(left, p.key.Name)
		}
	}
	fam.open = fam.open || len(left) > 0
	if waited := j.excuses.elapsed(later(fam.incomplete, j.turned), now); len(left) > 0 && waited > j.cfg.Slack {
		fam.toEvict = nil
		j.report(RulePartialGang, fam.about, now, "its policy is restart: %.1fs after the condition %s became True nobody has tried to evict %s",
			waited.Seconds(), conditionIncomplete, strings.Join(left, ", "))
	}
}
