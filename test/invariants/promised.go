package invariants

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// promiseGrace is how much later than promised a group may start. Messages have whole seconds, and a group asks a
	// moment after its time.
	promiseGrace = 2 * time.Second
	// messageWithin is how late a condition may show a change of its message alone.
	messageWithin = 20 * time.Second
)

// promises answers which moves of promises are judged when all that may excuse them has been seen.
type promises struct{ moves []move }

// A promise is the room that a group was last told to have from a time on.
type promise struct {
	at time.Time
	// told is at as it was when the group last learned what had moved it, or when it came earlier.
	told time.Time
	// since is when at was first seen.
	since time.Time
	// shown reports whether the condition shows the promise now, and over whether it says which pod is past its end.
	shown, over bool
	// looks is the group as the promise was made to it, and changed is when it last changed.
	looks   string
	changed time.Time
	// reported reports whether it is reported that the promise is over.
	reported bool
}

// A move is a promise that came later, by a message without a cause.
type move struct {
	fam     *family
	of      *promise
	message string
	// from and to are the promised times. The first was seen at since, and the second at at.
	from, to, since, at time.Time
}

// promisedText matches the beginning of a message that promises room: the time, what moved it, and the overrun.
var promisedText = regexp.MustCompile(`^promised \d+ nodes? from (\S+Z)(?: \(before: from [^;]*; ([^;)]*)\))?(?:, which is over: ([^;]*))?;`)

// promisedIn reads a message that was seen at a time. ok is false if it promises nothing.
func promisedIn(message string, seen time.Time) (at time.Time, why, over string, ok bool) {
	m := promisedText.FindStringSubmatch(message)
	if m == nil {
		return at, "", "", false
	}
	text, today := m[1], !strings.Contains(m[1], "T")
	if today {
		text = seen.UTC().Format(time.DateOnly) + "T" + text
	}
	at, err := time.Parse(time.RFC3339, text)
	if today && at.Sub(seen) > 23*time.Hour {
		at = at.Add(-24 * time.Hour) // of the day that has just ended
	}
	return at, m[2], m[3], err == nil
}

// weighPromise judges what a group that waits is promised.
func (j *judge) weighPromise(fam *family, c count, now time.Time) {
	said := fam.refusal()
	p := fam.promise
	switch at, why, over, ok := promisedIn(said.message, now); {
	case p == nil && (!ok || c.serving > 0 || c.pending == 0):
		return
	case c.serving > 0, said.reason == reasonBinding:
		if j.excuses.elapsed(p.at, now) <= promiseGrace+j.cfg.Slack {
			j.stats.PromisesKept++
		}
		fam.promise = nil
		return
	case c.pending == 0:
		p.changed, fam.promise = now, nil
		return
	case said.reason == reasonNoMatcher:
		p.shown = false // nothing new is known
	case !ok:
		j.stats.PromisesEnded++
		fam.promise = nil
		return
	case p == nil:
		j.stats.Promised++
		p = &promise{at: at, told: at, since: now, shown: true, over: over != "", looks: j.looks(fam)}
		fam.promise = p
	default:
		p.shown, p.over = true, over != ""
		if !at.Equal(p.at) {
			j.seeMove(fam, p, at, why != "" || p.over, said.message, now)
		}
	}
	if looks := j.looks(fam); looks != p.looks {
		p.looks, p.changed = looks, now
	}
	fam.open = true
	limit := promiseGrace + j.cfg.Slack + messageWithin
	if waited := j.excuses.elapsed(later(p.at, later(p.since, p.changed)), now); p.shown && !p.over && !p.reported && waited > limit {
		p.reported = true
		j.report(RulePromiseBroken, fam.about, now, "it was promised room from %s, and %.1fs after that (limit %v) it still waits, and is not told why: %s",
			p.at.UTC().Format(time.TimeOnly), now.Sub(p.at).Seconds(), limit, said.message)
	}
}

// seeMove records that a promise has moved to another time.
func (j *judge) seeMove(fam *family, p *promise, to time.Time, explained bool, message string, now time.Time) {
	if to.Sub(p.told) > promiseGrace {
		j.stats.PromisesMoved++
		if !explained {
			j.moves = append(j.moves, move{fam: fam, of: p, message: message, from: p.told, to: to, since: p.since, at: now})
		}
		p.told = to
	}
	p.told = earlier(p.told, to)
	p.at, p.since, p.reported = to, now, false
}

// judgeMoves judges the moves without a cause. What a new process of Fluence promises is new, and so is the promise to a
// group that asks for something else. Both may be seen after the move.
func (j *judge) judgeMoves(now time.Time) {
	j.moves = slices.DeleteFunc(j.moves, func(m move) bool {
		if now.Sub(m.at) < judgeAfter {
			return false
		}
		if !j.excuses.touches(m.since.Add(-judgeAfter), m.at) && m.of.changed.Before(m.since.Add(-grace)) {
			j.report(RulePromiseBroken, m.fam.about, m.at, "it was promised room from %s, which is %.0fs later now, and it is not told why: %s",
				m.from.UTC().Format(time.TimeOnly), m.to.Sub(m.from).Seconds(), m.message)
		}
		return true
	})
}

// refusal returns the reason why a family waits: in the condition of its PodGroup, or of its only pod.
func (fam *family) refusal() conditionFact {
	if fam.group != nil {
		return fam.group.refusal()
	}
	for _, p := range fam.pods {
		if len(fam.pods) == 1 && p.told {
			return conditionFact{message: p.text}
		}
	}
	return conditionFact{}
}

// looks returns what may change what a group is promised, as a text: what it asks for, and its rank.
func (j *judge) looks(fam *family) string {
	var all []string
	for _, uid := range slices.Sorted(maps.Keys(fam.pods)) {
		p := fam.pods[uid]
		all = append(all, fmt.Sprint(uid, p.priority, p.pending(), p.orphan, p.asks, p.annotations, p.labels, p.tolerations))
	}
	if fam.group != nil {
		need, _ := j.need(fam, fam.count())
		all = append(all, fmt.Sprint(fam.group.uid, need, fam.group.minMember, fam.group.annotations))
	}
	return strings.Join(all, ";")
}

// promised returns how many groups are promised room now.
func (j *judge) promised() (n int) {
	for _, fam := range j.families {
		if fam.promise != nil {
			n++
		}
	}
	return n
}

// Promised returns how many groups that wait are promised room now.
func (c *Checker) Promised() (n int) {
	c.tell(func(j *judge) { n = j.promised() })
	return n
}

// noteDurations records the durations of the pods of a family. An eviction may follow the one that a pod had a moment before. So the
// shortest of all counts.
func (fam *family) noteDurations() {
	for _, p := range fam.pods {
		text := p.annotations[durationAnnotation]
		if fam.group != nil && fam.group.annotations[durationAnnotation] != "" {
			text = fam.group.annotations[durationAnnotation]
		}
		if d, err := time.ParseDuration(text); err == nil && d > 0 && p.serving() && (p.shortest == 0 || d < p.shortest) {
			p.shortest = d
		}
	}
}

// overdue reports whether a pod had held its node for its duration at a time. Then the controller may end it.
func (p *pod) overdue(at time.Time) bool {
	return p.shortest > 0 && !p.boundAt.IsZero() && !at.Before(p.boundAt.Add(p.shortest-grace))
}

// wasOverdue reports whether a pod of a name was overdue at a time.
func (j *judge) wasOverdue(key types.NamespacedName, at time.Time) bool {
	for _, p := range j.pods {
		if p.key == key && p.overdue(at) && (p.gone.IsZero() || p.gone.After(at.Add(-grace))) {
			return true
		}
	}
	return false
}
