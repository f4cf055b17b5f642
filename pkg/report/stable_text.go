package report

import (
	"regexp"
	"strings"

	"github.com/flux-k8s/fluence/pkg/translate"
)

// shortOn matches the phrases of package translate for a resource that is short.
var shortOn = regexp.MustCompile(` is short on \d+ (of \d+ nodes?|nodes? there)| is not enough for all pods`)

// StableText removes from a message what changes whenever other pods come or
// go: the digits, and the clause that names the job whose end would help most.
func StableText(text string) string {
	if before, rest, ok := strings.Cut(text, translate.MoreIfPrefix); ok {
		if _, after, ok := strings.Cut(rest, translate.EndsSuffix); ok {
			text = strings.TrimSuffix(strings.TrimRight(before, "0123456789"), "; room for ") + after
		}
	}
	text = shortOn.ReplaceAllString(text, " is short")
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text)
}
