package report

import (
	"fmt"
	"slices"
)

// A Goal is what a contender has to reach.
type Goal struct {
	// Text says what is measured, such as "pods/s, as often as native's".
	Text string
	// Contender is who has to reach it. Against is with whom it is compared, if with
	// anybody: repetitions in which one of the two does not take part are left out.
	Contender, Against string
	// Row names another row whose newest session it is compared with; empty for none.
	Row string
	// Value is what is measured in one repetition.
	Value func(View) (value float64, ok bool)
	// Limit is what Value has to be at the least, or, with AtMost, at the most.
	Limit  float64
	AtMost bool
	// Always has every repetition reach it; otherwise their median has to.
	Always bool
}

// A View is what a goal looks at: one repetition of a session, and the session of the
// goal's other row.
type View struct {
	*Session
	Repetition int
	Other      *Session
}

// A Verdict is whether a goal was reached.
type Verdict struct {
	Goal Goal
	// Values are by repetition, where there are any.
	Values []float64
	// Notes say what keeps the goal open, and what else has to be known.
	Notes []string
	Word  Word
}

// open says why there is no verdict.
func (v *Verdict) open(format string, args ...any) {
	v.Word = Open
	v.note(format, args...)
}

func (v *Verdict) note(format string, args ...any) {
	v.Notes = append(v.Notes, fmt.Sprintf(format, args...))
}

// A Word is a verdict in short.
type Word string

const (
	// Pass says that the goal was reached.
	Pass Word = "PASS"
	// Fail says that it was not.
	Fail Word = "FAIL"
	// Open says that not all was run that it needs, or not in such a way that it counts.
	Open Word = "OPEN"
)

// Judge says whether the goals of a row were reached.
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
	for n := 1; n <= s.Repetitions(); n++ {
		if !s.tookPart(g.Contender, n) || g.Against != "" && !s.tookPart(g.Against, n) {
			continue
		}
		if s.Noisy(n) {
			v.note("without repetition %d, which was noisy", n)
			continue
		}
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

// compare says what another row, which goals take the first repetition of, was made with
// if that was something else.
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
		v.open("row %s was noisy", other.Row)
	}
}

// counted are the values that have to reach the limit.
func (g Goal) counted(values []float64) []float64 {
	if g.Always {
		return values
	}
	return []float64{median(values)}
}

// median is the middle value, or the mean of both.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}
