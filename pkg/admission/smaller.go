package admission

import (
	"slices"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/queue"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// If a small request does not fit, a larger one does not fit either. So the matcher is not asked for the larger one: with many classes
// the questions would take longer than a pass has.

// A smaller remembers which requests the matcher has refused for room in this pass, while no room has become free.
type smaller struct {
	refused []refusedRequest
	// said is what the matcher last answered a class of which it is known that the class fits its nodes if all others have ended, by class
	// and partition. Without that a refusal would hide that a job never fits.
	said map[setKey]string
}

// A refusedRequest is a request that was refused for room.
type refusedRequest struct {
	class *class
	set   *hostSet
	// duration is 0 if the job has no end.
	duration time.Duration
	ignore   []match.JobID
}

// maxSaid bounds the classes of which answers are remembered.
const maxSaid = 1 << 16

// forgetRefusals is to be called when room may have become free.
func (s *smaller) forgetRefusals() { s.refused = s.refused[:0] }

// forgetNodes is to be called when nodes have changed.
func (s *smaller) forgetNodes() {
	s.forgetRefusals()
	clear(s.said)
}

// compares reports whether refusals of a question can be compared: it books nothing or only now, wants no numbers, and nothing but its set
// says which nodes it may use. With a topology or limits for nodes, a larger job may fit where a smaller one does not.
func (s *smaller) compares(r *question) bool {
	rules := r.class.spec.Attributes.System.Fluence[r.class.label]
	return r.Terse && (r.Op == match.Allocate || r.Op == match.WithoutAllocating) && r.present == r.set.now && len(r.Expected) == 0 &&
		rules.Topology == nil && len(rules.Limits) == 0 && len(rules.MaxPerLevel) == 0
}

// answer returns the answer to a question that follows from the refusal of a smaller one. It returns false if none does.
func (s *smaller) answer(r *question, partition string) (queue.Answer, bool) {
	if len(s.refused) == 0 || !s.compares(r) {
		return queue.Answer{}, false
	}
	message, fits := s.said[setKey{partition, r.class.name}]
	if !fits || !slices.ContainsFunc(s.refused, func(o refusedRequest) bool { return o.implies(r) }) {
		return queue.Answer{}, false
	}
	return queue.Answer{Verdict: queue.Busy, Message: message}, true
}

// implies reports whether a question is refused because this request was: it asks for as much or more, for as long or longer, on the
// same nodes, and ignores nothing else.
func (o *refusedRequest) implies(r *question) bool {
	return o.class.pods <= r.class.pods && o.set == r.set && o.class.policy == r.class.policy &&
		(r.Duration == 0 || o.duration != 0 && o.duration <= r.Duration) &&
		(len(r.Ignore) == 0 || slices.Equal(o.ignore, r.Ignore)) && isWithin(o.class.amounts, r.class.amounts)
}

// isWithin reports whether b has at least as much of each kind as a.
func isWithin(a, b translate.Amounts) bool {
	for kind, n := range a {
		if n > b[kind] {
			return false
		}
	}
	return true
}

// learn records the matcher's answer to a question.
func (s *smaller) learn(r *question, partition string, no *match.Refusal, a queue.Answer) {
	key := setKey{partition, r.class.name}
	if a.Verdict != queue.Busy {
		delete(s.said, key)
		return
	}
	if len(s.said) >= maxSaid {
		clear(s.said)
	}
	s.said[key] = a.Message
	if s.compares(r) && no.Reason.Code != match.TooHard && no.Reason.Code != match.Overtaken {
		s.refused = append(s.refused, refusedRequest{r.class, r.set, r.Duration, slices.Clone(r.Ignore)})
	}
}
