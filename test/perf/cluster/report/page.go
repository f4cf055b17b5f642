package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The lines of a page between which the tables stand.
const (
	begin = "<!-- Made by make bench-table from test/perf/cluster/results.jsonl. -->"
	end   = "<!-- The end of what make bench-table makes. -->"
)

// Page puts the newest session of each row, in the order of rows, between the marks of a
// page. It fails where the page has not both marks, and where there are results of a row
// that is not among rows.
func Page(page string, rows []Row, results []Result) (string, error) {
	before, rest, ok := strings.Cut(page, begin+"\n")
	if !ok {
		return "", fmt.Errorf("the page has no line %q", begin)
	}
	_, after, ok := strings.Cut(rest, end+"\n")
	if !ok {
		return "", fmt.Errorf("the page has no line %q behind %q", end, begin)
	}
	newest := Newest(results)
	text := before + begin + "\n"
	if len(newest) == 0 {
		text += "\nNo row has been recorded yet.\n"
	}
	known := map[string]bool{}
	for _, r := range rows {
		known[r.Name] = true
		if s := newest[r.Name]; s != nil {
			text += r.markdown(s, newest)
		}
	}
	for name := range newest {
		if !known[name] {
			return "", fmt.Errorf("there are results of row %q, which there is not", name)
		}
	}
	return text + "\n" + end + "\n" + after, nil
}

// markdown is a section of the page.
func (r Row) markdown(s *Session, rows map[string]*Session) string {
	text := fmt.Sprintf("\n### %s\n\n%s.\n", r.Name, s.summary())
	for _, t := range r.tables(s) {
		text += "\n" + t.markdown()
	}
	verdicts := Judge(r.Goals, s, rows)
	if len(verdicts) > 0 {
		text += "\n"
	}
	for _, v := range verdicts {
		text += "- " + v.String() + "\n"
	}
	return text
}

func (t table) markdown() string {
	text := "| " + strings.Join(t.headings, " | ") + " |\n|" + strings.Repeat("---|", len(t.headings)) + "\n"
	for _, line := range t.rows {
		text += "| " + strings.Join(line, " | ") + " |\n"
	}
	return text
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
