package main

import (
	"regexp"
	"strings"
)

// table returns a table in Markdown. Cells are single lines.
func table(header []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) {
		b.WriteString("|")
		for _, c := range cells {
			c = strings.TrimSpace(strings.ReplaceAll(c, "|", `\|`))
			if c != "" {
				c = " " + c
			}
			b.WriteString(c + " |")
		}
		b.WriteString("\n")
	}
	line(header)
	b.WriteString("|" + strings.Repeat("---|", len(header)) + "\n")
	for _, row := range rows {
		line(row)
	}
	return b.String()
}

var spaces = regexp.MustCompile(`\s+`)

// oneLine joins the lines of a text.
func oneLine(text string) string { return strings.TrimSpace(spaces.ReplaceAllString(text, " ")) }

// code returns a text as code.
func code(text string) string { return "`" + text + "`" }

// sentence returns a text that begins with a capital letter.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
