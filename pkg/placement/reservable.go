package placement

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
)

// A Lookout is what came of looking for nodes to reserve.
type ReserveResult struct {
	Nodes []string
	// Search goes on where this one ended; it may be Done.
	Search *Bisection
	// Known says that the answer is. Where the look was cut short by its allowance, it is not:
	// that says nothing of the group, nor of the matcher, which has just refused it.
	Known bool

	candidates candidateNodes
}

// Why says why there are no nodes to reserve, in words that follow others.
func (l *ReserveResult) Why() string { return l.candidates.why() }

// ReservedCount counts the nodes that are reserved for others.
func (l *ReserveResult) ReservedCount() int { return l.candidates.reservedCount }

// CandidateCount counts the nodes that may be had.
func (l *ReserveResult) CandidateCount() int { return len(l.candidates.nodes) }

// BlockedNodes are the nodes on which something is in the group's way, or may be.
func (l *ReserveResult) BlockedNodes() *gang.NodeBloomFilter { return &l.candidates.blockedNodes }

// FindReservable looks for the nodes to reserve for a group for which Place found no room, and that had
// some before. Outlasted says of a pod that it is taken for one that does not end. The look has an
// allowance of its own, since the enquiry has used up part of its own. That bounds what a look costs
// the loop whatever the matcher does, and the group's namespace pays for it with the enquiry.
func (p *Placer) FindReservable(ctx context.Context, of Result, had []string, search *Bisection, outlasted func(*corev1.Pod) bool) (l ReserveResult) {
	q := of.attempt
	own := *q
	own.outlasted = outlasted
	own.budget = &Budget{ctx: ctx, now: p.Now, began: p.Now(), most: p.ReserveBudget, foreign: q.budget.foreign, measured: q.budget.measured}
	defer func() { q.budget.waited += own.budget.waited }()
	k := reservationSearch{p, &own}
	lasting, known := k.findPermanent(ctx)
	if !known {
		return l
	}
	if l.candidates, known = k.findCandidates(lasting); !known {
		return l
	}
	k.fewest(ctx, &l, had, search)
	return l
}

// A Bisection looks for the fewest first of some nodes on which a group fits.
type Bisection struct {
	nodes []string
	// It fits the first most, where it is given best, and fewer than least are too few.
	min, max int
	best     []string
}

// Done says that there are no fewer.
func (b *Bisection) Done() bool { return b == nil || b.min >= b.max }

// fewest finds nodes of those that may be reserved on which all that a group asks for fits when
// what ends there has ended: those that it had if it still does, and else as few of the first as
// can be; none if it does not fit at all. It is not known where that takes too much work, or the
// matcher does not answer. A search that was cut short goes on the next time.
func (k reservationSearch) fewest(ctx context.Context, l *ReserveResult, had []string, search *Bisection) {
	usable := sets.New(l.candidates.nodes...)
	fits := func(among []string) (nodes []string, known bool) { return k.fits(ctx, l.candidates, among) }
	if search.Done() || !usable.HasAll(search.nodes...) {
		if len(had) > 0 && usable.HasAll(had...) {
			if l.Nodes, l.Known = fits(had); len(l.Nodes) > 0 || !l.Known {
				return
			}
		}
		if l.Nodes, l.Known = fits(l.candidates.nodes); len(l.Nodes) == 0 {
			return
		}
		search = &Bisection{nodes: l.candidates.nodes, min: 1, max: len(l.candidates.nodes), best: l.Nodes}
	}
	for !search.Done() {
		half := (search.min + search.max) / 2
		fewer, known := fits(search.nodes[:half])
		if !known {
			break
		}
		if len(fewer) > 0 {
			search.best, search.max = fewer, half
		} else {
			search.min = half + 1
		}
	}
	l.Nodes, l.Search, l.Known = search.best, search, true
}

// fits returns the nodes that a group is given among some when what ends there has ended. It waits
// for the matcher as long as the allowance lasts.
func (k reservationSearch) fits(ctx context.Context, in candidateNodes, among []string) (nodes []string, known bool) {
	if len(among) == 0 {
		return nil, true
	}
	if k.q.budget.isOver() {
		return nil, false
	}
	requests := slices.Clone(in.requests)
	for i := range requests {
		requests[i].Max = requests[i].Min
		narrow(&requests[i].Attributes.Constraints, &jobspec.Constraint{Op: jobspec.OpHostlist, Values: among})
	}
	if isTooLarge(requests) {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, max(k.q.budget.left(), time.Millisecond))
	defer cancel()
	a, err := k.matchIgnoring(ctx, k.q, match.WithoutAllocating, requests, k.q.keysFor(requests), in.ends)
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
