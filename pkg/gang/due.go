package gang

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// returnStep is the least time between two groups of a namespace that ask again since the time is
// over that they were told: each of them may be refused once more, and costs a scheduling cycle.
const returnStep = 50 * time.Millisecond

// Due lists the groups with a refusal that has run out, and forgets it. Next is
// when the next one does; zero is never. Of the groups of a namespace that were told when to ask
// again one is due at a time, in the order of the queue.
func (g Retries) Due(now time.Time) (keys []types.NamespacedName, next time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	told := map[string][]*backoff{} // by namespace, what said when to ask again and has run out
	groups := g.retries.due(now)
	for _, s := range groups {
		due := false
		for b := range s.backoffs {
			switch r := b.refusal; {
			case r == nil, r.standsAt(now):
			case r.After > 0:
				told[s.key.Namespace] = append(told[s.key.Namespace], b)
			default:
				b.refusal, due = nil, true
			}
		}
		if due {
			keys = append(keys, s.key)
		}
	}
	for namespace, of := range told {
		if key, ok := g.returns(namespace, of, now); ok && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	for _, s := range groups {
		g.await(s)
	}
	next = g.retries.next()
	maps.DeleteFunc(g.returned, func(_ string, at time.Time) bool { return !now.Before(at.Add(returnStep)) })
	if len(keys) > 0 {
		keys = append(keys, g.lackingOnes(keys)...)
	}
	return keys, next
}

// returns lets the refusals of one group run out that said when to ask again, of the first by rank,
// if the one before it in the namespace returned long enough ago. The others wait until one may again.
func (g Retries) returns(namespace string, of []*backoff, now time.Time) (key types.NamespacedName, ok bool) {
	var again time.Time
	last, lately := g.returned[namespace]
	if next := last.Add(returnStep); lately && now.Before(next) {
		again = next
	} else {
		ok, again = true, now.Add(returnStep)
		g.returned[namespace] = now
		first := of[0]
		for _, b := range of {
			if b.refusal.rank.Less(first.refusal.rank) {
				first = b
			}
		}
		key = first.refusal.rank.Key
		// Members that were refused together ask together.
		of = slices.DeleteFunc(of, func(b *backoff) bool {
			is := b.refusal.rank.Key == key
			if is {
				b.refusal = nil
			}
			return is
		})
	}
	for _, b := range of {
		b.refusal.retryAt = again
	}
	return key, ok
}

// lackingOnes lists more groups that may ask, before those that may: who replaces what
// they lack goes before all others, so where an event helps both they do not wait for
// the end of their pause.
func (g Retries) lackingOnes(but []types.NamespacedName) []types.NamespacedName {
	var keys []types.NamespacedName
	for _, s := range g.unseated {
		if !s.isReplaced() || !s.endPause() {
			continue
		}
		if g.await(s); !slices.Contains(but, s.key) {
			keys = append(keys, s.key)
		}
	}
	return keys
}
