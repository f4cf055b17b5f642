package placement

import (
	"context"
	"fmt"
	"time"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// useFewer ends the messages of groups that are too hard. It says what the user can do.
const useFewer = "use fewer kinds of pods, affinity terms or spread constraints"

// whyManySteps returns the message of a group for which the matcher's search
// was stopped. The text of the size says how many pods the group has, and of how many kinds.
func whyManySteps(size string) string {
	return "finding nodes for " + size + " takes more steps than the matcher may take for one request: " + useFewer
}

// TooHard returns the refusal of a group that takes too much work. The group retries
// after a long backoff, or once it has changed.
func TooHard(why string) *gang.Refusal {
	return &gang.Refusal{Reason: reason.TooHard, Message: why, Backoff: true, LongBackoff: true}
}

// A Budget is how much of the scheduling loop one attempt may take. Time that the
// attempt waits for others does not count. Time that the filters take for pods of
// other namespaces does not count either, and has a separate bound.
type Budget struct {
	ctx   context.Context
	now   func() time.Time
	began time.Time
	max   time.Duration
	// uncounted is the time that does not count.
	uncounted time.Duration
	// foreignTotal is the part of uncounted that the filters took for pods of other namespaces.
	foreignTotal time.Duration
	// preFilterTime is how long the PreFilter plugins have run so far.
	preFilterTime time.Duration
	// preFilterRuns is how often they ran.
	preFilterRuns int
	// foreignPerRun is how long one run of the PreFilter plugins takes for pods of other namespaces.
	foreignPerRun time.Duration
	// measured says that foreign was measured.
	measured bool
	// sizeText is how many pods are placed, and of how many kinds, for messages.
	sizeText string
}

// NewBudget returns the budget of an attempt. began is when the attempt began, most is the
// time that it may take, and now is the clock. The attempt also has to end when ctx ends.
func NewBudget(ctx context.Context, now func() time.Time, began time.Time, max time.Duration) *Budget {
	return &Budget{ctx: ctx, now: now, began: began, max: max}
}

// ForeignTotal returns how long the filters took for pods of other namespaces.
func (a *Budget) ForeignTotal() time.Duration { return a.foreignTotal }

// Elapsed returns the time since the attempt began.
func (a *Budget) Elapsed() time.Duration { return a.now().Sub(a.began) }

// Used returns how much of the budget the attempt has used.
func (a *Budget) Used() time.Duration { return a.now().Sub(a.began) - a.uncounted }

// left returns how much of the budget is left.
func (a *Budget) left() time.Duration { return a.max - a.Used() }

// isOver reports whether the attempt has to end.
func (a *Budget) isOver() bool { return a.Used() > a.max || a.isForeignOver() || a.ctx.Err() != nil }

// isForeignOver reports whether the filters have taken too long for pods of other
// namespaces. The bound never ends the attempt of a group with one shape. Otherwise
// other namespaces could keep such a group from nodes for ever.
func (a *Budget) isForeignOver() bool { return a.foreignTotal > a.foreignLimit() }

// foreignLimit returns how long the filters may take for pods of other namespaces.
func (a *Budget) foreignLimit() time.Duration { return max(a.max, maxRunsPerShape*a.foreignPerRun) }

// addForeign records time that the filters took for pods of other namespaces.
func (a *Budget) addForeign(d time.Duration) {
	a.uncounted += d
	a.foreignTotal += d
}

// refusal returns the refusal of a group whose budget is used up. If only pods
// of other namespaces took too long, the group is not too hard by itself: it
// retries after a backoff, and its namespace is not charged for that time.
func (a *Budget) refusal() *gang.Refusal {
	if a.isForeignOver() && a.Used() <= a.max {
		return &gang.Refusal{Reason: reason.TooHard, Message: a.whyForeign(), Backoff: true, RetryAfter: minForeignBackoff}
	}
	return TooHard(a.whyTooSlow())
}

// whyTooSlow returns the message of a group whose attempt took longer than it may.
func (a *Budget) whyTooSlow() string {
	return fmt.Sprintf("finding nodes for %s takes longer than %s: %s", a.sizeText, a.max, useFewer)
}

// whyForeign returns the message of a group for which the filters took too long for pods of
// other namespaces. The limit is in seconds: another unit would be another message.
func (a *Budget) whyForeign() string {
	return fmt.Sprintf("for %s the filters take longer than %.2fs to read the anti-affinity of pods of other namespaces, once for each kind: use fewer kinds of pods", a.sizeText, a.foreignLimit().Seconds())
}

const (
	// slowPreFilter is how long the PreFilter plugins have to run before the time for
	// pods of other namespaces is measured.
	slowPreFilter = 2 * time.Millisecond
	// minForeignBackoff is the shortest backoff of a group that other
	// namespaces held up. It also holds for a group that has changed,
	// because no namespace is charged for the time of its attempts.
	minForeignBackoff = 10 * time.Second
	// maxRunsPerShape is how often the PreFilter plugins run at most for one shape:
	// to rule out nodes, to measure, and for each verification.
	maxRunsPerShape = 1 + 1 + 1 + maxRepairs
)
