package fluence

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/placement"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// whyTimedOut returns the message for a group that is refused as TooHard because matches
// of its namespace time out again and again. The limit is the timeout of one match.
func whyTimedOut(limit time.Duration) string {
	return fmt.Sprintf("the matcher answers, but matches for this namespace's groups took longer than %s again and again: use fewer kinds of pods, affinity terms or spread constraints", limit)
}

const (
	// timeoutMemory is how long the timeouts of a namespace are remembered after the last one.
	timeoutMemory = 10 * time.Minute
	// maxTimeouts is the number of timeouts from which a namespace
	// is to blame even if no group timed out twice in a row.
	maxTimeouts = 3
)

// timeouts has the namespaces whose matches timed out, to find out whether
// the matcher or the group is the cause. The zero value is ready for use.
type timeouts struct {
	mu          sync.Mutex
	byNamespace map[string]*timeoutRecord
}

// timeoutRecord has the timeouts of one namespace.
type timeoutRecord struct {
	// group is the group whose match timed out last;
	// empty if the matcher has answered the group since.
	group types.NamespacedName
	// confirmedPings is breaker.confirmedPingCount at the last timeout.
	confirmedPings uint64
	// at is the time of the last timeout.
	at time.Time
	// count is the number of timeouts. Each one after the first counts
	// only if the matcher was found to answer since the one before.
	count int
	// owed is the time of those timeouts that has not been charged yet.
	owed time.Duration
}

// observe records a match that timed out after the time took. blame reports whether the
// group's namespace is to blame: the matcher was found to answer since the timeout before, and
// either the same group timed out twice in a row or the namespace has maxTimeouts timeouts.
// The first timeout is never to blame. owed is the uncharged time of earlier timeouts.
func (s *timeouts) observe(key types.NamespacedName, confirmedPings uint64, took time.Duration, now time.Time) (blame bool, owed time.Duration) {
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
	if x.count > 0 && x.confirmedPings >= confirmedPings {
		x.confirmedPings = confirmedPings
		return false, 0
	}
	x.confirmedPings = confirmedPings
	if x.count++; again || x.count >= maxTimeouts {
		owed, x.owed = x.owed, 0
		return true, owed
	}
	x.owed += took
	return false, 0
}

// clear records that the matcher answered for a group,
// so that the group's next timeout is no repetition.
func (s *timeouts) clear(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.byNamespace[key.Namespace]; x != nil && x.group == key {
		x.group = types.NamespacedName{}
	}
}

// logSlow logs a group that was refused as TooHard or took at least MaxAsk.
func (a *groupPlacer) logSlow(plan gang.Plan, refused *gang.Refusal, budget *placement.Budget) {
	hard := refused != nil && refused.Reason == reason.TooHard
	switch took, pods := budget.Used(), len(plan.Required)+len(plan.Optional); {
	case hard && !refused.LongBackoff:
		a.log.Info("Filters took long for a group, because of the anti-affinity of pods of other namespaces", "group", plan.Key, "pods", pods, "took", budget.ForeignTotal())
	case hard || took >= a.args.MaxAsk.Duration:
		a.log.Info("A group is slow or too hard to place", "group", plan.Key, "pods", pods, "took", took, "limit", a.args.MaxAsk.Duration, "tooHard", hard)
	}
}
