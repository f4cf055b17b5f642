// Package report keeps what runs of a benchmark found, and makes the tables of it.
package report

import "time"

// A Result is one run of one contender: one line of a results file.
type Result struct {
	// Row is which benchmark it belongs to.
	Row string `json:"row"`
	// Session is when that row was begun: all of its runs have the same.
	Session time.Time `json:"session"`
	// Runs is of how many runs the session consists, as far as was known at this one: a
	// noisy repetition is made again.
	Runs int `json:"runs"`

	// Commit is that of the repository; Dirty says that the tree had changes beside it.
	Commit string `json:"commit"`
	Dirty  bool   `json:"dirty,omitempty"`
	// Date is when the run was begun.
	Date time.Time `json:"date"`
	// Cores is how many the machine has.
	Cores int `json:"cores"`

	Contender string `json:"contender"`
	// Repetition counts from 1; in a session one that comes again behind a bracket was
	// made again. For a bracket it is the number of repetitions that had ended before.
	Repetition int `json:"repetition"`
	// Bracket marks a run that stands between repetitions, to tell whether the machine
	// was as fast after a repetition as before.
	Bracket    bool       `json:"bracket,omitempty"`
	Parameters Parameters `json:"parameters"`
	Figures
}

// Parameters are what a run was made with.
type Parameters struct {
	Nodes int `json:"nodes"`
	Pods  int `json:"pods"`
	// Size is that of a gang.
	Size int `json:"size"`
	// CPU is what each pod asks for.
	CPU string `json:"cpu"`
	// Workers is how many binds a client that only binds has in flight.
	Workers int `json:"workers,omitempty"`
	// Args are arguments of the plugin Fluence that are not as shipped.
	Args map[string]any `json:"args,omitempty"`
}

// An Outcome is how a run ended.
type Outcome string

const (
	// AllBound says that every pod got a node.
	AllBound Outcome = "all bound"
	// Ended says that a process of the contender ended by itself before.
	Ended Outcome = "ended by itself"
	// Late says that the limit of the run was over before.
	Late Outcome = "out of time"
)

// Figures are what a run is judged by. Unless all pods were bound they are those up to
// the end of the run.
type Figures struct {
	Outcome Outcome `json:"outcome"`
	// Why says more than Outcome where not all were bound.
	Why string `json:"why,omitempty"`
	// Bound is how many pods got a node.
	Bound int `json:"bound"`

	// PodsPerSecond is from when a tenth of the backlog was bound until nine tenths
	// were; 0 if they never were. PodsPerSecondAll is from the first bind to the last.
	PodsPerSecond    float64 `json:"podsPerSecond"`
	PodsPerSecondAll float64 `json:"podsPerSecondAll"`
	// FirstBind and LastBind are seconds since the contender's start; 0 without a bind.
	FirstBind float64 `json:"firstBind"`
	LastBind  float64 `json:"lastBind"`
	// Reopened is how often the watch that tells of binds was broken off: those that
	// happened meanwhile were told late.
	Reopened int `json:"reopened,omitempty"`
	// Gangs is nil where pods are on their own.
	Gangs *Gangs `json:"gangs,omitempty"`
	// Arrivals are those that came while others were being bound.
	Arrivals []Arrival `json:"arrivals,omitempty"`

	// CPU is milliseconds of CPU time for each pod bound, by process, until all are
	// quiet: of the contender's processes from their start, of all others from the
	// contender's start. Without Quiet it is that up to the end of the wait.
	CPU map[string]float64 `json:"cpu"`
	// Quiet is how many seconds after the last bind all processes were quiet; 0 if it
	// was not waited for, or they never were.
	Quiet float64 `json:"quiet,omitempty"`
	// Peak is the largest resident set of each of the contender's processes, in bytes.
	Peak map[string]int64 `json:"peak"`

	// Writes are requests that change something, for each pod bound, by verb, resource
	// and subresource, in the time that CPU is for.
	Writes map[string]float64 `json:"writes"`
	// TooMany is how many requests were answered 429, and Rejected how many of these flow
	// control refused, by flow schema.
	TooMany  float64            `json:"tooMany"`
	Rejected map[string]float64 `json:"rejected,omitempty"`
	// Dispatched is how many requests flow control let through, by flow schema and
	// priority level.
	Dispatched map[string]float64 `json:"dispatched"`
}

// Gangs says for how long gangs stood in halves: the seconds from a gang's first bind to
// its last, or to the end of the run if that did not come.
type Gangs struct {
	// Count is how many gangs had a bind.
	Count int     `json:"count"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Worst float64 `json:"worst"`
	// Halves is how many took more than two seconds.
	Halves int `json:"halves"`
}

// Arrival is a gang, or a lone pod, that came while a backlog was being bound.
type Arrival struct {
	Name string `json:"name"`
	Pods int    `json:"pods"`
	// Before is how many pods were bound when its last pod was made, and After how many
	// when its last pod was bound, all pods counted.
	Before int `json:"before"`
	After  int `json:"after"`
	// First and Last are the seconds from when its last pod was made to its first and
	// last bind; 0 where that did not come.
	First float64 `json:"first"`
	Last  float64 `json:"last"`
}

// whole reports whether all of its pods were bound.
func (a Arrival) whole() bool { return a.After > 0 }
