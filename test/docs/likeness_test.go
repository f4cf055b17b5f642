package docs

import (
	"regexp"
	"strings"
	"testing"
)

// varying is what differs from run to run, and its replacement.
var varying = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.\d]*( ?Z| [+-]\d{4} \w+)?`), "TIME"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\dZ`), "TIME"}, // of today
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "UID"},
	// kubectl fluence why has it only if the message is some seconds old.
	{regexp.MustCompile(` \(as of \w+ ago(; --now decides anew)?\)$`), ""},
	// Before ages: a hash may begin as one does.
	{regexp.MustCompile(`-[0-9a-f]{10}\b`), "-HASH"},
	{regexp.MustCompile(`\b(\d+(\.\d+)?(ms|[dhms]))+\b`), "AGE"},
	// Of two jobs whose ends would help as much, the one with the lower UID is named.
	{regexp.MustCompile(`( more if \w+) \S+ ends`), "$1 NAME ends"},
	{regexp.MustCompile(`epoch [0-9a-f]+`), "epoch HASH"},
	{regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5}\b`), "-RANDOM"},
	{regexp.MustCompile(`[\w./-]*/\.?run/(kubeconfig|bin)\b`), "RUN/$1"},
	{regexp.MustCompile(`[ \t]+`), " "},
}

// plain returns a line without what varies.
func plain(line string) string {
	for _, v := range varying {
		line = v.what.ReplaceAllString(line, v.as)
	}
	return strings.TrimSpace(line)
}

// like reports whether lines are the lines of a page.
// A line "..." on the page stands for any lines.
func like(got, page []string) bool {
	if len(page) == 0 {
		return len(got) == 0
	}
	if strings.TrimSpace(page[0]) == "..." {
		for from := range len(got) + 1 {
			if like(got[from:], page[1:]) {
				return true
			}
		}
		return false
	}
	return len(got) > 0 && plain(got[0]) == plain(page[0]) && like(got[1:], page[1:])
}

// logged matches what kubectl's own libraries log beside its output, such as a
// watch that ended while an event came. Whether they do is a matter of chance.
var logged = regexp.MustCompile(`(?m)^[IW]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ reflector\.go:\d+\] .*\n?`)

// lines returns the lines of a text, without what is logged and without empty ones at its end.
func lines(text string) []string {
	text = strings.TrimRight(logged.ReplaceAllString(text, ""), "\n")
	if text == "" {
		return []string{}
	}
	return strings.Split(text, "\n")
}

func TestLike(t *testing.T) {
	cases := map[string]struct {
		got, page string
		want      bool
	}{
		"the same":                     {"a\nb", "a\nb", true},
		"nothing":                      {"", "", true},
		"something for nothing":        {"a", "", false},
		"nothing for something":        {"", "a", false},
		"another word":                 {"8 pods", "9 pods", false},
		"one line more":                {"a\nb", "a", false},
		"lines that are left out":      {"a\nb\nc", "a\n...\nc", true},
		"none that is left out":        {"a\nc", "a\n...\nc", true},
		"lines left out at the end":    {"a\nb\nc", "a\n...", true},
		"what follows is not there":    {"a\nb", "a\n...\nc", false},
		"ages and widths of columns":   {"job-x-0123456789  8   12s", "job-x-fedcba9876 8 1m5s", true},
		"the names of pods":            {"eight-dtbmm Running", "eight-zvp98 Running", true},
		"another node":                 {"x-dtbmm node-0001", "x-zvp98 node-0002", false},
		"the age of a message":         {"room for 1 (as of 4s ago; --now decides anew)", "room for 1", true},
		"another message of an age":    {"room for 2 (as of 4s ago)", "room for 1", false},
		"an age where there is a word": {"x never", "x 5s", false},
		"a watch that ended":           {"I1129 02:45:45.823994   27228 reflector.go:664] \"Warning: watch ended\" err=\"x\"\na", "a", true},
		"another line of a log":        {"E1129 02:45:45.823994   27228 main.go:664] \"It failed\"\na", "a", false},
	}
	for name, tc := range cases {
		if got := like(lines(tc.got), lines(tc.page)); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
