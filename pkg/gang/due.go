package gang

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// retryStep is the shortest time between two retries of groups of one namespace after their
	// RetryAfter. Each group may be refused once more, and that costs a scheduling cycle.
	retryStep = 50 * time.Millisecond
	// maxRetries is the largest number of groups of a namespace that retry at once.
	maxRetries = 64
)

// A pace limits how fast the groups of one namespace retry after their RetryAfter. It
// begins with one group at a time, grows by one with each match, and falls back to one
// when a group is refused with RetryAfter once more. This is slow start, as in TCP.
type pace struct {
	// last is when groups last retried.
	last time.Time
	// max is how many groups may retry at the next step.
	max int
}

// growPace records a match of a group of a namespace: one more group may retry at the next step.
func (r *registry) growPace(namespace string) {
	if p := r.paces[namespace]; p != nil {
		p.max = min(p.max+1, maxRetries)
	}
}

// resetPace records that a group of a namespace was refused
// with RetryAfter: the groups retry one at a time again.
func (r *registry) resetPace(namespace string) {
	if p := r.paces[namespace]; p != nil {
		p.max = 1
	}
}

// Due returns the groups with a refusal that has ended, and removes the
// refusal. It also returns when the next refusal ends. Zero means never.
//
// Groups whose refusals have RetryAfter are due in the order of the
// queue, as many at a time as the pace of their namespace allows. If any
// group is due, waiting replacements may be due too; see dueReplacements.
func (g Retries) Due(now time.Time) (keys []types.NamespacedName, next time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	byNamespace := map[string][]*backoff{} // by namespace, refusals with RetryAfter that have ended
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
	for namespace, ended := range byNamespace {
		for _, key := range g.retryNamespace(namespace, ended, now) {
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	for _, s := range groups {
		g.updateRetry(s)
	}
	next = g.retries.next()
	maps.DeleteFunc(g.paces, func(_ string, p *pace) bool { return !now.Before(p.last.Add(retryStep)) })
	if len(keys) > 0 {
		keys = append(keys, g.dueReplacements(keys)...)
	}
	return keys, next
}

// retryNamespace lets the first groups of a namespace by rank retry, as many as its pace allows:
// it removes their refusals, and returns their keys. It lets none retry if retryStep has
// not passed since the last time. The remaining refusals end at the next step.
func (g Retries) retryNamespace(namespace string, ended []*backoff, now time.Time) (keys []types.NamespacedName) {
	p := g.paces[namespace]
	if p == nil {
		p = &pace{max: 1}
		g.paces[namespace] = p
	}
	next := p.last.Add(retryStep)
	if !now.Before(next) {
		p.last, next = now, now.Add(retryStep)
		slices.SortFunc(ended, func(a, b *backoff) int { return a.refusal.rank.Compare(b.refusal.rank) })
		ended = slices.DeleteFunc(ended, func(b *backoff) bool {
			// Members that were refused together retry together.
			key := b.refusal.rank.Key
			if !slices.Contains(keys, key) {
				if len(keys) == p.max {
					return false
				}
				keys = append(keys, key)
			}
			b.refusal = nil
			return true
		})
	}
	for _, b := range ended {
		b.refusal.retryAt = next
	}
	return keys
}

// dueReplacements ends the pause of waiting replacements for which an event in
// RetryOn has already happened, and returns their groups without the groups in except.
// Replacements go before all other pods, so their pause ends when other groups retry.
func (g Retries) dueReplacements(except []types.NamespacedName) []types.NamespacedName {
	var keys []types.NamespacedName
	for _, s := range g.unassignedGroups {
		if !s.hasReplacements() || !s.endPause() {
			continue
		}
		if g.updateRetry(s); !slices.Contains(except, s.key) {
			keys = append(keys, s.key)
		}
	}
	return keys
}
