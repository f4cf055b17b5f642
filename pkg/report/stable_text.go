package report

import (
	"regexp"
	"strings"

	"github.com/flux-k8s/fluence/pkg/translate"
)

// passing matches clauses that come and go with other groups and with the state of nodes: how many nodes
// cannot be used, which are reserved for another group, and whose room is kept. The group's own reservation is "for it".
var passing = regexp.MustCompile(`; of \d+ nodes?, \d+ (is|are) (not ready( and \d+ (is|are) excluded)?|excluded)` +
	`|; \d+ nodes? (is|are) reserved for [^;]+, which has waited \w+` +
	`|; the room of \d+ pods? that ended is kept until \S+ for [^;]+, which restarts(, and for \d+ other groups?)?` +
	`|; room is kept for [^;]+, which starts? when pods that are ending have gone(, and for \d+ other groups?)?` +
	`|; the room of \d+ pods? that ended is offered first to [^;]+` +
	`|; it fits when pods that are ending have gone, and room is kept for it`)

// shortOn matches the phrases of package translate for a resource that is short.
var shortOn = regexp.MustCompile(` is short on \d+ (of \d+ nodes?|nodes? there)| is not enough for all pods`)

// StableText removes from a message what changes whenever other pods come or
// go: the digits, the clause that names the job whose end would help most, and those about nodes
// that cannot be used or are reserved for other groups.
func StableText(text string) string {
	if before, rest, ok := strings.Cut(text, translate.MoreIfPrefix); ok {
		if _, after, ok := strings.Cut(rest, translate.EndsSuffix); ok {
			text = strings.TrimSuffix(strings.TrimRight(before, "0123456789"), "; room for ") + after
		}
	}
	text = passing.ReplaceAllString(text, "")
	text = shortOn.ReplaceAllString(text, " is short")
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text)
}

// StableTexts remembers results of StableText. Pods that wait share few messages, so it
// need not be bounded while all of them are looked at once.
type StableTexts map[string]string

// equal reports whether two messages have the same stable text.
func (t StableTexts) equal(a, b string) bool { return a == b || t.of(a) == t.of(b) }

func (t StableTexts) of(text string) string {
	stable, known := t[text]
	if !known {
		stable = StableText(text)
		t[text] = stable
	}
	return stable
}
