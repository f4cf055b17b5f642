// Package reapitest is a stand-in for Fluxion's library: it matches for real, and
// answers in the ways of a chosen release.
package reapitest

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"sync/atomic"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A Release is the middle number of a version of flux-sched: 54 is 0.54.0.
type Release int

// The releases whose ways differ.
const (
	V039 Release = 39
	V046 Release = 46
	V052 Release = 52
	V054 Release = 54
)

// Releases lists them.
func Releases() []Release { return []Release{V039, V046, V052, V054} }

// String returns the version.
func (r Release) String() string { return fmt.Sprintf("0.%d.0", int(r)) }

// errLibrary is all that the Go binding says of an error; the reason is in the text.
var errLibrary = errors.New("issue resource api client -1")

// A Library is a client of the stand-in. It panics where the library would crash or
// do what is not defined: a call while another runs, or after Destroy.
type Library struct {
	release Release
	process *Process
	text    strings.Builder
	graph   *graph
	next    uint64
	// state says of each number that was given out what Info says.
	state map[int64]string
	// stale says that the last verdict was unsatisfiable, which releases before 0.46
	// do not forget.
	stale bool
	// lost is what was booked although an error was returned; the next answer begins
	// with it.
	lost      *resource.Set
	destroyed bool
}

// What Info says of a job.
const (
	held     = "ALLOCATED"
	canceled = "CANCELED"
)

// A Process is what all clients of one process have in common.
type Process struct {
	busy atomic.Bool
	// Updates says in which form UpdateAllocate takes R in a release that has it.
	Updates UpdateForm
	// Calls counts the calls by name, InitContext of graphs with more than one node
	// as "Load".
	Calls map[string]int
	// Current is the client that last loaded a graph.
	Current *Library
	// Fail, if set, is asked before each call; what it returns is the call's error,
	// with the error's text. A Match that fails so has booked all the same, as
	// release 0.39 does at times.
	Fail func(call string) error
}

// An UpdateForm is how R is written for UpdateAllocate.
type UpdateForm int

// The forms.
const (
	// UpdatePlain is JGF alone.
	UpdatePlain UpdateForm = iota
	// UpdateWrapped is RFC 20 with JGF as scheduling.
	UpdateWrapped
	// UpdateNothing says yes and books nothing.
	UpdateNothing
)

// NewProcess returns a process without clients.
func NewProcess() *Process { return &Process{Calls: make(map[string]int)} }

// Open returns a client without a graph.
func (p *Process) Open(r Release) *Library {
	return &Library{release: r, process: p, next: 1, state: make(map[int64]string)}
}

// enter begins a call.
func (l *Library) enter(call string) (leave func(), err error) {
	if !l.process.busy.CompareAndSwap(false, true) {
		panic("reapitest: " + call + " while another call runs")
	}
	if l.destroyed {
		panic("reapitest: " + call + " after Destroy")
	}
	l.process.Calls[call]++
	if l.process.Fail != nil {
		if failed := l.process.Fail(call); failed != nil {
			l.say("%v", failed)
			err = errLibrary
		}
	}
	return func() { l.process.busy.Store(false) }, err
}

// say adds to the error text.
func (l *Library) say(format string, a ...any) { fmt.Fprintf(&l.text, format+"\n", a...) }

// fail is say for what is the call's error.
func (l *Library) fail(format string, a ...any) error {
	l.say(format, a...)
	return errLibrary
}

// InitContext loads a graph.
func (l *Library) InitContext(jgf, options string) error {
	leave, err := l.enter("InitContext")
	defer leave()
	if err != nil {
		return err
	}
	l.graph, err = readGraph(jgf, options)
	if err != nil {
		return l.fail("reapi_cli_initialize: Runtime error: resource_query_t: ERROR: %v", err)
	}
	if len(l.graph.nodes) > 1 {
		l.process.Calls["Load"]++
	}
	l.process.Current = l
	return nil
}

// Match allocates now or not at all.
func (l *Library) Match(op int, text string) (reserved bool, allocated string, at int64, overhead float64, jobid uint64, err error) {
	leave, failed := l.enter("Match")
	defer leave()
	if op != 1 {
		return false, "", 0, 0, 0, l.fail("match operation %d is not part of the stand-in", op)
	}
	js, err := jobspec.Parse([]byte(text))
	if err != nil {
		return false, "", 0, 0, 0, l.fail("match_allocate: ERROR: Jobspec error for %d: %v", l.next, err)
	}
	if failed == nil && l.release < V046 && l.graph.lacks(js) {
		failed = l.fail("dfu_match: a leaf was met while a slot was looked for")
	}
	if failed != nil {
		// Booked all the same, under a number that comes again.
		if r, err := l.graph.match(js, hidden+int64(l.next)); err == nil && r != nil {
			l.lost = r
		}
		return false, "", 0, 0, 0, failed
	}
	r, err := l.graph.match(js, int64(l.next))
	switch {
	case err != nil:
		return false, "", 0, 0, 0, l.fail("match_allocate: ERROR: %v", err)
	case r == nil:
		l.stale = l.stale || !l.graph.couldMatch(js)
		if l.release < V052 {
			l.next++
			return false, "", 0, 0, l.next - 1, nil
		}
		return false, "", 0, 0, 0, errLibrary
	}
	allocated, err = write(l.lost, r)
	if err != nil {
		return false, "", 0, 0, 0, l.fail("match_allocate: ERROR: %v", err)
	}
	jobid, l.lost = l.next, nil
	l.state[int64(jobid)] = held
	l.next++
	return false, allocated, 0, 0, jobid, nil
}

// hidden is where the numbers of jobs begin that the client does not learn of.
const hidden = 1 << 50

// MatchSatisfy says whether the empty graph has room.
func (l *Library) MatchSatisfy(text string) (sat bool, overhead float64, err error) {
	leave, failed := l.enter("MatchSatisfy")
	defer leave()
	if failed != nil {
		return false, 0, failed
	}
	js, err := jobspec.Parse([]byte(text))
	if err != nil {
		return l.release < V054, 0, l.fail("match_satisfy: ERROR: Jobspec error: %v", err)
	}
	sat = l.graph.couldMatch(js)
	l.stale = l.stale || !sat
	if sat && l.stale && l.release < V046 {
		return false, 0, nil
	}
	if !sat && l.release >= V054 {
		return false, 0, errLibrary
	}
	return sat, 0, nil
}

// UpdateAllocate books R under a number of the caller's.
func (l *Library) UpdateAllocate(jobid int, r string) (at int64, overhead float64, out string, err error) {
	leave, failed := l.enter("UpdateAllocate")
	defer leave()
	if failed != nil {
		return 0, 0, "", failed
	}
	if l.release < 53 {
		return 0, 0, "", errLibrary
	}
	if l.state[int64(jobid)] != "" || jobid < 1 {
		return 0, 0, "", l.fail("update: job %d exists", jobid)
	}
	if l.process.Updates == UpdateNothing {
		return 0, 0, r, nil
	}
	if err := l.graph.update(int64(jobid), r, l.process.Updates); err != nil {
		return 0, 0, "", l.fail("update: ERROR: %v", err)
	}
	l.state[int64(jobid)] = held
	return 0, 0, r, nil
}

// Cancel gives back what a job holds.
func (l *Library) Cancel(jobid int64, noentOK bool) error {
	leave, failed := l.enter("Cancel")
	defer leave()
	if failed != nil {
		return failed
	}
	if l.state[jobid] != held {
		l.say("cancel: ERROR: nonexistent job %d", jobid)
		if noentOK && l.release >= V046 {
			return nil
		}
		return errLibrary
	}
	l.state[jobid] = canceled
	l.graph.Release(match.JobID(jobid))
	return nil
}

// Info tells the state of a job.
func (l *Library) Info(jobid int64) (reserved bool, at int64, overhead float64, mode string, err error) {
	leave, failed := l.enter("Info")
	defer leave()
	if failed != nil {
		return false, 0, 0, "", failed
	}
	mode = l.state[jobid]
	if mode == "" {
		return false, 0, 0, "", l.fail("info: ERROR: nonexistent job %d", jobid)
	}
	return false, 0, 0, mode, nil
}

// GetErrMsg returns all texts since they were cleared.
func (l *Library) GetErrMsg() string { return l.text.String() }

// ClearErrMsg clears them.
func (l *Library) ClearErrMsg() { l.text.Reset() }

// Destroy ends the client.
func (l *Library) Destroy() {
	leave, _ := l.enter("Destroy")
	defer leave()
	l.destroyed = true
}

// Held counts what jobs hold, by the name of the node and the type.
func (l *Library) Held() map[string]map[string]int64 {
	sums := make(map[string]map[string]int64)
	for p := range l.graph.held() {
		node := path.Base(path.Dir(p))
		if sums[node] == nil {
			sums[node] = make(map[string]int64)
		}
		sums[node][strings.TrimRight(path.Base(p), "0123456789")]++
	}
	return sums
}

// Jobs counts the jobs that hold something.
func (l *Library) Jobs() int { return len(l.graph.Jobs()) }
