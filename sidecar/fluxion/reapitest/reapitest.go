// Package reapitest is a stand-in for Fluxion's library.
// It really matches, and behaves like a chosen release.
package reapitest

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A Release is the middle number of a version of flux-sched: 54 is 0.54.0.
type Release int

// The releases that behave differently.
const (
	V039 Release = 39
	V046 Release = 46
	V052 Release = 52
	V054 Release = 54
)

// Releases returns these releases.
func Releases() []Release { return []Release{V039, V046, V052, V054} }

// String returns the version.
func (r Release) String() string { return fmt.Sprintf("0.%d.0", int(r)) }

// errLibrary is the only error of the Go binding. The reason is in the text.
var errLibrary = errors.New("issue resource api client -1")

// A Library is a client of the stand-in. It panics if the library would crash or
// its behaviour is not defined: for a call while another runs, or after Destroy.
type Library struct {
	release Release
	process *Process
	text    strings.Builder
	graph   *graph
	next    uint64
	// state has the results of Info, by job number.
	state map[int64]*state
	// stale is true if a verdict was unsatisfiable, which releases before 0.46 do not forget.
	stale bool
	// lost has the resources that were booked although an error was returned. The next answer
	// begins with them.
	lost      *resource.Set
	destroyed bool
}

// A state is the result of Info about a job.
type state struct {
	mode     string
	reserved bool
	at       int64
}

// The modes of a job.
const (
	held      = "ALLOCATED"
	reserving = "RESERVED"
	canceled  = "CANCELED"
)

// A Process has the state that all clients of one process share.
type Process struct {
	busy  atomic.Bool
	types typeTable
	// Updates is the form in which UpdateAllocate accepts R, in a release that has it.
	Updates UpdateForm
	// Calls counts the calls by name. It counts InitContext
	// of graphs with more than one node also as "Load".
	Calls map[string]int
	// Current is the client that last loaded a graph.
	Current *Library
	// ErrnoIsZero is true if calls are made on threads whose errno is 0. Then a refusal of release 0.54
	// may have a text.
	ErrnoIsZero bool
	// LoadTime, if set, returns how long the library takes to load a graph with this number of nodes.
	LoadTime func(nodes int) time.Duration
	// Fail, if set, is called before each call. Its error is the error of the call, with its text.
	// A Match that fails this way has still booked its resources, as release 0.39 sometimes does.
	Fail func(call string) error
}

// An UpdateForm is a form of R for UpdateAllocate.
type UpdateForm int

// The forms.
const (
	// UpdatePlain is JGF alone.
	UpdatePlain UpdateForm = iota
	// UpdateWrapped is RFC 20 with JGF as scheduling.
	UpdateWrapped
	// UpdateNothing answers yes and books nothing.
	UpdateNothing
)

// NewProcess returns a process without clients.
func NewProcess() *Process { return &Process{Calls: make(map[string]int), types: newTypeTable()} }

// Open returns a client without a graph.
func (p *Process) Open(r Release) *Library {
	return &Library{release: r, process: p, next: 1, state: make(map[int64]*state)}
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

// fail adds to the error text and returns the binding's error.
func (l *Library) fail(format string, a ...any) error {
	l.say(format, a...)
	return errLibrary
}

// InitContext loads a graph.
func (l *Library) InitContext(jgf, options string) error {
	leave, failed := l.enter("InitContext")
	defer leave()
	g, err := readGraph(jgf, options)
	if err == nil && l.process.LoadTime != nil {
		time.Sleep(l.process.LoadTime(len(g.nodes)))
	}
	if failed != nil {
		return failed
	}
	if err != nil {
		return l.fail("reapi_cli_initialize: Runtime error: resource_query_t: ERROR: %v", err)
	}
	if l.release >= closesTypes {
		if err := l.process.types.learn(typesOf(g, options)); err != nil {
			return l.fail("reapi_cli_initialize: Runtime error: %v", err)
		}
		l.process.types.closed = true
	}
	l.graph = g
	if len(l.graph.nodes) > 1 {
		l.process.Calls["Load"]++
	}
	l.process.Current = l
	return nil
}

// ops are the operations of a Match by their numbers in the library.
var ops = map[int]match.Op{
	1: match.Allocate, 2: match.Allocate, 3: match.AllocateOrElseReserve,
	5: match.WithoutAllocating, 6: match.WithoutAllocatingFuture,
}

// Match runs a match operation.
func (l *Library) Match(op int, text string) (reserved bool, allocated string, at int64, overhead float64, jobid uint64, err error) {
	leave, failed := l.enter("Match")
	defer leave()
	js, err := jobspec.Parse([]byte(text))
	if err != nil {
		return false, "", 0, 0, 0, l.fail("match_allocate: ERROR: Jobspec error for %d: %v", l.next, err)
	}
	if l.release >= closesTypes && !l.process.types.knows(js.Resources) {
		return false, "", 0, 0, 0, l.fail("match_allocate: ERROR: Jobspec error for %d: Value of \"type\" must be a resource type known to fluxion", l.next)
	}
	if failed == nil && l.release < V046 && l.graph.lacks(js) {
		failed = l.fail("dfu_match: a leaf was met while a slot was looked for")
	}
	if failed != nil {
		// The resources are booked although the call fails, under a job number that the library
		// will use again.
		if a, err := l.graph.ask(js, match.Allocate, hidden+int64(l.next)); err == nil {
			l.lost = a.R
		}
		return false, "", 0, 0, 0, failed
	}
	a, err := l.graph.ask(js, ops[op], int64(l.next))
	if errors.Is(err, match.ErrBusy) || errors.Is(err, match.ErrUnsatisfiable) {
		return false, "", 0, 0, 0, l.refuse(js)
	}
	if err == nil {
		allocated, err = l.graph.write(l.lost, a.R)
		if err != nil {
			l.graph.Release(match.JobID(l.next))
		}
	}
	if err != nil {
		return false, "", 0, 0, 0, l.fail("match_allocate: ERROR: %v", err)
	}
	jobid, l.lost = l.next, nil
	l.next++
	if op < 5 {
		l.state[int64(jobid)] = newState(a)
	}
	return a.Reserved, allocated, a.Start.Unix(), 0, jobid, nil
}

// newState returns the state of a job that has just got an allocation.
func newState(a *match.Allocation) *state {
	if a.Reserved {
		return &state{reserving, true, a.Start.Unix()}
	}
	return &state{mode: held, at: a.Start.Unix()}
}

// refuse answers a request that does not fit.
func (l *Library) refuse(js *jobspec.Jobspec) error {
	l.stale = l.stale || !l.graph.couldMatch(js)
	if _, err := l.graph.write(nil, &resource.Set{}); err != nil {
		return l.fail("match writer emit: %v", err)
	}
	// The number is used up, although no job gets it.
	l.next++
	switch {
	case l.release < V052:
		return nil
	case l.release >= V054 && l.process.ErrnoIsZero:
		return l.fail("match_allocate: ERROR: traverser: Success")
	}
	return errLibrary
}

// hidden is the first number for jobs that the client does not learn of.
const hidden = 1 << 50

// MatchSatisfy returns whether the empty graph has room.
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
	_, err = l.graph.ask(js, match.Satisfiability, 0)
	if errors.Is(err, match.ErrInvalid) {
		return l.release < V054, 0, l.fail("match_satisfy: ERROR: %v", err)
	}
	sat = err == nil
	l.stale = l.stale || !sat
	if sat && l.stale && l.release < V046 {
		return false, 0, nil
	}
	if !sat && l.release >= V054 {
		return false, 0, errLibrary
	}
	return sat, 0, nil
}

// UpdateAllocate books R under a number that the caller chooses.
func (l *Library) UpdateAllocate(jobid int, r string) (at int64, overhead float64, out string, err error) {
	leave, failed := l.enter("UpdateAllocate")
	defer leave()
	if failed != nil {
		return 0, 0, "", failed
	}
	if l.release < 53 {
		return 0, 0, "", errLibrary
	}
	if l.state[int64(jobid)] != nil || jobid < 1 {
		return 0, 0, "", l.fail("update: job %d exists", jobid)
	}
	if l.process.Updates == UpdateNothing {
		return 0, 0, r, nil
	}
	if err := l.graph.update(int64(jobid), r, l.process.Updates); err != nil {
		return 0, 0, "", l.fail("update: ERROR: %v", err)
	}
	l.state[int64(jobid)] = &state{mode: held}
	return 0, 0, r, nil
}

// Cancel releases the resources of a job.
func (l *Library) Cancel(jobid int64, noentOK bool) error {
	leave, failed := l.enter("Cancel")
	defer leave()
	if failed != nil {
		return failed
	}
	j := l.state[jobid]
	if j == nil || j.mode == canceled {
		l.say("cancel: ERROR: nonexistent job %d", jobid)
		if noentOK && l.release >= V046 {
			return nil
		}
		return errLibrary
	}
	j.mode, j.reserved = canceled, false
	l.graph.Release(match.JobID(jobid))
	return nil
}

// Info returns the state of a job.
func (l *Library) Info(jobid int64) (reserved bool, at int64, overhead float64, mode string, err error) {
	leave, failed := l.enter("Info")
	defer leave()
	if failed != nil {
		return false, 0, 0, "", failed
	}
	j := l.state[jobid]
	if j == nil {
		return false, 0, 0, "", l.fail("info: ERROR: nonexistent job %d", jobid)
	}
	return j.reserved, j.at, 0, j.mode, nil
}

// GetErrMsg returns all error texts since ClearErrMsg.
func (l *Library) GetErrMsg() string { return l.text.String() }

// ClearErrMsg clears the error texts.
func (l *Library) ClearErrMsg() { l.text.Reset() }

// Destroy ends the client.
func (l *Library) Destroy() {
	leave, _ := l.enter("Destroy")
	defer leave()
	l.destroyed = true
}

// Held counts the vertices that jobs hold, by the name of the node and the type.
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
