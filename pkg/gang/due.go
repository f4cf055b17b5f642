package gang

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// retryStep is the least time between two returns of groups of one namespace whose time to
	// ask again has come. Each group may be refused once more, which costs a scheduling cycle.
	retryStep = 50 * time.Millisecond
	// mostReturns bounds how many groups of a namespace return at once.
	mostReturns = 64
)

// A pace limits how fast groups of one namespace return. It starts with one group at a time, grows
// with each match and falls back to one with each group that is told to wait once more: what slow
// start is to TCP.
type pace struct {
	// last is when groups last returned.
	last time.Time
	// most is how many groups may return at the next step.
	most int
}

// matched lets one more group of a namespace return at the next step.
func (r *registry) matched(namespace string) {
	if p := r.lastRetry[namespace]; p != nil {
		p.most = min(p.most+1, mostReturns)
	}
}

// toldToWait has the groups of a namespace return one at a time again.
func (r *registry) toldToWait(namespace string) {
	if p := r.lastRetry[namespace]; p != nil {
		p.most = 1
	}
}

// Due lists the groups with a refusal that has run out, and forgets it. Next is
// when the next one does; zero is never. The groups of a namespace that were told when to ask again
// are due in the order of the queue, as many at a time as its pace allows.
func (g Retries) Due(now time.Time) (keys []types.NamespacedName, next time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	byNamespace := map[string][]*backoff{} // by namespace, what said when to ask again and has run out
	groups := g.retries.due(now)
	for _, s := range groups {
		due := false
		for b := range s.backoffs {
			switch r := b.refusal; {
			case r == nil, r.isActive(now):
			case r.RetryAfter > 0:
				byNamespace[s.key.Namespace] = append(byNamespace[s.key.Namespace], b)
			default:
				b.refusal, due = nil, true
			}
		}
		if due {
			keys = append(keys, s.key)
		}
	}
	for namespace, of := range byNamespace {
		for _, key := range g.retryOne(namespace, of, now) {
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	for _, s := range groups {
		g.updateRetry(s)
	}
	next = g.retries.next()
	maps.DeleteFunc(g.lastRetry, func(_ string, p *pace) bool { return !now.Before(p.last.Add(retryStep)) })
	if len(keys) > 0 {
		keys = append(keys, g.dueReplacements(keys)...)
	}
	return keys, next
}

// retryOne lets refusals run out that said when to ask again: those of the first groups by rank, if
// enough time has passed since others of the namespace returned. The remaining groups wait for the
// next step.
func (g Retries) retryOne(namespace string, of []*backoff, now time.Time) (keys []types.NamespacedName) {
	p := g.lastRetry[namespace]
	if p == nil {
		p = &pace{most: 1}
		g.lastRetry[namespace] = p
	}
	next := p.last.Add(retryStep)
	if !now.Before(next) {
		p.last, next = now, now.Add(retryStep)
		slices.SortFunc(of, func(a, b *backoff) int { return a.refusal.rank.Compare(b.refusal.rank) })
		of = slices.DeleteFunc(of, func(b *backoff) bool {
			// Members that were refused together ask together.
			key := b.refusal.rank.Key
			if !slices.Contains(keys, key) {
				if len(keys) == p.most {
					return false
				}
				keys = append(keys, key)
			}
			b.refusal = nil
			return true
		})
	}
	for _, b := range of {
		b.refusal.retryAt = next
	}
	return keys
}

// dueReplacements lists more groups that may ask, before those that may: who replaces what
// they lack goes before all others, so where an event helps both they do not wait for
// the end of their pause.
func (g Retries) dueReplacements(but []types.NamespacedName) []types.NamespacedName {
	var keys []types.NamespacedName
	for _, s := range g.unassignedGroups {
		if !s.hasReplacements() || !s.endPause() {
			continue
		}
		if g.updateRetry(s); !slices.Contains(but, s.key) {
			keys = append(keys, s.key)
		}
	}
	return keys
}
