package chaos

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// stats count what happened in a run.
type stats struct {
	groups, foreign, kills, missed, freezes, outages, moot, full atomic.Int64

	mu        sync.Mutex
	kinds     map[string]int
	misses    map[Step]int
	burstPods int
	burstTime time.Duration
	took      time.Duration
	// stands are the serial numbers of the groups with each constraint of a Stand.
	stands    map[string][]int
	slowTimes int
	slowTime  time.Duration
	// overloads is the number of overloads. refused is the number of requests refused in them.
	overloads, refused int
}

// overload counts an overload, and the requests refused in it.
func (s *stats) overload(refused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.overloads++
	s.refused += max(0, refused) // a server that was restarted counts from 0
}

// slow counts a slow answer of the API server, and its duration.
func (s *stats) slow(took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slowTimes++
	s.slowTime += took
}

// stand records the constraints of a group.
func (s *stats) stand(w Workload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stands == nil {
		s.stands = map[string][]int{}
	}
	for _, name := range w.Stand.names() {
		s.stands[name] = append(s.stands[name], w.serial)
	}
}

// stood lists for each constraint the number of groups with
// it, and how many of them ran. The caller holds the lock.
func (s *stats) stood(ran map[string]bool) string {
	var each []string
	for _, name := range slices.Sorted(maps.Keys(s.stands)) {
		n := 0
		for _, serial := range s.stands[name] {
			if ran[strconv.Itoa(serial)] {
				n++
			}
		}
		each = append(each, fmt.Sprintf("%s %d of %d", name, n, len(s.stands[name])))
	}
	return strings.Join(each, ", ")
}

func (s *stats) event(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kinds == nil {
		s.kinds = map[string]int{}
	}
	s.kinds[e.Kind]++
}

// events returns the number of events.
func (s *stats) events() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, of := range s.kinds {
		n += of
	}
	return n
}

// witnessed returns what happened, with the number of groups that ran and of the audit's rounds.
func (s *stats) witnessed(ran, rounds int) witness {
	events := s.events()
	s.mu.Lock()
	defer s.mu.Unlock()
	return witness{events: events, ran: ran, rounds: rounds, overloads: s.overloads, refused: s.refused}
}

func (s *stats) burst(pods int, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.burstPods += pods
	s.burstTime += took
}

// miss counts a kill whose group did not reach its step in time.
func (s *stats) miss(at Step) {
	s.missed.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.misses == nil {
		s.misses = map[Step]int{}
	}
	s.misses[at]++
}

// missedAt lists the missed kills by their steps. The caller holds the lock.
func (s *stats) missedAt() string {
	var each []string
	for _, at := range slices.Sorted(maps.Keys(s.misses)) {
		each = append(each, fmt.Sprintf("%s %d", at, s.misses[at]))
	}
	if len(each) == 0 {
		return ""
	}
	return " (" + strings.Join(each, ", ") + ")"
}

// historyLength is the number of events that are remembered.
const historyLength = 40

// history is the last events.
type history struct {
	mu    sync.Mutex
	lines []string
	file  io.Writer // gets all events
}

func (h *history) add(text fmt.Stringer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	line := time.Now().UTC().Format("15:04:05.000 ") + text.String()
	h.lines = append(h.lines, line)
	fmt.Fprintln(h.file, line)
	if len(h.lines) > historyLength {
		h.lines = h.lines[1:]
	}
}

func (h *history) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.lines, "\n")
}

// A Result is the result of a run.
type Result struct {
	Seed       uint64
	Events     int
	Kills      int
	Violations int
	Drift      int
	Leaks      int
	// Doubt is why a run without a violation proves nothing, "" if it proves something.
	Doubt string
}

// String returns the last line of a run's output.
func (r Result) String() string {
	return fmt.Sprintf("chaos: seed=%d events=%d kills=%d violations=%d drift=%d leaks=%d",
		r.Seed, r.Events, r.Kills, r.Violations, r.Drift, r.Leaks)
}

// Passed reports whether the run passed.
func (r Result) Passed() bool { return r.Why() == "" }

// Why returns why a run did not pass, "" if it passed.
func (r Result) Why() string {
	var found []string
	for what, n := range map[string]int{"violations": r.Violations, "drift": r.Drift, "leaks": r.Leaks} {
		if n > 0 {
			found = append(found, what)
		}
	}
	slices.Sort(found)
	if r.Doubt != "" {
		found = append(found, r.Doubt)
	}
	return strings.Join(found, "; ")
}

// tell writes the statistics of a run.
func (r *run) tell(out io.Writer) {
	s := &r.stats
	s.mu.Lock()
	defer s.mu.Unlock()
	seconds := s.took.Seconds()
	events := 0
	var kinds []string
	for _, k := range slices.Sorted(maps.Keys(s.kinds)) {
		events += s.kinds[k]
		kinds = append(kinds, fmt.Sprintf("%s %d", k, s.kinds[k]))
	}
	fmt.Fprintf(out, "%d events in %.0fs, %.1f a second: %s\n", events, seconds, float64(events)/max(seconds, 1), strings.Join(kinds, ", "))
	fmt.Fprintf(out, "%d events came to nothing, %d creations found too many groups or pods and became deletions\n", s.moot.Load(), s.full.Load())
	r.view.mu.Lock()
	fmt.Fprintf(out, "%d groups created, %d of them ran; %d pods of theirs bound\n", s.groups.Load(), len(r.view.ran), r.view.bound)
	fmt.Fprintf(out, "Ran of those that say how they stand: %s\n", s.stood(r.view.ran))
	r.view.mu.Unlock()
	rate := 0.0
	if s.burstTime > 0 {
		rate = float64(s.burstPods) / s.burstTime.Seconds()
	}
	fmt.Fprintf(out, "%d foreign pods bound, in bursts of %.0f a second\n", s.foreign.Load(), rate)
	fmt.Fprintf(out, "%d kills, of which %d before their group came so far%s; %d processes stopped; %d API faults\n", s.kills.Load(), s.missed.Load(), s.missedAt(), s.freezes.Load(), s.outages.Load())
	fmt.Fprintf(out, "%d overloads of the API server, in which it refused %d requests of Fluence\n", s.overloads, s.refused)
	fmt.Fprintf(out, "%d times the API server took long to answer, %.0fs together\n", s.slowTimes, s.slowTime.Seconds())
	ended := r.keeper.endedByThemselves()
	for _, name := range slices.Sorted(maps.Keys(ended)) {
		fmt.Fprintf(out, "%s ended by itself %d times\n", name, ended[name])
	}
	fmt.Fprintf(out, "%d races told by the scheduler; %d rounds of its audit\n", r.tally.sum(racesMetric), r.tally.sum(roundsMetric))
	fmt.Fprintf(out, "The checker: %v\n", r.checker.Stats())
	fmt.Fprintf(out, "%.0f %% of the time were excused\n", 100*excused(r.checker.Stats()))
	for _, v := range r.checker.Violations() {
		fmt.Fprintf(out, "VIOLATION %v\n", v)
	}
}
