package report

import "time"

// A book is a list of results, to which the runs of a session are added.
type book struct {
	results []Result
	common  Result
}

// session begins a session of a row with a number of runs, at a minute of a day.
func (b *book) session(row string, minute, runs int) *book {
	b.common = Result{
		Row: row, Session: time.Date(2026, 11, 22, 12, minute, 0, 0, time.UTC), Runs: runs,
		Commit: "0123456789ab", Cores: 2,
		Parameters: Parameters{Nodes: 1000, Pods: 4000, Size: 8, CPU: "1"},
	}
	return b
}

// run adds a run in which all pods were bound, with a speed in pods/s.
func (b *book) run(contender string, repetition int, speed float64) *book {
	r := b.common
	r.Contender, r.Repetition = contender, repetition
	r.Figures = Figures{Outcome: AllBound, Bound: 4000, PodsPerSecond: speed, PodsPerSecondAll: speed, FirstBind: 1, LastBind: 4000 / speed, Quiet: 0.5}
	b.results = append(b.results, r)
	return b
}

// bracket adds a run of the ceiling after a repetition.
func (b *book) bracket(repetition int, speed float64) *book {
	b.run("ceiling", repetition, speed)
	b.results[len(b.results)-1].Bracket = true
	return b
}

// but changes the figures of the last run.
func (b *book) but(change func(*Figures)) *book {
	change(&b.results[len(b.results)-1].Figures)
	return b
}

// only returns the only session of the book.
func (b *book) only() *Session { return sessions(b.results)[0] }
