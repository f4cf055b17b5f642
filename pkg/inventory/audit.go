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
	// minPage is the smallest number of nodes on a page. A page of this size takes little CPU time
	// in an idle cluster, even if each node has a hundred pods.
	minPage = 16
	// maxSuspects bounds the differences that are watched at a time, and so
	// the cost of a page. Further ones are found again in the next round.
	maxSuspects = 256
	// maxRepairs is the number of times that one difference is repaired before the graph is loaded
	// again.
	maxRepairs = 3
	// restFactor is the pause of the audit after a page, in multiples of the time that the page
	// took. So audits do not keep a slow engine busy.
	restFactor = 4
)

// An audit compares an engine in one epoch with the cluster, page by page and round by round. It
// reads the cluster from the informers' stores, not from the records of the inventory, so that it
// also finds events that were lost.
//
// A difference is a suspect first. Each page checks all suspects again. A suspect that stays the
// same for as long as a call or an event can take is a Drift: it is reported and repaired.
type audit struct {
	sender
	next     string // where the next page begins
	suspects map[subject]*suspect
	lastPage time.Time // when the last page was compared
	// failed is true if the engine could not be listed the last time.
	failed     bool
	restsUntil time.Time
}

// A suspect is a difference that may still disappear by itself.
type suspect struct {
	finding
	// lasted is the time for which the difference has been the same. The time between two pages
	// counts as at most AuditEvery.
	lasted  time.Duration
	repairs int
	// wasReleasing is true if the slot was being released when the last page began.
	wasReleasing bool
}

// newAudit returns an audit that begins where the audit of the epoch before
// stopped, so that the last nodes in order of name are compared even if epochs are short.
func newAudit(s sender) *audit {
	return &audit{sender: s, next: s.inventory.auditNext, suspects: map[subject]*suspect{}}
}

// comparePage compares the next page. An error means that the graph must be loaded again.
func (a *audit) comparePage(ctx context.Context) error {
	start := time.Now()
	if start.Before(a.restsUntil) {
		return nil
	}
	// A slot that is released while the engine is being listed is still in the
	// list, but isReleasing no longer reports it. So isReleasing is called before.
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
	if err := a.updateSuspects(ctx, v, start); err != nil {
		return err
	}
	a.inventory.cfg.OnAudit(nodes, v.last)
	return nil
}

// rest delays the next page if the engine answers but cannot be listed. It logs this once.
func (a *audit) rest(ctx context.Context, why error) error {
	if err := a.probe(ctx); err != nil {
		return err
	}
	if !a.failed {
		klog.FromContext(ctx).Error(why, "The engine cannot be compared with the cluster", "retryAfter", a.inventory.cfg.DriftAfter)
	}
	a.failed = true
	a.restsUntil = time.Now().Add(a.inventory.cfg.DriftAfter)
	return nil
}

// readPage reads the next page and the nodes of the suspects, from the
// engine and from the cluster. listed is the number of nodes on the page.
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
		a.next = v.to + "\x00" // the first name after it
	}
	a.inventory.auditNext = a.next
	v.addEngineNodes(page, cfg.Levels)
	if err := a.readSuspects(ctx, v); err != nil {
		return nil, 0, err
	}
	v.addClusterNodes(nodes, cfg.Levels)
	if err := v.addPods(cfg.Pods.GetIndexer(), a.inventory.holdOf); err != nil {
		return nil, 0, err
	}
	v.addSources(cfg.Sources, cfg.Levels)
	return v, len(page), nil
}

// readSuspects lists the nodes of the suspects that are not on the page. It stops after half the
// timeout of a call. The nodes that are left are read with later pages.
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
				v.addEngineNodes(nodes, a.inventory.cfg.Levels)
			}
		}
	}
	return nil
}

// list returns one page of nodes, as Engine.Nodes does. Its timeout is half the timeout
// of other calls. So the audit notices soon that an engine does not answer.
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
