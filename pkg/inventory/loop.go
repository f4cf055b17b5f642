package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/match"
)

const (
	// minRetryBackoff is the pause before an engine that was lost is tried again. The pause doubles
	// each time, up to maxRetryBackoff.
	minRetryBackoff = 50 * time.Millisecond
	maxRetryBackoff = 500 * time.Millisecond
	// probeEvery is the time between two probes of whether the engine still has the graph. In a
	// cluster without changes no other call would notice that the graph is gone.
	probeEvery = 250 * time.Millisecond
	// checkReadyEvery is the time after which the engine is asked again whether it could load the
	// latest graph.
	checkReadyEvery = 2 * time.Second
	// loadingPoll is the time after which an engine that is loading the graph is asked again.
	loadingPoll = 100 * time.Millisecond
	// batch bounds the nodes, and the slots, of one call,
	// and so its duration and the size of its message.
	batch = 256
	// loadFactor is the timeout of a call of load, in multiples of the usual timeout.
	loadFactor = 5
)

// loop loads the graph and keeps it up to date until ctx ends. After every error it begins again.
func (i *Inventory) loop(ctx context.Context) {
	logger := klog.FromContext(ctx)
	outage, pause := outageLog{}, minRetryBackoff
	for {
		e, err := i.load(ctx)
		if err == nil {
			outage, pause = outageLog{}, minRetryBackoff
			err = i.sendChanges(ctx, e)
			i.setEpoch(0, Change{Kind: Lost})
		}
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, match.ErrStale) && e != 0 {
			logger.Info("The engine has another epoch although it kept answering: it was restarted, or another scheduler resets it", "lostEpoch", e)
		}
		i.noteFailure(err)
		logger.V(outage.verbosity(err)).Info("The engine cannot be kept up to date: its graph will be loaded again", "retryAfter", pause, "reason", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, maxRetryBackoff)
	}
}

// load begins an epoch, loads all known nodes and slots into the graph, and makes it ready for
// matches. Changes that come in the meantime are sent by sendChanges.
func (i *Inventory) load(ctx context.Context) (match.Epoch, error) {
	start := time.Now()
	var e match.Epoch
	err := i.call(ctx, i.cfg.Timeout, func(ctx context.Context) (err error) {
		e, err = i.cfg.Engine.Reset(ctx)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("reset the engine: %w", err)
	}

	i.recheck()
	clear(i.invalid)
	i.mu.Lock()
	nodes, holds := i.nodes.restart(), i.holds.restart()
	i.mu.Unlock()

	s := sender{inventory: i, epoch: e, timeout: loadFactor * i.cfg.Timeout}
	for left := nodes; left > 0; left -= min(left, batch) {
		if err := s.send(ctx, i.takeNodes(min(left, batch)), nil); err != nil {
			return 0, err
		}
	}
	for _, source := range i.cfg.Sources {
		jobs := source.Jobs()
		if err := s.book(ctx, holdsOf(jobs)); err != nil {
			return 0, err
		}
		if err := s.reserve(ctx, jobs); err != nil {
			return 0, err
		}
	}
	for left := holds; left > 0; left -= min(left, batch) {
		if err := s.send(ctx, nil, i.takeHolds(min(left, batch))); err != nil {
			return 0, err
		}
	}
	if err := i.makeReady(ctx, s.timeout, e); err != nil {
		return 0, fmt.Errorf("make the engine ready for requests: %w", err)
	}
	klog.FromContext(ctx).Info("Loaded the graph", "nodes", nodes, "pods", holds, "epoch", e, "took", time.Since(start))
	i.setEpoch(e, Change{Kind: Loaded})
	return e, nil
}

// makeReady makes the engine ready for matches. An engine that answers that it is loading the graph is
// asked again, however long that takes: it would begin from the start if the graph were sent again.
func (i *Inventory) makeReady(ctx context.Context, timeout time.Duration, e match.Epoch) error {
	for verbosity := 0; ; verbosity = 4 {
		err := i.call(ctx, timeout, func(ctx context.Context) error { return i.cfg.Engine.Ready(ctx, e) })
		if !errors.Is(err, match.ErrLoading) {
			return err
		}
		klog.FromContext(ctx).V(verbosity).Info("The engine is loading the graph; groups wait until it is loaded", "epoch", e)
		timer := time.NewTimer(loadingPoll)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// sendChanges sends all changes, until the engine fails or ctx ends.
func (i *Inventory) sendChanges(ctx context.Context, e match.Epoch) error {
	s := sender{inventory: i, epoch: e, timeout: i.cfg.Timeout}
	audit := newAudit(s)
	page, probe, check := time.Now().Add(i.cfg.AuditEvery), time.Now().Add(probeEvery), time.Now().Add(checkReadyEvery)
	failures := outageLog{}
	for {
		if now := time.Now(); !now.Before(page) { // also while there is much to send
			page = now.Add(i.cfg.AuditEvery)
			if err := audit.comparePage(ctx); err != nil {
				return err
			}
		}
		i.recheck()
		nodes, holds := i.takeNodes(batch), i.takeHolds(batch)
		if len(nodes)+len(holds) > 0 {
			if err := s.send(ctx, nodes, holds); err != nil {
				return err
			}
			klog.FromContext(ctx).V(4).Info("Brought the engine up to date", "nodes", len(nodes), "pods", len(holds))
			i.publish(changesOf(nodes, holds)...)
			continue
		}
		asked, err := i.idle(ctx, slices.MinFunc([]time.Time{page, probe}, time.Time.Compare))
		if err != nil {
			return err
		}
		if now := time.Now(); !now.Before(probe) {
			probe, asked = now.Add(probeEvery), true
		}
		if !asked {
			continue
		}
		if err := s.probe(ctx); err != nil {
			return err
		}
		if now := time.Now(); !now.Before(check) {
			check = now.Add(checkReadyEvery)
			if err := s.checkReady(ctx, failures); err != nil {
				return err
			}
		}
	}
}

// idle waits until there is something to send, or until a time. asked
// is true if Resync was called. It returns an error if ctx has ended.
//
// It makes a timer for each wait, not one ticker. In tests with synctest a due ticker is executed
// by the goroutine that reads it, and the race detector crashes if two goroutines do this at the
// same time.
func (i *Inventory) idle(ctx context.Context, until time.Time) (asked bool, err error) {
	left := time.Until(until)
	if left <= 0 {
		return false, ctx.Err()
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-i.check:
		return true, nil
	case <-i.wake:
	case <-timer.C:
	}
	return false, nil
}

func (i *Inventory) takeNodes(n int) []nodeDelta {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.nodes.take(n)
}

func (i *Inventory) takeHolds(n int) []holdDelta {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.holds.take(n)
}

// setEpoch publishes a change together with the epoch that follows it.
func (i *Inventory) setEpoch(e match.Epoch, c Change) {
	i.mu.Lock()
	i.epoch, i.why = e, ""
	i.mu.Unlock()
	i.publish(c)
}

// publish counts changes and calls OnChange with each.
func (i *Inventory) publish(changes ...Change) {
	for _, c := range changes {
		i.mu.Lock()
		i.generation++
		c.Generation = i.generation
		i.mu.Unlock()
		i.cfg.OnChange(c)
	}
}

// call bounds one call of the engine.
func (i *Inventory) call(ctx context.Context, timeout time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return f(ctx)
}
