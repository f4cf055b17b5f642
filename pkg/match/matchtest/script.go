package matchtest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A Method is the name of a method of match.GraphEngine.
type Method string

// The methods of match.GraphEngine, first those of match.Engine.
const (
	Match      Method = "Match"
	Release    Method = "Release"
	Update     Method = "Update"
	PutNode    Method = "PutNode"
	RemoveNode Method = "RemoveNode"
	SetStatus  Method = "SetStatus"
	Jobs       Method = "Jobs"
	Nodes      Method = "Nodes"
	Reset      Method = "Reset"
	Ready      Method = "Ready"

	AddSubgraph    Method = "AddSubgraph"
	RemoveSubgraph Method = "RemoveSubgraph"
	Find           Method = "Find"
)

// A Call is one call of a method of a Fake. Only the fields that the method has are set.
type Call struct {
	Method  Method
	Epoch   match.Epoch
	Request match.Request
	ID      match.JobID
	Keys    []string
	Jobs    []match.Job
	Nodes   []*resource.Graph
	// Name is the name of a node or, for SetStatus and RemoveSubgraph, the path of a vertex.
	Name   string
	Status resource.Status
	From   string
	Limit  int
	// JGF is a copy of AddSubgraph's text.
	JGF      []byte
	Criteria string
	Now      time.Time
}

// Answer appends an answer to the script. Each Match takes the next answer.
func (f *Fake) Answer(a *match.Allocation, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers = append(f.answers, func(match.Request) (*match.Allocation, error) { return a, err })
}

// Refuse appends a refusal to the script.
func (f *Fake) Refuse(verdict error, why match.Reason) {
	f.Answer(nil, &match.Refusal{Err: verdict, Reason: why})
}

// OnMatch makes fn answer every Match for which the script has no answer. Nil ends that. Several
// goroutines may call fn at once.
func (f *Fake) OnMatch(fn func(match.Request) (*match.Allocation, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onMatch = fn
}

// SetJobs sets the answer of Jobs for a Fake without an inner engine.
func (f *Fake) SetJobs(jobs ...match.Job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs = jobs
}

// SetFound sets the answer of Find for a Fake without an inner engine.
func (f *Fake) SetFound(s *resource.Set) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.found = s
}

// Fail makes every call of a method fail with err. Nil ends that.
func (f *Fake) Fail(m Method, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.always[m] = err
}

// FailNext makes the next calls of a method fail, one with each error. A nil error lets its call
// pass. FailNext takes precedence over Fail.
func (f *Fake) FailNext(m Method, errs ...error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next[m] = append(f.next[m], errs...)
}

// Hold makes every call of a method wait until release is called or the call's context ends. Calls
// already lists a call that waits.
func (f *Fake) Hold(m Method) (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	gate := make(chan struct{})
	f.held[m] = gate
	return sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.held[m] == gate {
			delete(f.held, m)
		}
		close(gate)
	})
}

// Calls returns the calls so far of these methods, or of all methods if none is given.
func (f *Fake) Calls(of ...Method) []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.callsOf(of)
}

func (f *Fake) callsOf(of []Method) []Call {
	var calls []Call
	for _, c := range f.calls {
		if len(of) == 0 || slices.Contains(of, c.Method) {
			calls = append(calls, c)
		}
	}
	return calls
}

// Await waits until a method has been called n times since the last Forget, and returns these
// calls. If ctx ends first, Await returns its error.
func (f *Fake) Await(ctx context.Context, m Method, n int) ([]Call, error) {
	for {
		f.mu.Lock()
		calls, changed := f.callsOf([]Method{m}), f.changed
		f.mu.Unlock()
		if len(calls) >= n {
			return calls, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return calls, ctx.Err()
		}
	}
}

// Forget clears the list of calls.
func (f *Fake) Forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = nil
}

// enter records a call and waits if the method is held. It returns the error that the call has to
// fail with.
func (f *Fake) enter(ctx context.Context, c Call) error {
	f.mu.Lock()
	f.calls = append(f.calls, c)
	close(f.changed)
	f.changed = make(chan struct{})
	gate := f.held[c.Method]
	f.mu.Unlock()

	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if errs := f.next[c.Method]; len(errs) > 0 {
		f.next[c.Method] = errs[1:]
		return errs[0]
	}
	return f.always[c.Method]
}

// answer takes the next scripted answer to a Match, or else OnMatch's function. It returns nil if
// there is neither.
func (f *Fake) answer() func(match.Request) (*match.Allocation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.answers) == 0 {
		return f.onMatch
	}
	a := f.answers[0]
	f.answers = f.answers[1:]
	return a
}
