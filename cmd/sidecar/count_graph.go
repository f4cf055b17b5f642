package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// graphs returns the engine as one that takes graphs of any shape.
func (c *counted) graphs() (match.GraphEngine, error) {
	e, ok := c.Engine.(match.GraphEngine)
	if !ok {
		return nil, fmt.Errorf("%w: this engine takes no graphs", match.ErrInvalid)
	}
	return e, nil
}

// AddSubgraph implements match.GraphEngine.
func (c *counted) AddSubgraph(ctx context.Context, e match.Epoch, jgf []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	g, err := c.graphs()
	if err != nil {
		return err
	}
	if err := g.AddSubgraph(ctx, e, jgf); err != nil {
		return err
	}
	err = resource.WalkJGF(jgf, func(v *resource.Vertex) error {
		if v.Type == resource.TypeNode {
			c.nodes[v.Path] = struct{}{}
		}
		return nil
	}, func(resource.Edge) error { return nil })
	if err != nil {
		return fmt.Errorf("count the nodes of a graph that the engine took: %w", err)
	}
	return nil
}

// RemoveSubgraph implements match.GraphEngine.
func (c *counted) RemoveSubgraph(ctx context.Context, e match.Epoch, path string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	g, err := c.graphs()
	if err != nil {
		return err
	}
	if err := g.RemoveSubgraph(ctx, e, path); err != nil {
		return err
	}
	for node := range c.nodes {
		if node == path || strings.HasPrefix(node, path+"/") {
			delete(c.nodes, node)
		}
	}
	return nil
}

// Find implements match.GraphEngine. It changes no count, and waits for nobody
// here.
func (c *counted) Find(ctx context.Context, e match.Epoch, criteria string, now time.Time) (*resource.Set, error) {
	g, err := c.graphs()
	if err != nil {
		return nil, err
	}
	return g.Find(ctx, e, criteria, now)
}
