package main

import (
	"fmt"
	"regexp"
	"strings"
)

// A vocabulary is the words and phrases that must not be used.
type vocabulary struct {
	names, files []word
	phrases      []phrase
}

// A word must not be in a name or be the name of a file,
// below a folder. An empty folder means everywhere.
type word struct{ word, better, folder string }

// A phrase must not be in a text.
type phrase struct {
	pattern *regexp.Regexp
	better  string
}

// parse reads a list. Its errors have the line's number.
func parse(text string) (vocabulary, error) {
	var v vocabulary
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		kind, rest, _ := strings.Cut(line, " ")
		switch kind {
		case "name", "file":
			f := strings.Fields(rest)
			if len(f) != 2 && len(f) != 3 {
				return v, fmt.Errorf("line %d: %q: want %s WORD BETTER [FOLDER]", i+1, line, kind)
			}
			w := word{word: f[0], better: f[1]}
			if len(f) == 3 {
				w.folder = f[2]
			}
			if kind == "name" {
				v.names = append(v.names, w)
			} else {
				v.files = append(v.files, w)
			}
		case "text":
			what, better, ok := strings.Cut(rest, "|")
			if what, better = strings.TrimSpace(what), strings.TrimSpace(better); !ok || what == "" || better == "" {
				return v, fmt.Errorf("line %d: %q: want text PHRASE | BETTER", i+1, line)
			}
			// A phrase may continue on the next line.
			words := strings.Fields(what)
			for i, w := range words {
				words[i] = regexp.QuoteMeta(w)
			}
			v.phrases = append(v.phrases, phrase{regexp.MustCompile(`(?i)\b` + strings.Join(words, `[\s/#>*]+`) + `\b`), better})
		default:
			return v, fmt.Errorf("line %d: %q is no kind of line, want name, file or text", i+1, kind)
		}
	}
	return v, nil
}
