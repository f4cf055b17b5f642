package gang

import "k8s.io/apimachinery/pkg/types"

// Retries says when a group that was refused may ask again. It is told of the events that may help.
type Retries struct{ *core }

// ObserveEvent takes note of an event, which lets groups ask again. Due tells when.
func (g Retries) ObserveEvent(ev Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.events[ev]++
	if ev == NodeChanged {
		g.hastenYielders()
	}
	for s := range g.helpedBy(ev) {
		for b := range s.backoffs {
			b.refusal.observe(ev)
		}
		g.updateRetry(s)
	}
}

// ExpireBackoff forgets the refusals of a group that run out by themselves, as if they had. It
// says whether there were any.
func (g Retries) ExpireBackoff(key types.NamespacedName) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	s, any := g.groups[key], false
	if s == nil {
		return false
	}
	for b := range s.backoffs {
		if b.refusal != nil && b.refusal.Backoff {
			b.refusal, any = nil, true
		}
	}
	g.updateRetry(s)
	return any
}

// RetryNow lets a group ask that was refused for want of room, as if that had changed, or that was
// to ask after a while.
func (g Retries) RetryNow(key types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.groups[key]; s != nil && s.refusal != nil && (s.refusal.WaitsFor == WaitsForRoom || s.refusal.RetryAfter > 0) {
		s.refusal = nil
		g.updateRetry(s)
	}
}
