package matchtest

import (
	"context"
	"fmt"
	"sync"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A Fake is a match.GraphEngine for tests. It records every call. A call fails or waits if the test
// demands it. Otherwise the script answers, or an inner engine. A Fake is safe for concurrent use.
//
// Without a script, a Fake from NewFake counts epochs up from 1, accepts everything and stores
// nothing. Its Match fails with an error that names the missing answer.
type Fake struct {
	inner match.Engine

	mu      sync.Mutex
	epoch   match.Epoch
	calls   []Call
	changed chan struct{} // closed and replaced at every new call
	always  map[Method]error
	next    map[Method][]error
	held    map[Method]chan struct{}
	answers []func(match.Request) (*match.Allocation, error)
	onMatch func(match.Request) (*match.Allocation, error)
	jobs    []match.Job
	found   *resource.Set
}

var _ match.GraphEngine = (*Fake)(nil)

// NewFake returns a Fake without an inner engine.
func NewFake() *Fake {
	return &Fake{
		changed: make(chan struct{}),
		always:  make(map[Method]error),
		next:    make(map[Method][]error),
		held:    make(map[Method]chan struct{}),
	}
}

// Spy returns a Fake that passes calls on to e, except those that the test makes fail or the script
// answers.
func Spy(e match.Engine) *Fake {
	f := NewFake()
	f.inner = e
	return f
}

// Match returns the next scripted answer, or else the inner engine's.
func (f *Fake) Match(ctx context.Context, r match.Request) (*match.Allocation, error) {
	if err := f.enter(ctx, Call{Method: Match, Epoch: r.Epoch, ID: r.ID, Request: r}); err != nil {
		return nil, err
	}
	if answer := f.answer(); answer != nil {
		return answer(r)
	}
	if f.inner != nil {
		return f.inner.Match(ctx, r)
	}
	return nil, fmt.Errorf("matchtest: no answer is scripted for the match of job %d", r.ID)
}

// Release calls the inner engine, if there is one.
func (f *Fake) Release(ctx context.Context, e match.Epoch, id match.JobID, keys ...string) error {
	if err := f.enter(ctx, Call{Method: Release, Epoch: e, ID: id, Keys: keys}); err != nil || f.inner == nil {
		return err
	}
	return f.inner.Release(ctx, e, id, keys...)
}

// Update calls the inner engine, if there is one.
func (f *Fake) Update(ctx context.Context, e match.Epoch, jobs ...match.Job) error {
	if err := f.enter(ctx, Call{Method: Update, Epoch: e, Jobs: jobs}); err != nil || f.inner == nil {
		return err
	}
	return f.inner.Update(ctx, e, jobs...)
}

// PutNode calls the inner engine, if there is one.
func (f *Fake) PutNode(ctx context.Context, e match.Epoch, nodes ...*resource.Graph) error {
	if err := f.enter(ctx, Call{Method: PutNode, Epoch: e, Nodes: nodes}); err != nil || f.inner == nil {
		return err
	}
	return f.inner.PutNode(ctx, e, nodes...)
}

// RemoveNode calls the inner engine, if there is one.
func (f *Fake) RemoveNode(ctx context.Context, e match.Epoch, name string) error {
	if err := f.enter(ctx, Call{Method: RemoveNode, Epoch: e, Name: name}); err != nil || f.inner == nil {
		return err
	}
	return f.inner.RemoveNode(ctx, e, name)
}

// SetStatus calls the inner engine, if there is one.
func (f *Fake) SetStatus(ctx context.Context, e match.Epoch, name string, s resource.Status) error {
	if err := f.enter(ctx, Call{Method: SetStatus, Epoch: e, Name: name, Status: s}); err != nil || f.inner == nil {
		return err
	}
	return f.inner.SetStatus(ctx, e, name, s)
}

// Jobs calls the inner engine, or returns the jobs of the last SetJobs.
func (f *Fake) Jobs(ctx context.Context, e match.Epoch) ([]match.Job, error) {
	if err := f.enter(ctx, Call{Method: Jobs, Epoch: e}); err != nil {
		return nil, err
	}
	if f.inner != nil {
		return f.inner.Jobs(ctx, e)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.jobs, nil
}

// Nodes calls the inner engine. It fails if there is none.
func (f *Fake) Nodes(ctx context.Context, e match.Epoch, from string, limit int) ([]match.Node, error) {
	if err := f.enter(ctx, Call{Method: Nodes, Epoch: e, From: from, Limit: limit}); err != nil {
		return nil, err
	}
	if f.inner != nil {
		return f.inner.Nodes(ctx, e, from, limit)
	}
	return nil, fmt.Errorf("matchtest: no answer is scripted for the nodes from %q on", from)
}

// Reset calls the inner engine, or begins the next epoch.
func (f *Fake) Reset(ctx context.Context) (match.Epoch, error) {
	if err := f.enter(ctx, Call{Method: Reset}); err != nil {
		return 0, err
	}
	if f.inner != nil {
		return f.inner.Reset(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.epoch++
	return f.epoch, nil
}

// Ready calls the inner engine, if there is one.
func (f *Fake) Ready(ctx context.Context, e match.Epoch) error {
	if err := f.enter(ctx, Call{Method: Ready, Epoch: e}); err != nil || f.inner == nil {
		return err
	}
	return f.inner.Ready(ctx, e)
}
