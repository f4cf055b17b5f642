package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A counted engine counts the nodes and jobs of an engine by the calls that
// change them, since asking for a list of all that is held would stop matches for
// as long as it takes. Calls that change something pass one at a time, as they do in
// the engine, so that the counts are those of the calls in the engine's order. Matches may
// take long and pass beside them, but for other calls on the same job. What is reserved
// counts for nothing: nobody holds it.
type counted struct {
	match.Engine

	// mu is not held over a match.
	mu sync.Mutex
	// asked has the jobs that are being matched; each channel is closed when that is done.
	asked map[match.JobID]chan struct{}
	// era counts the times that the graph was emptied.
	era int
	// nodes are those that were put, by name, and those of graphs that were added,
	// by containment path, which begins with a slash.
	nodes map[string]struct{}
	jobs  map[match.JobID]map[string]struct{} // the keys of slots, by job
	// ready says that the graph is complete.
	ready bool
}

func count(e match.Engine) *counted {
	c := &counted{Engine: e, asked: make(map[match.JobID]chan struct{})}
	c.clear()
	return c
}

func (c *counted) clear() {
	c.nodes = make(map[string]struct{})
	c.jobs = make(map[match.JobID]map[string]struct{})
	c.ready = false
	c.era++
}

// sizes returns how many jobs hold something and how many nodes there are.
func (c *counted) sizes() (jobs, nodes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.jobs), len(c.nodes)
}

// isReady says whether the graph is complete.
func (c *counted) isReady() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ready
}

// slots returns how many slots all jobs hold together.
func (c *counted) slots() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, keys := range c.jobs {
		n += len(keys)
	}
	return n
}

func (c *counted) hold(id match.JobID, slots []match.Slot) {
	keys := c.jobs[id]
	if keys == nil && len(slots) > 0 {
		keys = make(map[string]struct{}, len(slots))
		c.jobs[id] = keys
	}
	for i := range slots {
		keys[slots[i].Key] = struct{}{}
	}
}

// idle returns with mu held when the job is not being matched, or with the error of ctx and
// without mu.
func (c *counted) idle(ctx context.Context, id match.JobID) error {
	for {
		c.mu.Lock()
		other, busy := c.asked[id]
		if !busy {
			return nil
		}
		c.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return fmt.Errorf("wait for the match of job %d: %w", id, ctx.Err())
		}
	}
}

func (c *counted) Match(ctx context.Context, r match.Request) (a *match.Allocation, err error) {
	if r.Op != match.Allocate && r.Op != match.AllocateOrElseReserve {
		return c.Engine.Match(ctx, r)
	}
	if err := c.idle(ctx, r.ID); err != nil {
		return nil, err
	}
	done, era := make(chan struct{}), c.era
	c.asked[r.ID] = done
	c.mu.Unlock()
	// Also where the engine panics, and a is nil.
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.asked, r.ID)
		close(done)
		// What was matched in a graph that has been emptied since is gone.
		if err == nil && a != nil && !a.Reserved && era == c.era {
			c.hold(r.ID, a.Slots)
		}
	}()
	return c.Engine.Match(ctx, r)
}

func (c *counted) Release(ctx context.Context, e match.Epoch, id match.JobID, keys ...string) error {
	if err := c.idle(ctx, id); err != nil {
		return err
	}
	defer c.mu.Unlock()
	if err := c.Engine.Release(ctx, e, id, keys...); err != nil {
		return err
	}
	for _, k := range keys {
		delete(c.jobs[id], k)
	}
	if len(keys) == 0 || len(c.jobs[id]) == 0 {
		delete(c.jobs, id)
	}
	return nil
}

func (c *counted) Update(ctx context.Context, e match.Epoch, jobs ...match.Job) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.Engine.Update(ctx, e, jobs...); err != nil {
		return err
	}
	for i := range jobs {
		if !jobs[i].Reserved {
			c.hold(jobs[i].ID, jobs[i].Slots)
		}
	}
	return nil
}

func (c *counted) PutNode(ctx context.Context, e match.Epoch, graphs ...*resource.Graph) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.Engine.PutNode(ctx, e, graphs...); err != nil {
		return err
	}
	for _, g := range graphs {
		for i := range g.Vertices {
			if g.Vertices[i].Type == resource.TypeNode {
				c.nodes[g.Vertices[i].Name] = struct{}{}
			}
		}
	}
	return nil
}

func (c *counted) RemoveNode(ctx context.Context, e match.Epoch, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.Engine.RemoveNode(ctx, e, name); err != nil {
		return err
	}
	delete(c.nodes, name)
	return nil
}

func (c *counted) Reset(ctx context.Context) (match.Epoch, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, err := c.Engine.Reset(ctx)
	if err == nil {
		c.clear()
	}
	return e, err
}

func (c *counted) Ready(ctx context.Context, e match.Epoch) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.Engine.Ready(ctx, e)
	if err == nil {
		c.ready = true
	}
	return err
}
