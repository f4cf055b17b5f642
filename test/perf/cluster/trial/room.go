package trial

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/perf/cluster/gauge"
)

// bindAfterWaiting waits until each group of the backlog was refused once and all processes
// are quiet. Then it begins to measure, makes room, and returns when as many pods are bound.
func (b *Bench) bindAfterWaiting(ctx context.Context, m *measured, binds *gauge.Binds) error {
	if err := b.store.WaitRefused(ctx, len(m.gangs)); err != nil {
		return err
	}
	if err := b.settle(ctx, m); err != nil {
		return err
	}
	if err := b.begin(ctx, m, binds); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return b.makeRoom(gctx, m.plan) })
	g.Go(func() error { return waitBound(gctx, binds, m.total) })
	return g.Wait()
}

// makeRoom adds nodes, which have room for as many pods as the plan says.
func (b *Bench) makeRoom(ctx context.Context, plan Plan) error {
	nodes := cluster.Nodes{Count: roomNodes(plan), Name: func(i int) string { return fmt.Sprintf("room-%04d", i) }}
	for i := range nodes.Count {
		b.room = append(b.room, nodes.Name(i))
	}
	if _, err := b.stand.AddNodes(ctx, nodes); err != nil {
		return fmt.Errorf("make room: %w", err)
	}
	return nil
}

// roomNodes returns the number of nodes that have room for the pods that a plan wants bound.
func roomNodes(plan Plan) int {
	each := int(NodeCPU * 1000 / plan.CPU.MilliValue())
	return (plan.Room + each - 1) / each
}

// fill leaves a cluster without room, if the plan's backlog is to wait. It removes
// the nodes that an earlier run has added, in any case.
func (b *Bench) fill(ctx context.Context, plan Plan) error {
	if err := b.stand.RemoveNodes(ctx, b.room...); err != nil {
		return fmt.Errorf("remove the room of an earlier run: %w", err)
	}
	b.room = nil
	if plan.Room == 0 {
		return nil
	}
	return b.store.Fill(ctx)
}
