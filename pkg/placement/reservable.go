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

// A ReserveResult is the outcome of a search for nodes to reserve.
type ReserveResult struct {
	// Nodes are the nodes to reserve. It is empty if the group does not fit on any.
	Nodes []string
	// Search continues this search the next time, if it is not Done.
	Search *Bisection
	// Known says that the search has an answer. It has none if its budget ended it,
	// or if the matcher did not answer. That is no verdict on the group.
	Known bool

	candidates candidateNodes
}

// Why returns why there are no nodes to reserve, as the end of a message.
func (l *ReserveResult) Why() string { return l.candidates.why() }

// ReservedCount returns how many nodes are reserved for other groups.
func (l *ReserveResult) ReservedCount() int { return l.candidates.reservedCount }

// CandidateCount returns how many nodes could be reserved.
func (l *ReserveResult) CandidateCount() int { return len(l.candidates.nodes) }

// BlockedNodes returns a Bloom filter of the nodes where a pod or a filter blocks the group.
func (l *ReserveResult) BlockedNodes() *gang.NodeBloomFilter { return &l.candidates.blockedNodes }

// FindReservable searches for nodes to reserve for a group for which Place found no room. of is
// the result of Place, and had are the nodes that are reserved for the group so far. search is
// continued if it is not Done. outlasted reports whether a pod counts as one that does not end.
//
// The search has a separate budget, ReservationSearchBudget, because Place has used up part of
// the first one. This bounds what the search costs the scheduling loop, whatever the
// matcher does. The group's namespace owes both.
func (p *Placer) FindReservable(ctx context.Context, of Result, had []string, search *Bisection, outlasted func(*corev1.Pod) bool) (l ReserveResult) {
	q := of.attempt
	own := *q
	own.outlasted = outlasted
	own.budget = &Budget{ctx: ctx, now: p.Now, began: p.Now(), max: p.ReservationSearchBudget, foreignPerRun: q.budget.foreignPerRun, measured: q.budget.measured}
	defer func() { q.budget.uncounted += own.budget.uncounted }()
	k := reservationSearch{p, &own}
	lasting, known := k.findPermanent(ctx)
	if !known {
		return l
	}
	if l.candidates, known = k.findCandidates(lasting); !known {
		return l
	}
	k.bisect(ctx, &l, had, search)
	return l
}

// A Bisection is a binary search for the shortest prefix of a list of nodes on which a group fits.
type Bisection struct {
	nodes []string
	// min is the shortest prefix that may be long enough. max is the shortest prefix
	// that is known to be long enough.
	min, max int
	// best are the nodes that the matcher gave within the first max nodes.
	best []string
}

// Done reports whether nothing is left to search.
func (b *Bisection) Done() bool { return b == nil || b.min >= b.max }

// bisect sets the nodes to reserve: nodes on which the group will fit once the pods
// there that will end have ended. It keeps the nodes reserved so far (had) if the group
// still fits there. Otherwise it takes nodes from the shortest prefix of the candidates
// on which the group fits. There are none if the group does not fit on all candidates
// together. The answer is not known if it takes too much work, or if the matcher does
// not answer. A binary search that was cut short is continued the next time.
func (k reservationSearch) bisect(ctx context.Context, l *ReserveResult, had []string, search *Bisection) {
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

// fits returns the nodes among some that the matcher gives to the group when the pods
// there that will end have ended. It returns none if the group does not fit. It waits
// for the matcher while the budget lasts. known is false if there is no answer.
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
		addConstraint(&requests[i].Attributes.Constraints, &jobspec.Constraint{Op: jobspec.OpHostlist, Values: among})
	}
	if isTooLarge(requests) {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, max(k.q.budget.left(), time.Millisecond))
	defer cancel()
	a, err := k.matchWith(ctx, k.q, match.WithoutAllocating, requests, k.q.keysFor(requests), assumptions{expected: k.q.cluster.Expected, ignored: in.endingJobs})
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
