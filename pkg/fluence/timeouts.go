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
	// timeoutMemory is how long a match that ended at its deadline is held against a namespace.
	timeoutMemory = 10 * time.Minute
	// maxTimeouts is how many such matches of a namespace, in so long, are its own fault
	// whatever became of the groups.
	maxTimeouts = 3
)

// timeouts are the namespaces of which a match ended at its deadline. The matcher may have
// been at fault, or the group. The zero value is ready for use.
type timeouts struct {
	mu          sync.Mutex
	byNamespace map[string]*timeoutRecord
}

// A suspect is a namespace.
type timeoutRecord struct {
	// group is whose match it was last, unless it was answered since, and answered how often
	// the matcher had been found to answer by then.
	group      types.NamespacedName
	recoveries uint64
	at         time.Time
	// count is how many matches there were, each but the first with an answer of the matcher
	// to others before it, and owed what they took that is not charged yet.
	count int
	owed  time.Duration
}

// observe takes note of a match that ended at its deadline after a while. It says whether
// the group's namespace is to blame, which the first time it never is: its match before ended
// so as well, or those of other groups of it have, and the matcher has answered in between.
// Owed is what the matches before have taken.
func (s *timeouts) observe(key types.NamespacedName, answered uint64, took time.Duration, now time.Time) (blame bool, owed time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byNamespace == nil {
		s.byNamespace = map[string]*timeoutRecord{}
	}
	maps.DeleteFunc(s.byNamespace, func(_ string, x *timeoutRecord) bool { return now.Sub(x.at) > timeoutMemory })
	x := s.byNamespace[key.Namespace]
	if x == nil {
		x = &timeoutRecord{}
		s.byNamespace[key.Namespace] = x
	}
	again := x.group == key
	x.group, x.at = key, now
	if x.count > 0 && x.recoveries >= answered {
		x.recoveries = answered
		return false, 0
	}
	x.recoveries = answered
	if x.count++; again || x.count >= maxTimeouts {
		owed, x.owed = x.owed, 0
		return true, owed
	}
	x.owed += took
	return false, 0
}

// clear takes note that a group was answered.
func (s *timeouts) clear(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.byNamespace[key.Namespace]; x != nil && x.group == key {
		x.group = types.NamespacedName{}
	}
}

// logSlow logs what took a group long, or too long.
func (a *groupPlacer) logSlow(plan gang.Plan, refused *gang.Refusal, budget *placement.Budget) {
	hard := refused != nil && refused.Reason == reason.TooHard
	switch took, pods := budget.Took(), len(plan.Required)+len(plan.Optional); {
	case hard && !refused.LongBackoff:
		a.log.Info("Filters took long for a group, for the sake of pods of other namespaces", "group", plan.Key, "pods", pods, "took", budget.ForeignTotal())
	case hard || took >= a.args.MaxAsk.Duration:
		a.log.Info("A group took much work", "group", plan.Key, "pods", pods, "took", took, "tooHard", hard)
	}
}
