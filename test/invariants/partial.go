package invariants

import (
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// lossGrace is how long before the first bind a loss still explains that not all
// members were bound: they were on their way.
const lossGrace = 5 * time.Second

// startGrace is how long after the first bind the others of the same match are on
// their way: a group that is disturbed later than that counts as undisturbed.
const startGrace = 5 * time.Second

// partial is what is remembered of a family that has pods on nodes.
type partial struct {
	// started is when the first member got a node, after none had one; zero while
	// none has. ever are those that have had one since, and size the minMember at
	// that time.
	started time.Time
	ever    map[types.UID]bool
	size    int
	// refused is what the group was told when it started; turned is set when nodes have
	// changed since that the rest of it may have been given.
	refused conditionFact
	turned  bool
	// disturbed: something kept Fluence from hearing or answering when it started.
	disturbed bool
	// whole: it has had all that it needs. met is how many that was, as far as it
	// still needs them: who asks for more of a group that runs takes nothing from it.
	whole bool
	met   int
	// lost is when a member was last lost.
	lost time.Time
	// lacking is since when it has had too few, since when it last gained one in
	// that time, and had the most that it has had.
	lacking, since time.Time
	most           int
	// startTold and lackTold: the violation was reported.
	startTold, lackTold bool

	// incomplete is since when the condition has been true, until when it ended.
	incomplete, until time.Time
	// toEvict are the members that the policy has to evict.
	toEvict map[types.UID]bool
	// there are the members that were to stay, and held those on nodes, for comparison.
	there, held map[types.UID]bool
	// losses are when members that were on nodes ceased to be, since the last but one time
	// that the group started, which was before.
	losses map[types.UID]time.Time
	before time.Time
	// unmet is since when the group has had fewer than it asks for; zero while it has them.
	unmet time.Time
}

// rest begins anew: nothing is on a node.
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

// regrouped takes note that the PodGroup has come, changed or gone.
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

// weighPartial judges a family that should be on nodes as a whole, and returns how
// many of its members have to be there, less what is asked of it since it ran.
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

// compare takes note of members that were lost, and of those that have a node.
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

// weighStart judges a group that starts for the first time: once its binds have begun, the
// rest of them follow.
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

// turnedAway reports whether the nodes changed that the rest of a group was given when it
// started, as far as one can know: something happened to nodes, and the group was told
// since why the rest has none.
func (j *judge) turnedAway(fam *family) bool {
	told := fam.group.refusal()
	switch {
	case told == conditionFact{}, told == fam.refused, told.reason == reasonBinding, told.reason == reasonNoMatcher:
		return false
	default:
		return j.stirred(fam.started.Add(-lossGrace))
	}
}

// refusal is the condition by which a group is told why it is not placed; it is empty if
// there is none.
func (g *groupFact) refusal() conditionFact {
	for _, c := range g.condition(conditionScheduled) {
		if c.status == "False" {
			return c
		}
	}
	return conditionFact{}
}

// weighLack judges a group that lacks members.
func (j *judge) weighLack(fam *family, need, have int, now time.Time) {
	if fam.lackTold || fam.group.incomplete() {
		return
	}
	limit := j.timeout(fam) + j.cfg.Slack
	if lacks := j.excuses.elapsed(later(fam.since, j.turned), now); lacks > limit {
		fam.lackTold = true
		j.report(RulePartialGang, fam.about, now, "%d of %d pods have been on nodes for %.1fs: after %v the condition %s must be True, and it is not",
			have, need, lacks.Seconds(), limit, conditionIncomplete)
	}
}

// weighEviction judges whether the policy restart was carried out: on all that were
// on nodes when the condition became true.
func (j *judge) weighEviction(fam *family, now time.Time) {
	if len(fam.toEvict) == 0 {
		return
	}
	if _, must := fam.restarts(); !must {
		return
	}
	if !fam.unmet.IsZero() && fam.group.unseen() && j.excuses.touches(fam.unmet.Add(-grace), fam.incomplete) {
		// The controller was started since the group was whole last. It evicts for no lack of what
		// it has not seen, and says so.
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
