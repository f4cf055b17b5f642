package placement

import (
	"context"
	"errors"
	"slices"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// errOnlyStaleRoom means that a match needs room that the scheduler's cache has not released yet, or for which others ask first.
var errOnlyStaleRoom = errors.New("the room was released a moment ago")

// match sends requests to the matcher, as one job. If the group spares reservations, a first match respects them. A second one
// ignores them if the first is refused, and its answer counts.
func (p *Placer) match(ctx context.Context, q *attempt, op match.Op, requests []translate.ShapeRequest, keys []string) (*match.Allocation, error) {
	if len(q.cluster.Spared) > 0 {
		a, err := matchBesideStaleRoom(ctx, p, q, op, requests, keys, true)
		if _, refused := errors.AsType[*match.Refusal](err); !refused {
			return a, err
		}
	}
	return matchBesideStaleRoom(ctx, p, q, op, requests, keys, false)
}

// matchBesideStaleRoom sends requests to the matcher, as one job. The slots are not in the room of pods that
// have ended (ClusterState.Ended). If there is not enough room besides, but there is
// with that room, it returns errOnlyStaleRoom. Any other refusal is independent of these pods. Until
// the matcher knows of an end, the pod counts twice, and the error may be wrong for that moment.
func matchBesideStaleRoom(ctx context.Context, p *Placer, q *attempt, op match.Op, requests []translate.ShapeRequest, keys []string, spares bool) (*match.Allocation, error) {
	expected := slices.Concat(q.cluster.Expected, q.cluster.Kept, q.cluster.Ended)
	a, err := p.matchWith(ctx, q, op, requests, keys, assumptions{expected: expected, spares: spares})
	no, refused := errors.AsType[*match.Refusal](err)
	if len(q.cluster.Ended) == 0 || !refused || no.Reason.Code == match.TooHard || no.Reason.Code == match.Overtaken {
		return a, err
	}
	if _, err = p.matchWith(ctx, q, match.WithoutAllocating, requests, keys, assumptions{expected: slices.Concat(q.cluster.Expected, q.cluster.Kept), spares: spares}); err != nil {
		return nil, err
	}
	return nil, errOnlyStaleRoom
}

// near returns the nodes near which the pods are to be.
func (q *attempt) near() []string {
	if q.plan.AnyRoom {
		return nil
	}
	return q.plan.Near
}

// assumptions are what a match takes for granted: the expected slots are held, and the ignored jobs and the ending slots
// hold nothing. One that spares reservations does not ignore ClusterState.Spared, and its refusal is terse.
type assumptions struct {
	expected []match.Slot
	ignored  []match.JobID
	ending   []match.SlotRef
	// displace are the units of which the matcher may choose some.
	displace []match.Unit
	spares   bool
}

// matchWith matches as if the assumptions were true.
func (p *Placer) matchWith(ctx context.Context, q *attempt, op match.Op, requests []translate.ShapeRequest, keys []string, as assumptions) (*match.Allocation, error) {
	a, err := matchOnce(ctx, p, q, op, requests, keys, as)
	if errors.Is(err, match.ErrInvalid) && !errors.Is(err, match.ErrPolicy) && q.cluster.readOverlooked() {
		return matchOnce(ctx, p, q, op, requests, keys, as)
	}
	return a, err
}

// readOverlooked reads once more which reservations are overlooked. It reports whether that has changed: one may have become
// an allocation, which no match may overlook.
func (c *ClusterState) readOverlooked() (changed bool) {
	if c.Overlooked == nil {
		return false
	}
	ignored, spared := c.Overlooked()
	changed = !slices.Equal(ignored, c.Ignored)
	c.Ignored, c.Spared = ignored, spared
	return changed
}

// matchOnce is matchWith without a second look at the reservations that are overlooked.
func matchOnce(ctx context.Context, p *Placer, q *attempt, op match.Op, requests []translate.ShapeRequest, keys []string, as assumptions) (*match.Allocation, error) {
	ctx, cancel := context.WithTimeout(ctx, p.MatchTimeout)
	defer cancel()
	ignored := slices.Concat(as.ignored, q.cluster.Ignored)
	if as.spares {
		ignored = slices.DeleteFunc(ignored, func(id match.JobID) bool { return slices.Contains(q.cluster.Spared, id) })
	}
	a, err := p.Matcher.Match(ctx, match.Request{
		Epoch:    q.cluster.Epoch,
		Op:       op,
		ID:       q.plan.Job,
		Jobspec:  translate.Jobspec(requests),
		Keys:     keys,
		Now:      q.cluster.At,
		Duration: q.cluster.Duration,
		Policy:   q.plan.Policy,
		Holder:   q.plan.Holder,
		Near:     q.near(),
		Expected: as.expected,
		Ignore:   ignored,
		Ending:   as.ending,
		Displace: as.displace,
		Terse:    as.spares,

		Replaces:     q.plan.Room.Job,
		ReplacesKeys: q.plan.Room.Keys,
	})
	if a != nil {
		q.budget.uncounted += a.Waited
	}
	if no, refused := errors.AsType[*match.Refusal](err); refused {
		q.budget.uncounted += no.Waited
	}
	return a, err
}
