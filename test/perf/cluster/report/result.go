// Package report stores the results of a benchmark's runs, and makes tables of them.
package report

import "time"

// A Result is one run of one contender. It is one line of a results file.
type Result struct {
	// Row is the name of the benchmark.
	Row string `json:"row"`
	// Session is when the row was begun. All its runs have the same.
	Session time.Time `json:"session"`
	// Runs is the number of runs in the session, as known at this run.
	Runs int `json:"runs"`

	// Commit is the repository's commit. Dirty reports whether the tree had changes.
	Commit string `json:"commit"`
	Dirty  bool   `json:"dirty,omitempty"`
	// Date is when the run was begun.
	Date time.Time `json:"date"`
	// Cores is the machine's number of cores.
	Cores int `json:"cores"`

	Contender string `json:"contender"`
	// Repetition is the number of the repetition, from 1. If it comes again after a
	// bracket, the repetition was made again, as older benchmarks did if it was noisy. For a
	// bracket it is the number of repetitions that had ended before.
	Repetition int `json:"repetition"`
	// Bracket marks a run between repetitions. It shows whether
	// the machine was as fast after a repetition as before.
	Bracket    bool       `json:"bracket,omitempty"`
	Parameters Parameters `json:"parameters"`
	Figures
}

// Parameters are the parameters of a run.
type Parameters struct {
	Nodes int `json:"nodes"`
	Pods  int `json:"pods"`
	// Size is the number of pods in a gang.
	Size int `json:"size"`
	// CPU is the request of each pod.
	CPU string `json:"cpu"`
	// Workers is the number of binds in flight of a client that only binds.
	Workers int `json:"workers,omitempty"`
	// Room is the number of pods for which room is made after
	// the others have waited. It is 0 if there is room for all.
	Room int `json:"room,omitempty"`
	// Seconds is how long gangs come in a stream. It is 0 without one.
	Seconds int `json:"seconds,omitempty"`
	// Rack reports whether each gang has to be in one rack.
	Rack bool `json:"rack,omitempty"`
	// Low is the number of pods of priority 0 on each node, which gangs evict. It is 0 without them.
	Low int `json:"low,omitempty"`
	// Args are arguments of the plugin Fluence that differ from the shipped ones.
	Args map[string]any `json:"args,omitempty"`
}

// An Outcome is how a run ended.
type Outcome string

const (
	// AllBound means that every pod got a node.
	AllBound Outcome = "all bound"
	// Ended means that a process of the contender ended by itself before that.
	Ended Outcome = "ended by itself"
	// Late means that the time limit of the run ended before that.
	Late Outcome = "out of time"
)

// Figures are the measurements of a run. Unless all pods
// were bound, they cover the time up to the end of the run.
type Figures struct {
	Outcome Outcome `json:"outcome"`
	// Why explains Outcome if not all pods were bound.
	Why string `json:"why,omitempty"`
	// Bound is the number of pods that got a node.
	Bound int `json:"bound"`

	// PodsPerSecond covers the time from a tenth of the backlog bound to nine tenths bound. It is
	// 0 if that did not happen. PodsPerSecondAll covers the time from the first bind to the last.
	PodsPerSecond    float64 `json:"podsPerSecond"`
	PodsPerSecondAll float64 `json:"podsPerSecondAll"`
	// FirstBind is the time of the first bind, and LastBind of the last,
	// in seconds since the contender's start. Both are 0 without a bind.
	FirstBind float64 `json:"firstBind"`
	LastBind  float64 `json:"lastBind"`
	// Reopened is how often the watch of binds was broken
	// off. Binds during such a gap were delivered late.
	Reopened int `json:"reopened,omitempty"`
	// Gangs is nil if each pod is scheduled alone.
	Gangs *Gangs `json:"gangs,omitempty"`
	// Arrivals are the gangs and pods that came while the backlog was being bound.
	Arrivals []Arrival `json:"arrivals,omitempty"`

	// Stream is nil unless gangs came in a stream.
	Stream *Stream `json:"stream,omitempty"`

	// Preemption is nil unless gangs evicted other pods.
	Preemption *Preemption `json:"preemption,omitempty"`

	// CPU is the milliseconds of CPU time for each bound pod, by process, until all processes
	// are quiet. It begins at the contender's start. Without Quiet it ends with the wait.
	CPU map[string]float64 `json:"cpu"`
	// BindingCPU is the same until the last bind.
	BindingCPU map[string]float64 `json:"bindingCPU,omitempty"`
	// Quiet is how many seconds after the last bind all processes were
	// quiet. It is 0 if they never were, or if nothing waited for it.
	Quiet float64 `json:"quiet,omitempty"`
	// Peak is the largest resident set of each of the contender's processes, in bytes.
	Peak map[string]int64 `json:"peak"`

	// Writes are the requests that changed something, for each bound pod,
	// by verb, resource and subresource. They cover the same time as CPU.
	Writes map[string]float64 `json:"writes"`
	// TooMany is the number of requests answered 429. Rejected
	// is the number that flow control refused, by flow schema.
	TooMany  float64            `json:"tooMany"`
	Rejected map[string]float64 `json:"rejected,omitempty"`
	// Dispatched is the number of requests that flow control
	// let through, by flow schema and priority level.
	Dispatched map[string]float64 `json:"dispatched"`
}

// Gangs are the seconds from a gang's first bind to
// its last. Without a last bind they end with the run.
type Gangs struct {
	// Count is the number of gangs that had a bind.
	Count int     `json:"count"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Worst float64 `json:"worst"`
	// Halves is the number of gangs that took more than two seconds.
	Halves int `json:"halves"`
}

// Stream is how long the gangs of a stream took, in
// seconds from the creation of a gang's last pod to its last bind.
type Stream struct {
	// Rate is the rate at which gangs came. Highest is the rate of which it is
	// a share. Both are in gangs a second.
	Rate    float64 `json:"rate"`
	Highest float64 `json:"highest"`
	// Gangs is the number of gangs that were bound.
	Gangs int     `json:"gangs"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Worst float64 `json:"worst"`
}

// Preemption is how long gangs took that evicted other pods, in seconds from the creation
// of the first gang's last pod.
type Preemption struct {
	// Victims is the number of pods that were evicted.
	Victims int `json:"victims"`
	// First and Last are until the first and the last of them ended. They are 0 if there were none.
	First float64 `json:"first"`
	Last  float64 `json:"last"`
	// Bound is until the last pod of the gangs was bound.
	Bound float64 `json:"bound"`
}

// Arrival is a gang, or a lone pod, that came while the backlog was being bound.
type Arrival struct {
	Name string `json:"name"`
	Pods int    `json:"pods"`
	// Before is the number of all pods bound when its last pod was
	// created. After is the number when its last pod was bound.
	Before int `json:"before"`
	After  int `json:"after"`
	// First and Last are the seconds from the creation of its last
	// pod to its first and last bind. They are 0 without such a bind.
	First float64 `json:"first"`
	Last  float64 `json:"last"`
}

// whole reports whether all its pods were bound.
func (a Arrival) whole() bool { return a.After > 0 }
