package fluence

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/placement"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// whyTimeout is why a group is too hard whose matches end at their deadline, one after another.
const whyTimeout = "the matcher answers others, and twice gave no answer for this group in time: fewer kinds of pods, affinity terms or spread constraints take less"

const (
	// suspicion is how long a match that ended at its deadline is held against a namespace.
	suspicion = 10 * time.Minute
	// mostSuspect is how many such matches of a namespace, in so long, are its own fault
	// whatever became of the groups.
	mostSuspect = 3
)

// suspects are the namespaces of which a match ended at its deadline. The matcher may have
// been at fault, or the group. The zero value is ready for use.
type suspects struct {
	mu sync.Mutex
	of map[string]*suspect
}

// A suspect is a namespace.
type suspect struct {
	// group is whose match it was last, unless it was answered since, and answered how often
	// the matcher had been found to answer by then.
	group    types.NamespacedName
	answered uint64
	at       time.Time
	// count is how many matches there were, each but the first with an answer of the matcher
	// to others before it, and owed what they took that is not charged yet.
	count int
	owed  time.Duration
}

// timedOut takes note of a match that ended at its deadline after a while. It says whether
// the group's namespace is to blame, which the first time it never is: its match before ended
// so as well, or those of other groups of it have, and the matcher has answered in between.
// Owed is what the matches before have taken.
func (s *suspects) timedOut(key types.NamespacedName, answered uint64, took time.Duration, now time.Time) (blame bool, owed time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[string]*suspect{}
	}
	maps.DeleteFunc(s.of, func(_ string, x *suspect) bool { return now.Sub(x.at) > suspicion })
	x := s.of[key.Namespace]
	if x == nil {
		x = &suspect{}
		s.of[key.Namespace] = x
	}
	again := x.group == key
	x.group, x.at = key, now
	if x.count > 0 && x.answered >= answered {
		x.answered = answered
		return false, 0
	}
	x.answered = answered
	if x.count++; again || x.count >= mostSuspect {
		owed, x.owed = x.owed, 0
		return true, owed
	}
	x.owed += took
	return false, 0
}

// clear takes note that a group was answered.
func (s *suspects) clear(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.of[key.Namespace]; x != nil && x.group == key {
		x.group = types.NamespacedName{}
	}
}

// tellHard logs what took a group long, or too long.
func (a *asker) tellHard(plan gang.Plan, refused *gang.Refusal, may *placement.Allowance) {
	hard := refused != nil && refused.Reason == reason.TooHard
	switch took, pods := may.Took(), len(plan.Required)+len(plan.Optional); {
	case hard && !refused.Hard:
		a.log.Info("Filters took long for a group, for the sake of pods of other namespaces", "group", plan.Key, "pods", pods, "took", may.HeldUp())
	case hard || took >= a.args.MaxAsk.Duration:
		a.log.Info("A group took much work", "group", plan.Key, "pods", pods, "took", took, "tooHard", hard)
	}
}
