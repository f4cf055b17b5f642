package report

import (
	"fmt"
	"slices"
)

// A Goal is a limit that a contender has to reach.
type Goal struct {
	// Text names what is measured, such as "pods/s, to native's".
	Text string
	// Contender is the contender that has to reach it. Against is the contender it is compared
	// with, if any. A repetition in which one of the two does not take part does not count.
	Contender, Against string
	// Row is another row whose newest session is compared
	// with this one. It is empty if there is none.
	Row string
	// Value returns the measured value of one repetition.
	Value func(View) (value float64, ok bool)
	// Limit is the lowest value that reaches the goal. With AtMost it is the highest.
	Limit  float64
	AtMost bool
	// Always requires that every repetition reaches the limit. Without it their median has to.
	Always bool
}

// A View is what a goal measures: one repetition of a
// session, and the session of the goal's other row.
type View struct {
	*Session
	Repetition int
	Other      *Session
}

// A Verdict is the result of a goal.
type Verdict struct {
	Goal Goal
	// Values are the values of the repetitions that have one.
	Values []float64
	// Notes are the reasons why the goal is open, and other remarks.
	Notes []string
	Word  Word
}

// open makes the goal open, for a reason.
func (v *Verdict) open(format string, args ...any) {
	v.Word = Open
	v.note(format, args...)
}

func (v *Verdict) note(format string, args ...any) {
	v.Notes = append(v.Notes, fmt.Sprintf(format, args...))
}

// A Word is a verdict in one word.
type Word string

const (
	// Pass means that the goal was reached.
	Pass Word = "PASS"
	// Fail means that the goal was not reached.
	Fail Word = "FAIL"
	// Open means that a run that the goal needs was not made, or does not count.
	Open Word = "OPEN"
)

// Judge returns the verdicts on the goals of a row.
func Judge(goals []Goal, s *Session, rows map[string]*Session) []Verdict {
	var out []Verdict
	for _, g := range goals {
		out = append(out, g.judge(s, rows))
	}
	return out
}

func (g Goal) judge(s *Session, rows map[string]*Session) Verdict {
	v := Verdict{Goal: g, Word: Pass}
	for _, r := range s.Results {
		if r.Contender == g.Contender && r.Outcome != AllBound {
			v.Word = Fail
			v.note("%s: %s", g.Contender, r.Outcome)
			return v
		}
	}
	other := rows[g.Row]
	if g.Row != "" {
		if other == nil {
			v.open("row %s has not been run", g.Row)
			return v
		}
		v.compare(s.Results[0], other)
	}
	if !s.Complete() {
		v.open("not all runs were made")
	}
	var quiet, noisy []int
	for n := 1; n <= s.Repetitions(); n++ {
		switch {
		case !s.tookPart(g.Contender, n) || g.Against != "" && !s.tookPart(g.Against, n):
		case s.Noisy(n):
			noisy = append(noisy, n)
		default:
			quiet = append(quiet, n)
		}
	}
	switch {
	case len(quiet) == 0 && len(noisy) > 0:
		// Ratios within a repetition, and their median, tell more than nothing.
		v.note("all repetitions were noisy")
		quiet = noisy
	default:
		for _, n := range noisy {
			v.note("without repetition %d, which was noisy", n)
		}
	}
	for _, n := range quiet {
		if value, ok := g.Value(View{Session: s, Repetition: n, Other: other}); ok {
			v.Values = append(v.Values, value)
		} else {
			v.open("no figure in repetition %d", n)
		}
	}
	if v.Word == Pass && len(v.Values) == 0 {
		v.open("no figure")
	}
	if v.Word == Open {
		return v
	}
	for _, value := range g.counted(v.Values) {
		if g.AtMost && value > g.Limit || !g.AtMost && value < g.Limit {
			v.Word = Fail
		}
	}
	return v
}

// compare notes how the session of another row differs in commit and cores. It makes the
// goal open if the two cannot be compared. Goals use the other row's first repetition.
func (v *Verdict) compare(is Result, other *Session) {
	was := other.Results[0]
	if was.Commit != is.Commit {
		v.note("commit %s, row %s of %s", is.Commit, other.Row, was.Commit)
	}
	if was.Dirty {
		v.open("row %s was run with changes beside its commit", other.Row)
	}
	if was.Cores != is.Cores {
		v.open("row %s was run on %d cores", other.Row, was.Cores)
	}
	if other.Noisy(1) {
		v.note("row %s was noisy", other.Row)
	}
}

// counted returns the values that have to reach the limit.
func (g Goal) counted(values []float64) []float64 {
	if g.Always {
		return values
	}
	return []float64{median(values)}
}

// median returns the middle value, or the mean of the two middle values.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}
