package report

import (
	"math"
	"slices"
)

// A Session is the runs of one row that were made together.
type Session struct {
	Row     string
	Results []Result // in the order of the runs; never empty
}

// Complete reports whether the session has all its runs.
func (s *Session) Complete() bool { return len(s.Results) == s.planned() }

// planned returns the number of runs that the session is to have.
func (s *Session) planned() int { return s.Results[len(s.Results)-1].Runs }

// Newest returns for each row the complete session that was begun last, by row.
func Newest(results []Result) map[string]*Session {
	newest := map[string]*Session{}
	for _, s := range sessions(results) {
		if was := newest[s.Row]; s.Complete() && (was == nil || s.Results[0].Session.After(was.Results[0].Session)) {
			newest[s.Row] = s
		}
	}
	return newest
}

// sessions groups results by session.
func sessions(results []Result) []*Session {
	var all []*Session
	for _, r := range results {
		i := slices.IndexFunc(all, func(s *Session) bool {
			return s.Row == r.Row && s.Results[0].Session.Equal(r.Session)
		})
		if i < 0 {
			all = append(all, &Session{Row: r.Row})
			i = len(all) - 1
		}
		all[i].Results = append(all[i].Results, r)
	}
	return all
}

// Contenders returns the names of the session's contenders, in the order of their first runs.
func (s *Session) Contenders() []string {
	var names []string
	for _, r := range s.Results {
		if !slices.Contains(names, r.Contender) {
			names = append(names, r.Contender)
		}
	}
	return names
}

// Repetitions returns the number of repetitions.
func (s *Session) Repetitions() int {
	n := 0
	for _, r := range s.Results {
		n = max(n, r.Repetition)
	}
	return n
}

// rounds returns the runs of each time that a repetition was made, in their order. Each
// has the bracket before it and, unless the session was interrupted, the bracket after it.
func (s *Session) rounds(repetition int) [][]Result {
	var out [][]Result
	var round []Result
	for i, r := range s.Results {
		round = append(round, r)
		if !r.Bracket && i < len(s.Results)-1 {
			continue
		}
		if slices.ContainsFunc(round, func(r Result) bool { return !r.Bracket && r.Repetition == repetition }) {
			out = append(out, round)
		}
		round = []Result{r}
	}
	return out
}

// round returns the runs of a repetition that count, which are the last ones.
func (s *Session) round(repetition int) []Result {
	rounds := s.rounds(repetition)
	if len(rounds) == 0 {
		return nil
	}
	return rounds[len(rounds)-1]
}

// tookPart reports whether a contender took part in a repetition.
func (s *Session) tookPart(contender string, repetition int) bool {
	return len(s.runs(contender, repetition)) > 0
}

// runs returns the runs of a contender in a repetition.
// For a bracket these are the runs before and after it.
func (s *Session) runs(contender string, repetition int) []Figures {
	var out []Figures
	for _, r := range s.round(repetition) {
		if r.Contender == contender && (r.Bracket || r.Repetition == repetition) {
			out = append(out, r.Figures)
		}
	}
	return out
}

// all returns the runs of a contender in all repetitions. For a bracket it returns all runs.
func (s *Session) all(contender string) []Figures {
	var out []Figures
	for _, r := range s.Results {
		if r.Bracket && r.Contender == contender {
			out = append(out, r.Figures)
		}
	}
	if len(out) > 0 {
		return out
	}
	for n := 1; n <= s.Repetitions(); n++ {
		out = append(out, s.runs(contender, n)...)
	}
	return out
}

// A Measure returns one figure of a run. ok reports whether the run has the figure.
type Measure func(Figures) (value float64, ok bool)

// Value returns the measure of a contender in a repetition. For a bracket it is
// the mean of its two runs. There is no value unless each of these runs has one.
func (s *Session) Value(m Measure, contender string, repetition int) (float64, bool) {
	runs := s.runs(contender, repetition)
	sum := 0.0
	for _, f := range runs {
		v, ok := m(f)
		if !ok {
			return 0, false
		}
		sum += v
	}
	return sum / float64(max(1, len(runs))), len(runs) > 0
}

// Ratio returns the measure of one contender divided by another's,
// within a repetition. There is no value unless both bound all pods.
func (s *Session) Ratio(m Measure, contender, other string, repetition int) (float64, bool) {
	whole := func(f Figures) (float64, bool) {
		v, ok := m(f)
		return v, ok && f.Outcome == AllBound
	}
	a, okA := s.Value(whole, contender, repetition)
	b, okB := s.Value(whole, other, repetition)
	if !okA || !okB || b == 0 {
		return 0, false
	}
	return a / b, true
}

// noise is the greatest ratio between the speeds of a repetition's two brackets that is not noise.
const noise = 1.25

// Noisy reports whether the machine's speed differed between the
// start and the end of a repetition, or the brackets do not show it.
func (s *Session) Noisy(repetition int) bool {
	least, most := math.Inf(1), 0.0
	for _, r := range s.round(repetition) {
		if r.Bracket {
			v, _ := Speed(r.Figures)
			least, most = min(least, v), max(most, v)
		}
	}
	return most > noise*least || most == 0 && least == 0
}
