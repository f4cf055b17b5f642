package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A sender sends changes to the engine in one epoch. Any error that it returns means that the graph
// must be loaded again, because it is not known whether the engine took the call.
type sender struct {
	inventory *Inventory
	epoch     match.Epoch
	timeout   time.Duration
}

// send books before it releases, and books the pods of a node before it puts the node. So a match
// in between sees too little room, never too much.
func (s sender) send(ctx context.Context, nodes []nodeDelta, holds []holdDelta) error {
	if err := s.book(ctx, holdsAfter(holds)); err != nil {
		return err
	}
	if err := s.sendNodes(ctx, nodes); err != nil {
		return err
	}
	return s.release(ctx, holds)
}

// sendNodes puts and removes nodes. A node that the engine rejects is removed from it, because what the
// engine has of the node is outdated.
func (s sender) sendNodes(ctx context.Context, deltas []nodeDelta) error {
	var put []*resource.Graph
	sent := map[string]bool{} // the nodes to put that the engine may have already
	for _, d := range deltas {
		if !d.gone {
			put = append(put, d.after)
			sent[d.key] = d.before != nil
			delete(s.inventory.invalid, nodeSubject(d.key))
			continue
		}
		if d.before == nil {
			continue // never sent
		}
		if err := s.removeNode(ctx, d.key); err != nil {
			return err
		}
	}
	var rejected []string
	err := inBatches(put, func(nodes []*resource.Graph) error {
		return s.call(ctx, func(ctx context.Context) error {
			return s.inventory.cfg.Engine.PutNode(ctx, s.epoch, nodes...)
		})
	}, func(node *resource.Graph, err error) {
		name := nodeOf(node).Name
		klog.FromContext(ctx).Error(err, "The engine rejected a node as invalid: no pods are placed on it", "node", name)
		s.inventory.invalid[nodeSubject(name)] = struct{}{}
		if sent[name] {
			rejected = append(rejected, name)
		}
	})
	if err != nil {
		return fmt.Errorf("put %d nodes: %w", len(put), err)
	}
	for _, name := range rejected {
		if err := s.removeNode(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (s sender) removeNode(ctx context.Context, name string) error {
	err := s.call(ctx, func(ctx context.Context) error {
		return s.inventory.cfg.Engine.RemoveNode(ctx, s.epoch, name)
	})
	if err != nil {
		return fmt.Errorf("remove node %s: %w", name, err)
	}
	return nil
}

// book books holds in the engine.
func (s sender) book(ctx context.Context, holds []hold) error {
	for _, h := range holds {
		delete(s.inventory.invalid, slotSubject(h.slot.Key))
	}
	err := inBatches(holds, func(holds []hold) error {
		return s.call(ctx, func(ctx context.Context) error {
			return s.inventory.cfg.Engine.Update(ctx, s.epoch, jobsOf(holds)...)
		})
	}, func(h hold, err error) {
		klog.FromContext(ctx).Error(err, "The engine rejected the slot of a pod as invalid", "pod", s.inventory.podRef(h.slot.Key), "job", h.job, "key", h.slot.Key, "node", h.slot.Node)
		s.inventory.invalid[slotSubject(h.slot.Key)] = struct{}{}
	})
	if err != nil {
		return fmt.Errorf("book %d slots: %w", len(holds), err)
	}
	return nil
}

// release releases the slots that are no longer held.
func (s sender) release(ctx context.Context, deltas []holdDelta) error {
	var over []hold
	for _, d := range deltas {
		over = append(over, endedHolds(d.before, d.after)...)
	}
	for _, job := range jobsOf(over) {
		keys := make([]string, 0, len(job.Slots))
		for _, slot := range job.Slots {
			keys = append(keys, slot.Key)
		}
		err := s.call(ctx, func(ctx context.Context) error {
			return s.inventory.cfg.Engine.Release(ctx, s.epoch, job.ID, keys...)
		})
		if err != nil {
			return fmt.Errorf("release %d slots of job %d: %w", len(keys), job.ID, err)
		}
	}
	return nil
}

// probe checks whether the engine still has this epoch, by booking nothing.
func (s sender) probe(ctx context.Context) error {
	err := s.call(ctx, func(ctx context.Context) error { return s.inventory.cfg.Engine.Update(ctx, s.epoch) })
	if err != nil {
		return fmt.Errorf("probe the engine: %w", err)
	}
	return nil
}

// reserve books the reservations among jobs. One that the engine rejects is left out: its owner makes it anew.
func (s sender) reserve(ctx context.Context, jobs []match.Job) error {
	for _, job := range jobs {
		if !job.Reserved {
			continue
		}
		err := s.call(ctx, func(ctx context.Context) error { return s.inventory.cfg.Engine.Update(ctx, s.epoch, job) })
		switch {
		case errors.Is(err, match.ErrInvalid):
			klog.FromContext(ctx).Error(err, "The engine rejected a reservation as invalid", "job", job.ID)
		case err != nil:
			return fmt.Errorf("book a reservation: %w", err)
		}
	}
	return nil
}

// podRef returns, for log lines, the name of the pod that has this UID. It is empty if the pod is not bound.
func (i *Inventory) podRef(uid string) klog.ObjectRef {
	i.mu.Lock()
	defer i.mu.Unlock()
	if pod := i.pods[types.UID(uid)]; pod != nil {
		return klog.KObj(pod)
	}
	return klog.ObjectRef{}
}

func (s sender) call(ctx context.Context, f func(context.Context) error) error {
	return s.inventory.call(ctx, s.timeout, f)
}

// inBatches sends items in few calls. If the engine finds a batch invalid, its items are sent one
// by one, so that one invalid item does not block the others. rejected is called for the invalid
// item, which is sent again only after it has changed.
func inBatches[T any](items []T, send func([]T) error, rejected func(T, error)) error {
	for part := range slices.Chunk(items, batch) {
		err := send(part)
		if err == nil {
			continue
		}
		if !errors.Is(err, match.ErrInvalid) {
			return err
		}
		for _, item := range part {
			switch err := send([]T{item}); {
			case err == nil:
			case errors.Is(err, match.ErrInvalid):
				rejected(item, err)
			default:
				return err
			}
		}
	}
	return nil
}

// holdsAfter returns the holds after the deltas.
func holdsAfter(deltas []holdDelta) []hold {
	var holds []hold
	for _, d := range deltas {
		holds = append(holds, d.after...)
	}
	return holds
}

// holdsOf is the inverse of jobsOf. Reservations are left out.
func holdsOf(jobs []match.Job) []hold {
	var holds []hold
	for _, job := range jobs {
		if job.Reserved {
			continue
		}
		for _, slot := range job.Slots {
			holds = append(holds, hold{job: job.ID, slot: slot})
		}
	}
	return holds
}

// jobsOf collects slots by job, in the order in which they come.
func jobsOf(holds []hold) []match.Job {
	var jobs []match.Job
	at := map[match.JobID]int{}
	for _, h := range holds {
		n, ok := at[h.job]
		if !ok {
			n = len(jobs)
			at[h.job] = n
			jobs = append(jobs, match.Job{ID: h.job})
		}
		jobs[n].Slots = append(jobs[n].Slots, h.slot)
	}
	return jobs
}
