package fluence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/translate"
)

const (
	// maxRepairs bounds the matches that are made anew in one enquiry since the filters
	// refused what the last one gave.
	maxRepairs = 3
	// maxAttempts bounds the ways to ask in one enquiry.
	maxAttempts = 12
)

// An attempt is one way to ask for siblings.
type attempt struct {
	// counts are the numbers of pods by shape where these are fixed.
	counts []int64
	// limits, by shape.
	limits [][]jobspec.Limit
	bond   bond
	// careful takes the most that passed on any of the nodes where a filter refused more
	// for what passes on every node: nodes are often alike.
	careful bool
}

// attempts lists the ways to ask, the best first: for all pods before those that have
// to be placed alone, for the evenest spread before others, and carefully where that may
// be of use.
func (q *enquiry) attempts(excluded passable) []attempt {
	s := q.siblings
	all, least := make([]int64, len(q.shapes)), make([]int64, len(q.shapes))
	for i, shape := range q.shapes {
		all[i], least[i] = int64(len(shape.pods)), shape.required
	}
	sizes := [][]int64{all}
	if len(s.spreads) > 0 && !slices.Equal(all, least) {
		sizes = append(sizes, least)
	}
	apart, bonds := s.apart(), s.bonds(q.requests[0].Attributes.Topology, q.byShape)
	var as []attempt
	for _, counts := range sizes {
		for k, more := 0, true; more; k++ {
			var limits [][]jobspec.Limit
			limits, more = s.limitsOfSpreads(counts, k, q.byShape)
			for i := range limits {
				limits[i] = slices.Concat(apart[i], limits[i])
			}
			for _, b := range bonds {
				a := attempt{counts: counts, limits: limits, bond: b, careful: excluded.partly()}
				if as = append(as, a); a.careful {
					a.careful = false
					as = append(as, a)
				}
			}
		}
	}
	return as[:min(maxAttempts, len(as))]
}

// requestsFor completes the requests for an attempt, with what is excluded by the key of a
// shape.
func (q *enquiry) requestsFor(a attempt, excluded passable) []translate.ShapeRequest {
	requests := slices.Clone(q.requests)
	for i := range requests {
		r := &requests[i]
		if len(q.siblings.spreads) > 0 {
			r.Min, r.Max = a.counts[i], a.counts[i]
		}
		r.Attributes.Limits = slices.Concat(a.limits[i], a.bond.limits[i])
		r.Attributes.Topology = a.bond.topology[i]
		if hosts := a.bond.hosts[i]; hosts != nil {
			within(&r.Attributes.ConstraintsNow, &jobspec.Constraint{Op: jobspec.OpHostlist, Values: hosts})
		}
		out, limits := excluded.of(q.shapes[i].key, "passed-"+strconv.Itoa(i), a.careful)
		if len(out) > 0 {
			within(&r.Attributes.ConstraintsNow, not(out))
		}
		r.Attributes.Limits = append(r.Attributes.Limits, limits...)
	}
	return requests
}

// keysFor names the pods that the requests of an attempt are for.
func (q *enquiry) keysFor(requests []translate.ShapeRequest) []string {
	var keys []string
	for i, s := range q.shapes {
		for _, pod := range s.pods[:requests[i].Max] {
			keys = append(keys, string(pod.UID))
		}
	}
	return keys
}

// placeSiblings makes a match whose assignment the profile's filters pass, member by
// member. Until they have, nothing is booked. It returns the slots in the order in
// which the members are to be placed.
func (pl *Fluence) placeSiblings(ctx context.Context, q *enquiry) ([]match.Slot, *group.Refusal) {
	excluded := pl.exclusions.begin(q.plan.Key, q.set(), q.keyOf())
	var best error
	var objections []objection
	attempts := q.attempts(excluded)
	for i, repairs := 0, 0; i < len(attempts); {
		requests := q.requestsFor(attempts[i], excluded)
		keys := q.keysFor(requests)
		a, err := pl.match(ctx, q, match.WithoutAllocating, requests, keys)
		if no := (*match.Refusal)(nil); errors.As(err, &no) {
			best = nearer(best, err)
			i++
			continue
		}
		if err != nil {
			return nil, pl.refused(ctx, q, err)
		}
		targets, err := targetsOf(a.Slots, len(q.shapes))
		if err != nil {
			return nil, pl.refused(ctx, q, err)
		}
		v, refused := pl.verify(ctx, q.siblings, targets)
		if refused != nil {
			return nil, refused
		}
		if v.enough(q.siblings, targets) {
			return pl.book(ctx, q, requests, a.Slots, targets, v)
		}
		objections = v.objections
		if repairs++; repairs > maxRepairs {
			break
		}
		excluded = pl.exclude(q, excluded, v)
	}
	if len(objections) > 0 {
		words := wordsOf(objections)
		pl.exclusions.told(q.plan.Key, words)
		return nil, q.objected(words)
	}
	if len(excluded) > 0 {
		// They rule out pairs of a pod and a node that may do in another arrangement.
		if words := pl.exclusions.restart(q.plan.Key); words != "" {
			return nil, q.objected(words)
		}
	}
	counts := len(q.siblings.spreads)+len(q.siblings.together) > 0
	if counts || len(excluded) > 0 {
		best = forNow(best)
	}
	r := pl.refused(ctx, q, best)
	r.Backoff = r.Backoff || len(excluded) > 0
	if counts {
		r.Until = append(r.Until, group.PodChanged)
	}
	return nil, r
}

// set is the text of the members' shapes with their numbers.
func (q *enquiry) set() string {
	var b strings.Builder
	for _, s := range q.shapes {
		fmt.Fprintf(&b, "%d %s\n", len(s.pods), s.key)
	}
	return b.String()
}

// keyOf maps the members to the keys of their shapes.
func (q *enquiry) keyOf() map[types.UID]string {
	keys := map[types.UID]string{}
	for _, s := range q.shapes {
		for _, p := range s.pods {
			keys[p.UID] = s.key
		}
	}
	return keys
}

// nearer returns the refusal that came closer to a placement: for want of what is
// free, or with more slots found.
func nearer(a, b error) error {
	var x, y *match.Refusal
	if !errors.As(a, &x) {
		return b
	}
	errors.As(b, &y)
	if xb, yb := errors.Is(a, match.ErrBusy), errors.Is(b, match.ErrBusy); xb != yb {
		if yb {
			return b
		}
		return a
	}
	if y.Reason.Found > x.Reason.Found {
		return b
	}
	return a
}

// forNow turns "never" into a refusal for the present: what is there now had its part in
// what was asked.
func forNow(err error) error {
	var no *match.Refusal
	if !errors.Is(err, match.ErrUnsatisfiable) || !errors.As(err, &no) {
		return err
	}
	reason := no.Reason
	reason.WaitingHelps, reason.MayNeverFit = true, true
	return &match.Refusal{Err: match.ErrBusy, Reason: reason}
}

// targetsOf fails for a matcher that answers with what was not asked for.
func targetsOf(slots []match.Slot, shapes int) ([]target, error) {
	targets := make([]target, len(slots))
	for i, s := range slots {
		n, err := strconv.Atoi(strings.TrimPrefix(s.Label, "shape"))
		if err != nil || n < 0 || n >= shapes {
			return nil, fmt.Errorf("a slot with the label %q, which was not asked for", s.Label)
		}
		targets[i] = target{shape: n, node: s.Node}
	}
	return targets, nil
}

// exclude keeps shapes from the nodes that were refused to them, from now on.
func (pl *Fluence) exclude(q *enquiry, excluded passable, v verified) passable {
	for _, o := range v.objections {
		excluded = excluded.exclude(q.shapes[o.shape].key, o.node)
		pl.exclusions.add(q.plan.Key, q.shapes[o.shape].pods[0].UID, o.node, nil, untilOf(o.status))
	}
	return excluded
}

// objected is what a group is told whose assignments the filters refused, round by
// round. Each time it asks again it is with what was learnt by then.
func (q *enquiry) objected(words string) *group.Refusal {
	r := &group.Refusal{Reason: reasonFilters, Message: words, Until: append(group.Cluster(), group.Freed), Backoff: true}
	if len(q.kept.nodes) > 0 {
		r.Message += "; " + strings.Join(q.kept.words, "; ")
		r.Until = append(r.Until, group.Unkept)
	}
	return r
}

// wordsOf tells the first objection, and how many there are.
func wordsOf(objections []objection) string {
	words := objections[0].String()
	if n := len(objections) - 1; n > 0 {
		words += fmt.Sprintf(" (and %d more)", n)
	}
	return words
}

// book makes the match that was verified, with the pods of each shape assigned to its
// slots in the order of the verification.
func (pl *Fluence) book(ctx context.Context, q *enquiry, requests []translate.ShapeRequest, slots []match.Slot, targets []target, v verified) ([]match.Slot, *group.Refusal) {
	keys, spare := q.assign(requests, targets, v.order)
	a, err := pl.match(ctx, q, match.Allocate, requests, keys)
	if err != nil {
		return nil, pl.refused(ctx, q, err)
	}
	if !slices.EqualFunc(a.Slots, slots, func(a, b match.Slot) bool { return a.Node == b.Node && a.Label == b.Label }) {
		pl.returns.add(group.Release{Job: q.plan.Job})
		return nil, &group.Refusal{Reason: reasonNoRoom, Message: "what is free has changed while the pods were compared with each other", Until: append(group.Cluster(), group.Freed), Backoff: true}
	}
	if len(spare) > 0 {
		pl.returns.add(group.Release{Job: q.plan.Job, Keys: spare})
	}
	ordered := make([]match.Slot, len(v.order))
	for n, i := range v.order {
		ordered[n] = a.Slots[i]
	}
	return ordered, nil
}

// assign returns the keys with which the slots come to the pods in the order given, and
// those of slots that are not in it.
func (q *enquiry) assign(requests []translate.ShapeRequest, targets []target, order []int) (keys, spare []string) {
	taken := make([]int, len(q.shapes))
	of := make([]string, len(targets))
	next := func(i int) string {
		shape := targets[i].shape
		taken[shape]++
		return string(q.shapes[shape].pods[taken[shape]-1].UID)
	}
	for _, i := range order {
		of[i] = next(i)
	}
	for i := range of {
		if of[i] == "" {
			of[i] = next(i)
			spare = append(spare, of[i])
		}
	}
	for shape, s := range q.shapes {
		for i, t := range targets {
			if t.shape == shape {
				keys = append(keys, of[i])
			}
		}
		for _, pod := range s.pods[taken[shape]:requests[shape].Max] {
			keys = append(keys, string(pod.UID))
		}
	}
	return keys, spare
}
