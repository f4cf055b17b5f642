package fluence

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
)

// A lookout is what came of looking for nodes to reserve.
type lookout struct {
	nodes  []string
	where  reservable
	search *bisection
	// known says that the answer is. Where the look was cut short by its allowance, it is not:
	// that says nothing of the group, nor of the matcher, which has just refused it.
	known bool
}

// lookFor looks for the nodes to reserve for a group that had some before. It has an allowance of
// its own, since the enquiry has used up part of that. That bounds what a look costs the loop
// whatever the matcher does, and the group's namespace pays for it with the enquiry.
func (pl *Fluence) lookFor(ctx context.Context, q *enquiry, had []string, search *bisection) (l lookout) {
	own := *q
	own.outlasted = pl.outlastedFor(group.TurnOf(q.plan.Key, q.plan.Rank))
	own.may = &allowance{ctx: ctx, now: pl.now, began: pl.now(), most: pl.args.MaxAsk.Duration, foreign: q.may.foreign, measured: q.may.measured}
	defer func() { q.may.waited += own.may.waited }()
	lasting, known := pl.lastingFor(ctx, &own)
	if !known {
		return l
	}
	if l.where, known = pl.reservableFor(&own, lasting); !known {
		return l
	}
	pl.fewest(ctx, &own, &l, had, search)
	return l
}

// A bisection looks for the fewest first of some nodes on which a group fits.
type bisection struct {
	of []string
	// It fits the first most, where it is given best, and fewer than least are too few.
	least, most int
	best        []string
}

// done says that there are no fewer.
func (b *bisection) done() bool { return b == nil || b.least >= b.most }

// fewest finds nodes of those that may be reserved on which all that a group asks for fits when
// what ends there has ended: those that it had if it still does, and else as few of the first as
// can be; none if it does not fit at all. It is not known where that takes too much work, or the
// matcher does not answer. A search that was cut short goes on the next time.
func (pl *Fluence) fewest(ctx context.Context, q *enquiry, l *lookout, had []string, search *bisection) {
	usable := sets.New(l.where.nodes...)
	fits := func(among []string) (nodes []string, known bool) { return pl.fits(ctx, q, l.where, among) }
	if search.done() || !usable.HasAll(search.of...) {
		if len(had) > 0 && usable.HasAll(had...) {
			if l.nodes, l.known = fits(had); len(l.nodes) > 0 || !l.known {
				return
			}
		}
		if l.nodes, l.known = fits(l.where.nodes); len(l.nodes) == 0 {
			return
		}
		search = &bisection{of: l.where.nodes, least: 1, most: len(l.where.nodes), best: l.nodes}
	}
	for !search.done() {
		half := (search.least + search.most) / 2
		fewer, known := fits(search.of[:half])
		if !known {
			break
		}
		if len(fewer) > 0 {
			search.best, search.most = fewer, half
		} else {
			search.least = half + 1
		}
	}
	l.nodes, l.search, l.known = search.best, search, true
}

// fits returns the nodes that a group is given among some when what ends there has ended. It waits
// for the matcher as long as the allowance lasts.
func (pl *Fluence) fits(ctx context.Context, q *enquiry, in reservable, among []string) (nodes []string, known bool) {
	if len(among) == 0 {
		return nil, true
	}
	if q.may.over() {
		return nil, false
	}
	requests := slices.Clone(in.requests)
	for i := range requests {
		requests[i].Max = requests[i].Min
		within(&requests[i].Attributes.Constraints, &jobspec.Constraint{Op: jobspec.OpHostlist, Values: among})
	}
	if tooManyHosts(requests) {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, max(q.may.left(), time.Millisecond))
	defer cancel()
	a, err := pl.matchIgnoring(ctx, q, match.WithoutAllocating, requests, q.keysFor(requests), in.ends)
	if no, refused := errors.AsType[*match.Refusal](err); refused {
		return nil, no.Reason.Code != match.TooHard
	}
	if err != nil {
		return nil, false
	}
	names := sets.New[string]()
	for _, s := range a.Slots {
		names.Insert(s.Node)
	}
	return sets.List(names), true
}
