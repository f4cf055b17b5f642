package report

import (
	"regexp"
	"strings"

	"github.com/flux-k8s/fluence/pkg/translate"
)

// unstable are the phrases of messages that change whenever other pods come or go, in the order in which they are replaced. Each
// matches only texts that contain has, which is found much faster.
var unstable = []struct {
	has    string
	phrase *regexp.Regexp
	stable string
}{
	// Clauses that come and go with other groups and with the state of nodes: how many nodes cannot be used, which are
	// reserved for another group, and whose room is kept. The group's own reservation is "for it".
	{"promised ", regexp.MustCompile(`^promised \d+ nodes? from [^;(]+(\(before: from [^;]+; [^)]*\))?(, which is over: [^;]*)?; `), ""},
	{" ended is offered first to ", regexp.MustCompile(`; the room of \d+ pods? that ended is offered first to [^;]+`), ""},
	{"; of ", regexp.MustCompile(`; of \d+ nodes?, \d+ (is|are) (not ready( and \d+ (is|are) excluded)?|excluded)`), ""},
	{" reserved for ", regexp.MustCompile(`; \d+ nodes? (is|are) reserved for [^;]+, which has waited \w+`), ""},
	{" ended is kept until ", regexp.MustCompile(`; the room of \d+ pods? that ended is kept until \S+ for [^;]+, which restarts(, and for \d+ other groups?)?`), ""},
	{"; room is kept for ", regexp.MustCompile(`; room is kept for [^;]+, which starts? when pods that are ending have gone(, and for \d+ other groups?)?`), ""},
	{" more is promised to ", regexp.MustCompile(`; room for \d+ more is promised to [^;]+ from [^;,\s]+`), ""},
	{"; it fits when ", regexp.MustCompile(`; it fits when pods that are ending have gone, and room is kept for it`), ""},
	{", evicted for it ", regexp.MustCompile(`, evicted for it \d+s ago(; \d+ of \d+ pods? (is|are) still ending( \(\d+s at the longest\))?(, but \d+ of these have not been asked to)?)?`), ""},
	{"; evicts nobody before ", regexp.MustCompile(`; evicts nobody before \S+ \((the last eviction (did not help|was refused: [^)]*)|whom it has evicted before is still ending)\)` +
		`|; evicts nobody before it is known whom an earlier scheduler has evicted for it` +
		`|; evicts nobody before \S+: \d+ pods? evicted for it should have gone at [^;,\s]+`), ""},
	{" of lower priority should ", regexp.MustCompile(`; \d+ pods? of lower priority should have gone already`), ""},
	// The victims of a group, of which more are named or counted as plans change, and how many candidates were considered.
	{"waits for ", regexp.MustCompile(`^waits for .* to end$`), "waits for others to end"},
	{"without ", regexp.MustCompile(`without (all|\d+ of \d+) of lower priority`), "without all of lower priority"},
	// The phrases of package interpod for constraints between pods: which domain limits them, and whether they or what others
	// use are the reason. The type of a level may have hyphens and dots, and the value of a label may be empty.
	{" spread over ", regexp.MustCompile(`[:;] spread over [^;]*?: (\S* has (\d+ and )?room for \d+|there are \d+), so at most \d+ in each( of the \d+)?`), ""},
	{" at most one to a ", regexp.MustCompile(`[:;] at most one to a [^;()]* \([^()]*\), (room on \d+ of )?\d+ [\w.-]+`), ""},
	{" all in one ", regexp.MustCompile(`[:;] all in one \S+ \([^()]*\), \S* has room for \d+`), ""},
	// The name of the domain that has room for the most pods.
	{"; ", regexp.MustCompile(`; (room( in [^;:]+| outside of any \S+)? for \d+|[^;:]+ could hold \d+ if (it|they) were empty)`), "; room"},
	// Numbers of pods or nodes, where the singular has other words than the plural or a part that comes and goes.
	{", where its ", regexp.MustCompile(`, where its (other pod runs|\d+ other pods run)`), ", where its other pods run"},
	{" in use, but", regexp.MustCompile(`\d+ nodes? (is|are) in use, but`), "nodes are in use, but"},
	{" used exclusively by ", regexp.MustCompile(`\d+ nodes? (is|are) used exclusively by (another group|other groups)`), "nodes are used exclusively by other groups"},
	{"none of ", regexp.MustCompile(`none of \d+ nodes? may`), "none of the nodes may"},
	{" less", regexp.MustCompile(`, \d+ of \d+ nodes? (has|have) less`), ", nodes have less"},
	{", although the ", regexp.MustCompile(`( for more than \d+)?, although the (free amounts|amounts of the nodes)( in [^;:]+?| outside of any \S+)? would`), ", although the $2 would"},
	// Times have a date if they are not of today.
	{"Z", regexp.MustCompile(`(\d+-\d\d-\d\dT)?\d\d:\d\d:\d\dZ`), ""},
	// A resource of which nodes have nothing left, or none has anything free, is short.
	{" full", regexp.MustCompile(`(the only node|both nodes|all \d+ nodes) with (\S+) (is|are) full`), "$2 is short"},
	{"none of the ", regexp.MustCompile(`none of the \d+ nodes has free ([^\s;,]+)`), "$1 is short"},
	{"none of the ", regexp.MustCompile(`none of the \d+ nodes takes another pod`), "another pod is short"},
	{"another pod is short", regexp.MustCompile(`another pod is short`), "the number of pods is short"},
	// The phrases of package translate for a resource that is short, with their amounts.
	{" is ", regexp.MustCompile(`( is short on \d+ (of \d+ nodes?( that (has|have) it)?|nodes? there)| is not enough for all pods)( \((at most )?[^()]*\))?`), " is short"},
	{"; room; ", regexp.MustCompile(`; room; `), "; room: "},
}

// StableText removes from a message what changes whenever other pods come or
// go: the digits and times, the clause that names the job whose end would help most, the domain with the most room, the
// constraints between pods that leave too little room, and the clauses about nodes
// that cannot be used or are reserved for other groups.
func StableText(text string) string {
	if before, rest, ok := strings.Cut(text, translate.MoreIfPrefix); ok {
		if _, after, ok := strings.Cut(rest, translate.EndsSuffix); ok {
			text = strings.TrimSuffix(strings.TrimRight(before, "0123456789"), "; room for ") + after
		}
	}
	for _, u := range unstable {
		if strings.Contains(text, u.has) {
			text = u.phrase.ReplaceAllString(text, u.stable)
		}
	}
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
