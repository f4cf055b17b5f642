package fluxion

import (
	"errors"
	"fmt"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
)

// restateShortages changes the shortages of a request in whole granules to what was requested and to
// what the library can give out. The wanted amounts become the amounts of the request. The available
// amounts are whole granules. So what is available is less than what is wanted wherever it is too little.
func (g *granules) restateShortages(reason *match.Reason, requested *jobspec.Jobspec) {
	for i := range reason.Shortages {
		x := &reason.Shortages[i]
		wanted := int64(0)
		for _, slot := range requested.Resources {
			if slot.Label != reason.Slot {
				continue
			}
			for _, w := range slot.With {
				if w.Type == x.Type {
					wanted = plus(wanted, w.Count.Min)
				}
			}
		}
		if wanted > 0 {
			size := g.sizeOf(x.Type, x.Unit)
			x.Wanted, x.MaxOnNode = wanted, x.MaxOnNode/size*size
		}
	}
}

// refusal returns the error for a request that fits in exact
// amounts (the shadow), but not in whole units (the library).
func (p *attempt) refusal(err error) error {
	if !errors.Is(err, errNoRoom) {
		return fmt.Errorf("match job %d: %w", p.request.ID, err)
	}
	s := p.shape(0)
	reason := match.Reason{
		Code: match.NotFound, Slot: s.label, Level: "cluster", Wanted: s.count.Min, WaitingHelps: true,
	}
	for _, h := range p.engine.hosts {
		switch {
		case h.node == nil:
			continue
		case !p.engine.usable(h.node):
			reason.Down++
		case p.allowed(s, h, true):
			reason.Found = plus(reason.Found, max(0, h.capacity(s.units)))
		}
		reason.Nodes++
	}
	if reason.Found < reason.Wanted {
		reason.Code = match.TooFew
	}
	reason.Found = min(reason.Found, reason.Wanted)
	if p.request.Terse {
		reason = reason.Terse()
	}
	return &match.Refusal{Err: match.ErrBusy, Reason: reason}
}
