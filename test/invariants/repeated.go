package invariants

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// tellings are the events that were told, by subject and teller.
type tellings struct {
	told     []eventFact
	subjects map[subject]*telling
	// counts is how often each event was told, as far as was seen.
	counts map[types.UID]counted
}

// A subject is what one teller tells of one object.
type subject struct {
	controller, instance string
	uid                  types.UID
}

// A telling is the last reason that was told, and all that was told under it.
type telling struct {
	reason string
	notes  map[string]bool
	at     time.Time
	attempts
	// reported: that something of it was told again.
	reported bool
}

type counted struct {
	n  int
	at time.Time
}

func newTellings() tellings {
	return tellings{subjects: map[subject]*telling{}, counts: map[types.UID]counted{}}
}

// seeEvent takes note of an event. Those of others are none of our business.
func (j *judge) seeEvent(e eventFact, s seen) {
	j.stats.Facts++
	if s.gone || e.controller != j.cfg.Scheduler && e.controller != controllerName {
		return
	}
	before := j.counts[e.uid].n
	j.counts[e.uid] = counted{e.count, s.at}
	if !j.begun || e.count <= before {
		return
	}
	if e.kind == "Pod" {
		if p := j.pods[e.aboutUID]; p != nil && p.family != nil && p.family.group == nil {
			p.family.podTold = true
			j.weigh(p.family, s.at)
		}
	}
	if s.listed && before > 0 {
		return // in which order it was told is not known
	}
	if before > 0 {
		// Told again: the API keeps the first note only.
		e.note = ""
	}
	e.at = s.at
	e.more = e.count - before
	j.told = append(j.told, e)
}

// judgeTellings compares the events that have come by now.
func (j *judge) judgeTellings(now time.Time) {
	due := 0
	for due < len(j.told) && now.Sub(j.told[due].at) >= judgeAfter {
		due++
	}
	// A process writes each event in a goroutine of its own.
	slices.SortStableFunc(j.told[:due], func(a, b eventFact) int { return a.told.Compare(b.told) })
	for _, e := range j.told[:due] {
		j.judgeTelling(e)
	}
	j.told = slices.Delete(j.told, 0, due)
}

// judgeTelling judges one: a process that was interrupted may tell it again, since
// it remembers nothing; but a PodGroup's condition it can read, unless it does not
// hear of it.
func (j *judge) judgeTelling(e eventFact) {
	j.stats.Events++
	k := subject{e.controller, e.instance, e.aboutUID}
	t := j.subjects[k]
	reads := e.kind == "PodGroup" && e.controller == j.cfg.Scheduler
	if t == nil || t.reason != e.reason || j.isNews(e, t.at) ||
		!reads && j.excuses.touches(t.at.Add(-grace), e.at) || j.excuses.deaf(t.at.Add(-grace), e.at) {
		t = &telling{reason: e.reason, notes: map[string]bool{}}
		j.subjects[k] = t
	}
	rule, again := RuleRepeated, t.notes[e.note] || e.note == "" && len(t.notes) > 0
	if e.kind == "Pod" && e.reason == attemptFailed {
		rule, again = RuleRepeatedAttempt, t.attempt(e, j.pods[e.aboutUID])
	}
	t.notes[e.note], t.at = true, e.at
	if again && !t.reported {
		t.reported = true
		j.report(rule, e.about, e.at, "%s told the event %s of this %s again, with no other reason between: %q (told %d times)",
			e.controller, e.reason, strings.ToLower(e.kind), cmp.Or(e.note, "the note may differ"), e.count)
	}
}

// isNews reports whether what an event of the controller tells of a group became news
// again since it was told before. Events and pods come by watches of their own, of
// which either may be late.
func (j *judge) isNews(e eventFact, before time.Time) bool {
	fam := j.families[e.about]
	return fam != nil && e.kind == "PodGroup" && e.controller == controllerName && fam.turn.After(before.Add(-judgeAfter))
}

// clean forgets what was told long ago: events live for an hour, and what is told
// again after that is news.
func (t *tellings) clean(old time.Time) {
	const memory = 20 * time.Minute
	for k, s := range t.subjects {
		if s.at.Before(old.Add(-memory)) {
			delete(t.subjects, k)
		}
	}
	for uid, c := range t.counts {
		if c.at.Before(old.Add(-memory)) {
			delete(t.counts, uid)
		}
	}
}
