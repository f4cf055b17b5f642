package invariants

import (
	"strings"
	"time"
)

// A text is what a pod was told by its condition, digits left out.
type text struct {
	plain string
	at    time.Time
}

// maxTexts is how many a pod remembers: more than it is told in a minute.
const maxTexts = 64

// plain is a text without its digits, and without the end that an event has no room
// for.
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

// hear takes note of what a pod's condition says now.
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

// attempts are what one process told one pod of attempts that failed.
type attempts struct {
	// first is the first note, at the time from; last the last, empty if it is not
	// known.
	first, last string
	from        time.Time
	// told is how often it was told something after that.
	told int
}

// attempt takes note of another telling, and reports whether it says what the last
// one said, digits aside.
func (a *attempts) attempt(e eventFact, p *pod) (again bool) {
	note := plain(e.note)
	switch {
	case a.from.IsZero():
		a.first, a.from = note, e.at
	case note != "":
		again = note == a.last
		a.told++
	default:
		a.told += e.more
		again = a.first != "" && p != nil && p.gone.IsZero() && p.node == "" && a.told > a.changes(p)
	}
	a.last = note
	return again
}

// changes is how often a pod's condition has said something else since the first
// note. It may have said that one before, and the condition and the event come by
// watches of their own.
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
