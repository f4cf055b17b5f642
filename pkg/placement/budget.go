package placement

import (
	"context"
	"time"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// Why a group is too hard. Each says what its user can do.
const (
	whyTooHard      = "finding nodes takes more work than one group may have: fewer kinds of pods, affinity terms or spread constraints take less"
	whyTooManyHosts = "its pods are kept from, or apart on, too many nodes one by one: fewer kinds of pods, affinity terms or spread constraints make the lists shorter"
	whyForeign      = "finding nodes takes long, since for each kind of its pods the filters read the anti-affinity of pods of other namespaces: fewer kinds of pods take less"
)

// TooHard is the refusal of such a group. It asks again after a while that grows, or once it
// has changed.
func TooHard(why string) *gang.Refusal {
	return &gang.Refusal{Reason: reason.TooHard, Message: why, Backoff: true, LongBackoff: true}
}

// An Allowance is what one enquiry may take of the scheduling loop. What it waits for others, and
// what the filters take for the sake of others, is not in it. The latter has a bound of its own.
type Budget struct {
	ctx    context.Context
	now    func() time.Time
	began  time.Time
	most   time.Duration
	waited time.Duration
	// foreignTotal is what of it the filters took for the sake of pods of other namespaces.
	foreignTotal time.Duration
	// ran is what the PreFilter plugins have taken so far, and runs how often they ran.
	ran  time.Duration
	runs int
	// foreign is what one run of the PreFilter plugins takes for the sake of pods of other
	// namespaces, once that is measured.
	foreign  time.Duration
	measured bool
}

// NewBudget returns what an enquiry may take that began at a time, by a clock.
func NewBudget(ctx context.Context, now func() time.Time, began time.Time, most time.Duration) *Budget {
	return &Budget{ctx: ctx, now: now, began: began, most: most}
}

// ForeignTotal is how long the filters took for the sake of pods of other namespaces.
func (a *Budget) ForeignTotal() time.Duration { return a.foreignTotal }

// Elapsed is how long ago the enquiry began.
func (a *Budget) Elapsed() time.Duration { return a.now().Sub(a.began) }

// Took is what the enquiry has taken.
func (a *Budget) Took() time.Duration { return a.now().Sub(a.began) - a.waited }

// left is what the enquiry may still take.
func (a *Budget) left() time.Duration { return a.most - a.Took() }

// isOver says that the enquiry is to end.
func (a *Budget) isOver() bool { return a.Took() > a.most || a.isForeignOver() || a.ctx.Err() != nil }

// isForeignOver says that the filters have taken more for the sake of others than one group may hold up the
// loop for. A group of one kind of pods is never held up for that: others would keep it out for ever.
func (a *Budget) isForeignOver() bool { return a.foreignTotal > max(a.most, maxRunsPerShape*a.foreign) }

// addForeign takes note of what the filters took for the sake of others.
func (a *Budget) addForeign(d time.Duration) {
	a.waited += d
	a.foreignTotal += d
}

// refusal is what a group is told whose enquiry is over. Who was held up by others is not too hard
// by itself: it asks again after a while, and owes nothing for it.
func (a *Budget) refusal() *gang.Refusal {
	if a.isForeignOver() && a.Took() <= a.most {
		return &gang.Refusal{Reason: reason.TooHard, Message: whyForeign, Backoff: true, RetryAfter: heldPause}
	}
	return TooHard(whyTooHard)
}

const (
	// slowPreFilter is what the PreFilter plugins take in one enquiry before it is measured whom
	// that is for.
	slowPreFilter = 2 * time.Millisecond
	// heldPause is the shortest time after which a group asks again that was held up for others,
	// also one that is changed meanwhile: nobody pays for that.
	heldPause = 10 * time.Second
	// maxRunsPerShape is how often they run for one kind of pods at the most: to rule nodes out, to
	// measure, and for each verification.
	maxRunsPerShape = 1 + 1 + 1 + maxRepairs
)
