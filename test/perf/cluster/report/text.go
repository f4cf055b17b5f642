package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Print writes a session with verdicts on its goals, for a terminal.
// rows are the newest sessions of other rows, which goals may need.
func (r Row) Print(w io.Writer, s *Session, rows map[string]*Session) error {
	fmt.Fprintf(w, "\n%s: %s\n", r.Name, s.summary())
	tables := append(r.tables(s),
		counted(s, "writes a pod", func(f Figures) map[string]float64 { return f.Writes }, 3),
		counted(s, "requests let through", func(f Figures) map[string]float64 { return f.Dispatched }, 0),
		counted(s, "requests refused", func(f Figures) map[string]float64 { return f.Rejected }, 0))
	for _, t := range tables {
		if len(t.rows) == 0 {
			continue
		}
		fmt.Fprintln(w)
		if err := t.print(w); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	for _, v := range Judge(r.Goals, s, rows) {
		fmt.Fprintln(w, v)
	}
	return nil
}

func (t table) print(w io.Writer) error {
	tabs := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range append([][]string{t.headings}, t.rows...) {
		fmt.Fprintln(tabs, strings.Join(line, "\t"))
	}
	return tabs.Flush()
}

// summary returns the parameters of a session, and remarks on its runs.
func (s *Session) summary() string {
	first := s.Results[0]
	p := first.Parameters
	parts := []string{p.what() + fmt.Sprintf(" on %s nodes", thousands(p.Nodes))}
	if p.Room > 0 {
		parts = append(parts, fmt.Sprintf("they wait, then there is room for %s", thousands(p.Room)))
	}
	if p.Low > 0 {
		parts = append(parts, fmt.Sprintf("they evict %d pods on each node", p.Low))
	}
	if n := s.Repetitions(); n == 1 {
		parts = append(parts, "one repetition")
	} else {
		parts = append(parts, fmt.Sprintf("%d repetitions", n))
	}
	for _, key := range sortedKeys(p.Args) {
		parts = append(parts, fmt.Sprintf("%s: %v", key, p.Args[key]))
	}
	commit := "commit " + first.Commit
	if first.Dirty {
		commit += ", with changes"
	}
	parts = append(parts, commit, first.Session.UTC().Format("2006-01-02"), fmt.Sprintf("%d cores", first.Cores))
	for n := 1; n <= s.Repetitions(); n++ {
		switch again, noisy := len(s.rounds(n)) > 1, s.Noisy(n); {
		case again && noisy:
			parts = append(parts, fmt.Sprintf("repetition %d was noisy twice", n))
		case again:
			parts = append(parts, fmt.Sprintf("repetition %d was made again", n))
		case noisy:
			parts = append(parts, fmt.Sprintf("repetition %d was noisy", n))
		}
	}
	if !s.Complete() {
		parts = append(parts, fmt.Sprintf("only %d of %d runs were made", len(s.Results), s.planned()))
	}
	return strings.Join(parts, "; ")
}

// what returns what is to be bound.
func (p Parameters) what() string {
	if p.Seconds > 0 {
		return fmt.Sprintf("gangs of %s pods of %s CPU that come for %d s", thousands(p.Size), p.CPU, p.Seconds)
	}
	what := fmt.Sprintf("%s pods of %s CPU", thousands(p.Pods), p.CPU)
	if p.Size > 1 {
		what += fmt.Sprintf(" in gangs of %s", thousands(p.Size))
	}
	if p.Rack {
		what += ", each in one rack,"
	}
	return what
}

// String returns the verdict in one line.
func (v Verdict) String() string {
	found, limit := v.Notes, "at least "
	if len(v.Values) > 0 {
		found = slices.Insert(slices.Clone(found), 0, cell(v.Values, 2))
	}
	if v.Goal.AtMost {
		limit = "at most "
	}
	return fmt.Sprintf("%s  %s: %s, want %s%s", v.Word, v.Goal.Text, strings.Join(found, "; "), limit, number(v.Goal.Limit, 2))
}

// cell returns the median of values and, if they differ, the minimum and the maximum.
func cell(values []float64, digits int) string {
	if len(values) == 0 {
		return "-"
	}
	least, most := number(slices.Min(values), digits), number(slices.Max(values), digits)
	if least == most {
		return least
	}
	return fmt.Sprintf("%s (%s-%s)", number(median(values), digits), least, most)
}

// number returns a number with the given digits after the point.
func number(v float64, digits int) string {
	if digits == 0 {
		return thousands(int(v + 0.5))
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// thousands returns a number with commas between groups of three digits.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
