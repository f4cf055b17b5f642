package main

import (
	"context"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// successorEvery is how often a process that gave up its lease checks whether another one has it.
const successorEvery = 250 * time.Millisecond

// A releasing lock ends the process that has given up its lease on purpose.
// kube-scheduler would end as soon as the lease is free, would be started
// again, and could be the first to ask for the lease. So the process stays, and
// does nothing, until another has the lease or the context of the release ends.
type releasing struct {
	resourcelock.Interface
	// given reports whether the lease is given up on purpose.
	given func() bool
	end   func()
}

// Update implements resourcelock.Interface.
func (r releasing) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := r.Interface.Update(ctx, record)
	if err != nil || record.HolderIdentity != "" || !r.given() {
		return err
	}
	r.await(ctx)
	r.end()
	return nil
}

// await returns when another process has the lease, or when ctx ends.
func (r releasing) await(ctx context.Context) {
	t := time.NewTicker(successorEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if now, _, err := r.Get(ctx); err == nil && now.HolderIdentity != "" {
			return
		}
	}
}
