package invariants

import (
	"slices"
	"strings"
	"time"
)

// A text is a message of a pod's condition, without digits.
type text struct {
	plain string
	at    time.Time
}

// maxTexts is the number of messages that are remembered of a pod. A pod gets fewer in a minute.
const maxTexts = 64

// plain returns a text without its digits, cut to the length that an event has room for.
func plain(s string) string {
	const enough = 512
	s = strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, s)
	return s[:min(len(s), enough)]
}

// hear records the message of a pod's condition, if it changed.
func (p *pod) hear(now time.Time) {
	t := text{plain(p.text), now}
	if n := len(p.texts); n > 0 && p.texts[n-1].plain == t.plain {
		return
	}
	p.texts = append(p.texts, t)
	if len(p.texts) > maxTexts {
		p.texts = p.texts[1:]
	}
}

// attempts are the failed attempts that one process reported of one pod.
type attempts struct {
	// first is the note of the first event. last is the
	// note of the last event, empty if it is not known.
	first, last string
	// from is the time of the first event. at is the time of the last event.
	from, at time.Time
	// told is the number of events after the first one. repeated is how many
	// of the last events in a row had the note of the event before.
	told, repeated int
}

// maxUnseen is how many messages a pod's condition may have missed: it does not show one that is overtaken
// before it is written. Between two events with the same note there may have been such a message.
const maxUnseen = 1

// attempt records another event, and reports whether its note repeats the last one, digits aside.
func (a *attempts) attempt(e eventFact, p *pod) (again bool) {
	note := plain(e.note)
	switch {
	case a.from.IsZero():
		a.first, a.from = note, e.at
	case note != "":
		if note == a.last && !a.saysOtherwise(p) {
			a.repeated++
		} else {
			a.repeated = 0
		}
		again = a.repeated > maxUnseen
		a.told++
	default:
		a.told += e.more
		again = a.first != "" && p != nil && p.gone.IsZero() && p.node == "" && a.told > a.changes(p)+maxUnseen
	}
	a.last, a.at = note, e.at
	return again
}

// saysOtherwise reports whether the pod's condition had another message since the last event. The event with
// that message may be one of a series, whose count the process writes only minutes later.
func (a *attempts) saysOtherwise(p *pod) bool {
	return p != nil && slices.ContainsFunc(p.texts, func(t text) bool { return t.at.After(a.at.Add(-judgeAfter)) && t.plain != "" && t.plain != a.last })
}

// changes returns how often the message of a pod's condition has changed
// since the first event. The condition may show the first note already before
// that, because the condition and the event come by different watches.
func (a *attempts) changes(p *pod) int {
	since, n, found := a.from.Add(-judgeAfter), 0, false
	for _, t := range p.texts {
		if !t.at.After(since) {
			found = t.plain == a.first
			continue
		}
		n++
		if !found && t.plain == a.first {
			found, n = true, 0
		}
	}
	return n
}
