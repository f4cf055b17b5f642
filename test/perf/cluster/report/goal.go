package report

import (
	"fmt"
	"slices"
)

// A Goal is what a contender has to reach.
type Goal struct {
	// Text says what is measured, such as "pods/s, as often as native's".
	Text string
	// Contender is who has to reach it.
	Contender string
	// Value is what is measured in one repetition.
	Value func(View) (value float64, ok bool)
	// Limit is what Value has to be at the least, or, with AtMost, at the most.
	Limit  float64
	AtMost bool
	// Always has every repetition reach it; otherwise their median has to.
	Always bool
}

// A View is what a goal looks at: one repetition of a session, and the newest sessions of
// other rows.
type View struct {
	*Session
	Repetition int
	Rows       map[string]*Session
}

// A Verdict is whether a goal was reached.
type Verdict struct {
	Goal Goal
	// Values are by repetition, where there are any.
	Values []float64
	// Why says what kept it from being measured; empty if nothing did.
	Why  string
	Word Word
}

// A Word is a verdict in short.
type Word string

const (
	// Pass says that the goal was reached.
	Pass Word = "PASS"
	// Fail says that it was not.
	Fail Word = "FAIL"
	// Open says that not all was run that it needs.
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
	for _, f := range s.all(g.Contender) {
		if f.Outcome != AllBound {
			v.Word, v.Why = Fail, fmt.Sprintf("%s: %s", g.Contender, f.Outcome)
			return v
		}
	}
	for r := 1; r <= s.Repetitions(); r++ {
		if value, ok := g.Value(View{Session: s, Repetition: r, Rows: rows}); ok {
			v.Values = append(v.Values, value)
		}
	}
	if len(v.Values) == 0 {
		v.Word, v.Why = Open, "no figure"
		return v
	}
	for _, value := range g.counted(v.Values) {
		if g.AtMost && value > g.Limit || !g.AtMost && value < g.Limit {
			v.Word = Fail
		}
	}
	return v
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
