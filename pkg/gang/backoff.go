package gang

import "time"

// A backoff is what is remembered of the refusals of a group, or of a late member.
type backoff struct {
	// refusal is the last one, nil once it has run out.
	refusal *activeRefusal
	// failures counts the refusals with Backoff since the group last started or the member last
	// asked for something else, and refused those in a row since the last match. Hard says that
	// one of the former was.
	failures       int
	refusalCount   int
	hadLongBackoff bool
}

// refuse takes note of a refusal of the pod that has this rank.
func (b *backoff) refuse(r Refusal, rank Rank, now time.Time) *activeRefusal {
	b.refusal = newActiveRefusal(r, b.failures, b.refusalCount, now)
	b.refusal.rank = rank
	b.refusalCount++
	if b.hadLongBackoff = b.hadLongBackoff || r.LongBackoff; r.Backoff {
		b.failures++
	}
	return b.refusal
}

func (b *backoff) reset() { b.refusal, b.failures, b.hadLongBackoff = b.refusal.ifTimed(), 0, false }

func (b *backoff) requestChanged() {
	b.refusal = b.refusal.ifTimedOrLong()
	if !b.hadLongBackoff {
		b.failures = 0
	}
}

// backoffs yields what is remembered of the refusals of a group and of its members.
func (s *groupState) backoffs(yield func(*backoff) bool) {
	if !yield(&s.backoff) {
		return
	}
	for _, m := range s.members {
		if !yield(&m.backoff) {
			return
		}
	}
}

// clearRefusals lets a group ask again, as one that was never refused. One that was told when to ask
// again was so for the sake of others: it waits until then.
func (s *groupState) clearRefusals() {
	for b := range s.backoffs {
		b.reset()
	}
}

// requestChanged lets a group ask again whose request may be another one now, as forgive does; but one
// that was too hard only as changed does, and as often as it was refused.
func (s *groupState) requestChanged() {
	s.podsChanged()
	for b := range s.backoffs {
		b.requestChanged()
	}
}

// podsChanged lets a group ask again of other pods than before, once that is no more than the pause
// after its refusal allows: to find out whether the answer is still the same would take as much work
// as to ask.
func (s *groupState) podsChanged() {
	s.refusal.requestChanged()
	for _, m := range s.members {
		if m.refusal != nil && m.refusal.LongBackoff {
			m.refusal.requestChanged()
		}
	}
}
