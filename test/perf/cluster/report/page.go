package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// These are the lines of a page between which the tables are.
const (
	begin = "<!-- Made by make bench-table from test/perf/cluster/results.jsonl. -->"
	end   = "<!-- The end of what make bench-table makes. -->"
)

// Page puts the newest session of each row between the marks of a page, in the order of rows.
// It fails if a mark is missing, or if there are results of a row that is not among rows.
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
	known := map[string]bool{}
	var tables strings.Builder
	for _, r := range rows {
		known[r.Name] = true
		if s := newest[r.Name]; s != nil {
			r.markdown(&tables, s, newest)
		}
	}
	for name := range newest {
		if !known[name] {
			return "", fmt.Errorf("there are results of row %q, which there is not", name)
		}
	}
	if len(newest) == 0 {
		tables.WriteString("\nNo row has been recorded yet.\n")
	}
	return before + begin + "\n" + tables.String() + "\n" + end + "\n" + after, nil
}

// markdown writes the section of a row.
func (r Row) markdown(w io.Writer, s *Session, rows map[string]*Session) {
	fmt.Fprintf(w, "\n### %s\n\n%s.\n", r.Name, s.summary())
	for _, t := range r.tables(s) {
		fmt.Fprintln(w)
		t.markdown(w)
	}
	for i, v := range Judge(r.Goals, s, rows) {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "- %s\n", v)
	}
}

func (t table) markdown(w io.Writer) {
	line := func(cells []string) { fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.headings)
	fmt.Fprintf(w, "|%s\n", strings.Repeat("---|", len(t.headings)))
	for _, cells := range t.rows {
		line(cells)
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
