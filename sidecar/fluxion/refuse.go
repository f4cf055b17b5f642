package fluxion

import (
	"errors"
	"fmt"

	"github.com/flux-k8s/fluence/pkg/match"
)

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
	return &match.Refusal{Err: match.ErrBusy, Reason: reason}
}
