package inventory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/match"
)

const (
	// minPage is the least number of nodes on a page. A small page costs little CPU time
	// at rest, also where each node has a hundred pods.
	minPage = 16
	// maxSuspects bounds the differences that are watched at a time, and so what a
	// look costs; further ones are met again in the next round.
	maxSuspects = 256
	// maxHeals is how often one difference is healed before the graph is filled
	// anew.
	maxHeals = 3
	// restFactor is how much longer than a look the time until the next one is: an engine
	// that is slow has other things to do first.
	restFactor = 4
)

// An audit compares an engine in one epoch with the cluster, page by page and
// round by round. The cluster is what the informers' stores say, not what the
// inventory has noted of it: an event that was lost shows too.
//
// A difference is suspect first. Each look looks at all suspects again, and only
// one that was the same at each for as long as anything can be on its way is a
// Drift, which is told and healed.
type audit struct {
	sender
	next     string // where the next page begins
	suspects map[subject]*suspect
	lastPage time.Time // when the last look was over
	// failed says that the last look could not be had, and rests until when there is
	// no other.
	failed     bool
	restsUntil time.Time
}

// A suspect is a difference that may pass.
type suspect struct {
	finding
	// lasted is for how long it was the same, between looks that were not further
	// apart than they should be.
	lasted time.Duration
	heals  int
	// wasReleasing says that it was being given back when the last look began.
	wasReleasing bool
}

// newAudit goes on where the one of the epoch before was: where epochs are short,
// the last nodes have their turn too.
func newAudit(s sender) *audit {
	return &audit{sender: s, next: s.inventory.auditNext, suspects: map[subject]*suspect{}}
}

// comparePage compares the next page. An error means that the engine is to be filled
// anew.
func (a *audit) comparePage(ctx context.Context) error {
	start := time.Now()
	if start.Before(a.restsUntil) {
		return nil
	}
	// What is given back while the engine is listed is in the list, and no longer
	// about to be given back.
	for _, s := range a.suspects {
		s.wasReleasing = a.inventory.isReleasing(s)
	}
	v, nodes, err := a.readPage(ctx)
	a.restsUntil = time.Now().Add(restFactor * time.Since(start))
	switch {
	case errors.Is(err, match.ErrStale), ctx.Err() != nil:
		return err
	case err != nil:
		return a.rest(ctx, err)
	}
	a.failed = false
	if err := a.judge(ctx, v, start); err != nil {
		return err
	}
	a.inventory.cfg.OnAudit(nodes, v.last)
	return nil
}

// rest puts the next look off, where the engine is there and cannot be listed. It
// says so once.
func (a *audit) rest(ctx context.Context, why error) error {
	if err := a.probe(ctx); err != nil {
		return err
	}
	if !a.failed {
		klog.FromContext(ctx).Error(why, "The engine cannot be compared with the cluster")
	}
	a.failed = true
	a.restsUntil = time.Now().Add(a.inventory.cfg.Settle)
	return nil
}

// readPage takes down both sides of the next page, on which there are this many
// nodes, and of the suspects.
func (a *audit) readPage(ctx context.Context) (v *comparison, listed int, err error) {
	cfg := &a.inventory.cfg
	nodes := cfg.Nodes.GetStore().List()
	limit := int((int64(len(nodes))*int64(cfg.AuditEvery) + int64(cfg.AuditRound) - 1) / int64(cfg.AuditRound))
	limit = min(max(limit, minPage), match.MaxNodesPerPage)
	page, err := a.list(ctx, a.next, limit)
	if err != nil {
		return nil, 0, err
	}
	v = &comparison{
		from: a.next, last: len(page) < limit, extraNodes: map[string]bool{},
		nodes: make(map[string]*nodeSides, limit), slots: map[string]*slotSides{},
	}
	a.next = ""
	if !v.last {
		v.to = page[limit-1].Name
		a.next = v.to + "\x00" // the name that comes next after it
	}
	a.inventory.auditNext = a.next
	v.showEngine(page, cfg.Levels)
	if err := a.readSuspects(ctx, v); err != nil {
		return nil, 0, err
	}
	v.showNodes(nodes, cfg.Levels)
	v.showPods(cfg.Pods.GetStore().List(), a.inventory.holdOf)
	v.showSources(cfg.Sources, cfg.Levels)
	return v, len(page), nil
}

// readSuspects adds what the engine has of the suspects that are not on the page, of
// as many as half the time of a call allows. The others are left for later looks.
func (a *audit) readSuspects(ctx context.Context, v *comparison) error {
	all, cancel := context.WithTimeout(ctx, a.timeout/2)
	defer cancel()
	for _, s := range a.suspects {
		for _, name := range s.nodes {
			if v.covers(name) {
				continue
			}
			nodes, err := a.list(all, name, 1)
			switch {
			case err != nil && ctx.Err() == nil && all.Err() != nil:
				return nil
			case err != nil:
				return err
			}
			v.extraNodes[name] = true
			if len(nodes) == 1 && nodes[0].Name == name {
				v.showEngine(nodes, a.inventory.cfg.Levels)
			}
		}
	}
	return nil
}

// list lists nodes in half the time that a call has: an engine that does not
// answer is soon to be known as such.
func (a *audit) list(ctx context.Context, from string, limit int) (nodes []match.Node, err error) {
	err = a.inventory.call(ctx, a.timeout/2, func(ctx context.Context) error {
		nodes, err = a.inventory.cfg.Engine.Nodes(ctx, a.epoch, from, limit)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list nodes from %q on: %w", from, err)
	}
	return nodes, nil
}
