package gang

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// retryStep is the shortest time between two retries of groups of one throttled
	// namespace. Each group may be throttled once more, and that costs a scheduling cycle.
	retryStep = 50 * time.Millisecond
	// maxRetries is the largest number of groups of a throttled namespace that retry at once.
	maxRetries = 64
)

// A retryPace limits how fast the groups of one throttled namespace retry. A namespace is
// throttled while one of its groups waits for its RetryAfter. The pace begins with one group
// at a time, grows by one with each attempt, whether it finds nodes or not, and falls back
// to one when a group is refused with RetryAfter once more. This is slow start, as in TCP.
type retryPace struct {
	// until is when the last RetryAfter of the namespace's groups ends.
	until time.Time
	// last is when groups last retried.
	last time.Time
	// max is how many groups may retry at the next step.
	max int
	// oldestAttempt says that the next group to retry is the one whose last attempt was the
	// longest ago. Otherwise it is the first by rank.
	oldestAttempt bool
}

// throttle records that a group of a namespace was refused with
// RetryAfter until a time. The groups retry one at a time again.
func (r *registry) throttle(namespace string, until time.Time) {
	p := r.retryPaces[namespace]
	if p == nil {
		p = &retryPace{}
		r.retryPaces[namespace] = p
	}
	p.until, p.max = later(p.until, until), 1
}

// growRetryPace records an attempt of a group of a namespace: one more group may retry at the next step.
func (r *registry) growRetryPace(namespace string) {
	if p := r.retryPaces[namespace]; p != nil {
		p.max = min(p.max+1, maxRetries)
	}
}

// hasEnded reports whether the namespace is no longer throttled.
func (p *retryPace) hasEnded(now time.Time) bool {
	return !now.Before(p.until) && !now.Before(p.last.Add(retryStep))
}

// Due returns the groups with a refusal that has ended, and removes the
// refusal. It also returns when the next refusal ends. Zero means never.
//
// Of the groups of a throttled namespace, only as many are due as its pace allows,
// whatever they were refused for. If any group is due, waiting
// replacements may be due too; see dueReplacements.
func (g Retries) Due(now time.Time) (keys []types.NamespacedName, next time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	paced := map[string][]retry{} // by namespace, the refusals that have ended
	g.endScouting(now)
	g.takeTurns(now)
	g.pauses.forget(now)
	groups := g.retries.due(now)
	for _, s := range groups {
		p, due := g.retryPaces[s.key.Namespace], false
		for b := range s.refusalStates {
			switch {
			case b.refusal == nil, b.refusal.isActive(now):
			case p != nil:
				paced[s.key.Namespace] = append(paced[s.key.Namespace], retry{b, s})
			case g.pauses.waitForOthers(b.refusal):
			default:
				due = true
				endRefusal(s, b, now)
			}
		}
		if due {
			keys = append(keys, s.key)
		}
	}
	for namespace, ended := range paced {
		keys = append(keys, g.retryPaces[namespace].retry(ended, now)...)
	}
	for _, s := range groups {
		g.updateRetry(s)
	}
	next = g.retries.next()
	maps.DeleteFunc(g.retryPaces, func(_ string, p *retryPace) bool { return p.hasEnded(now) })
	if len(keys) > 0 {
		keys = append(keys, g.dueReplacements(keys)...)
	}
	return keys, next
}

// A retry is a refusal that has ended, of a group or of one of its members.
type retry struct {
	*refusalState
	group *groupState
}

func (r retry) compareRank(other retry) int { return r.refusal.rank.Compare(other.refusal.rank) }

// compareAttempt orders by the group's last attempt. A group that was never tried is the first.
func (r retry) compareAttempt(other retry) int {
	return cmp.Or(r.group.lastRefusedAttempt.Compare(other.group.lastRefusedAttempt), r.compareRank(other))
}

// retry lets groups of a namespace retry, as many as its pace allows: it removes their refusals,
// and returns their keys. It lets none retry if retryStep has not passed since the last time. The
// remaining refusals end at the next step.
//
// Every second group is the first by rank. The others are those whose last attempt was the longest
// ago. By rank alone, a new group that fits would wait for ever behind older groups
// that do not fit and that events let retry again and again.
func (p *retryPace) retry(ended []retry, now time.Time) (keys []types.NamespacedName) {
	next := p.last.Add(retryStep)
	if !now.Before(next) {
		p.last, next = now, now.Add(retryStep)
		for len(keys) < p.max && len(ended) > 0 {
			order := retry.compareRank
			if p.oldestAttempt {
				order = retry.compareAttempt
			}
			p.oldestAttempt = !p.oldestAttempt
			key := slices.MinFunc(ended, order).group.key
			keys = append(keys, key)
			// Members that were refused together retry together.
			ended = slices.DeleteFunc(ended, func(r retry) bool {
				if r.group.key != key {
					return false
				}
				endRefusal(r.group, r.refusalState, now)
				return true
			})
		}
	}
	for _, r := range ended {
		r.refusal.retryAt = next
		p.until = later(p.until, next)
	}
	return keys
}

// dueReplacements ends the pause of waiting replacements for which an event in
// RetryOn has already happened, and returns their groups without the groups in except.
// Replacements go before all other pods, so their pause ends when other groups retry.
func (g Retries) dueReplacements(except []types.NamespacedName) []types.NamespacedName {
	var keys []types.NamespacedName
	for _, s := range g.replacementGroups {
		if !s.hasReplacements() || !s.endPause() {
			continue
		}
		if g.updateRetry(s); !slices.Contains(except, s.key) {
			keys = append(keys, s.key)
		}
	}
	return keys
}
