package invariants

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// tellings are the events that were seen, by subject.
type tellings struct {
	told     []eventFact
	subjects map[subject]*telling
	// counts is how often each event has occurred, by what was seen of it.
	counts map[types.UID]counted
}

// A subject is one object and one process that writes events about it.
type subject struct {
	controller, instance string
	uid                  types.UID
}

// A telling is the last reason of a subject's events, and all notes with this reason.
type telling struct {
	reason string
	notes  map[string]bool
	at     time.Time
	attempts
	// reported reports whether the violation was reported.
	reported bool
}

type counted struct {
	n  int
	at time.Time
}

func newTellings() tellings {
	return tellings{subjects: map[subject]*telling{}, counts: map[types.UID]counted{}}
}

// seeEvent records an event. It ignores events of other programs.
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
		return // the order of the events is not known
	}
	if before > 0 {
		// The event occurred again. The API keeps only the first note.
		e.note = ""
	}
	e.at = s.at
	e.more = e.count - before
	j.told = append(j.told, e)
}

// judgeTellings compares the events that have been delivered by now.
func (j *judge) judgeTellings(now time.Time) {
	due := 0
	for due < len(j.told) && now.Sub(j.told[due].at) >= judgeAfter {
		due++
	}
	// A process writes each event in a separate goroutine.
	slices.SortStableFunc(j.told[:due], func(a, b eventFact) int { return a.told.Compare(b.told) })
	for _, e := range j.told[:due] {
		j.judgeTelling(e)
	}
	j.told = slices.Delete(j.told, 0, due)
}

// judgeTelling judges one event. A process that was interrupted may repeat an
// event, because it remembers nothing. An event about a PodGroup it must not
// repeat, because it can read the condition, unless it is cut off from the cluster.
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

// isNews reports whether the controller's report about a group became news again after
// an earlier event. Events and pods come by different watches, and either may be late.
// What the controller reports of a job in a queue is news once its Job was suspended again: another process may have told why. What the
// scheduler reports is news once the job has waited for another reason, of which there may be no event. All is news of another FluxJob.
func (j *judge) isNews(e eventFact, before time.Time) bool {
	uid := e.aboutUID
	switch q := j.jobs[uid]; {
	case q != nil:
		uid = q.workload
	case e.kind == "FluxJob":
		return true
	}
	for _, s := range j.ways[uid] {
		if s.at.After(before.Add(-judgeAfter)) && (s.gone || e.controller == j.cfg.Scheduler && s.waits != e.reason) {
			return true
		}
	}
	if o := j.owners[uid]; o != nil && o.job != nil && o.job.queue != "" && o.job.stopped.After(before.Add(-judgeAfter)) {
		return true
	}
	fam := j.families[e.about]
	return fam != nil && e.kind == "PodGroup" && e.controller == controllerName && fam.turn.After(before.Add(-judgeAfter))
}

// clean forgets old events. Events live for an hour, and a repetition after that is news.
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
