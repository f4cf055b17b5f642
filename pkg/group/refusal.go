package group

import "time"

// An Event is a kind of change that may help a group that was refused.
type Event int

const (
	// Freed: somebody gave resources back.
	Freed Event = iota
	// NodeChanged: a node came, went or changed.
	NodeChanged
	// PodChanged: a pod came to a node or left one, which filters between pods
	// take note of.
	PodChanged
	// StorageChanged: a volume, a claim or a storage class changed.
	StorageChanged
	// MatcherBack: the engine answers again, or has a new graph.
	MatcherBack

	numEvents
)

// Any lists all events.
func Any() []Event {
	return []Event{Freed, NodeChanged, PodChanged, StorageChanged, MatcherBack}
}

// A Refusal is a "no" to a group, or to a member of a started one.
type Refusal struct {
	// Reason is one word for machines, Message the sentence for people.
	Reason  string
	Message string
	// Until lists the events after which asking again makes sense.
	Until []Event
	// Backoff also lets the group ask again after a while that doubles with each
	// refusal in a row. It is for refusals that no event is sure to follow.
	Backoff bool
}

// The shortest and the longest time of a Refusal's Backoff.
const (
	minBackoff = time.Second
	maxBackoff = time.Minute
)

// refusal is a Refusal in memory.
type refusal struct {
	Refusal
	// retryAt is zero where only an event helps.
	retryAt time.Time
}

func (r *refusal) standsAt(now time.Time) bool {
	return r != nil && (r.retryAt.IsZero() || now.Before(r.retryAt))
}

func (r *refusal) endsBy(ev Event) bool {
	if r == nil {
		return false
	}
	for _, u := range r.Until {
		if u == ev {
			return true
		}
	}
	return false
}

func newRefusal(r Refusal, failures int, now time.Time) *refusal {
	mem := &refusal{Refusal: r}
	if r.Backoff {
		mem.retryAt = now.Add(min(maxBackoff, minBackoff<<min(failures, 10)))
	}
	return mem
}

// forgive lets a group ask again.
func (s *state) forgive() {
	s.refusal = nil
	for _, m := range s.members {
		m.refusal = nil
	}
}

// Happened takes note of an event and reports whether it lets a group ask again.
func (g *Groups) Happened(ev Event) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.events[ev]++
	changed := false
	for _, s := range g.unseated {
		if s.refusal.endsBy(ev) {
			s.refusal = nil
			changed = true
		}
		for _, m := range s.members {
			if m.refusal.endsBy(ev) {
				m.refusal = nil
				changed = true
			}
		}
	}
	return changed
}
