package placement

import (
	"context"
	"fmt"
	"slices"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/placement/interpod"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// commit books the match that was verified. The pods of each shape get its slots in the
// order of the verification. It returns a refusal if the matcher gives other slots now.
func (p *Placer) commit(ctx context.Context, q *attempt, requests []translate.ShapeRequest, slots []match.Slot, targets []interpod.Target, v verification) ([]match.Slot, *gang.Refusal) {
	keys, spare := q.assign(requests, targets, v.order)
	a, err := p.match(ctx, q, match.Allocate, requests, keys)
	if err != nil {
		return nil, p.refusalFor(q, err)
	}
	if !slices.EqualFunc(a.Slots, slots, func(a, b match.Slot) bool { return a.Node == b.Node && a.Label == b.Label }) {
		q.effects.Release = append(q.effects.Release, gang.Release{Job: q.plan.Job})
		return nil, &gang.Refusal{Reason: reason.NoRoom, Message: fmt.Sprintf("nodes were found for %s, but what is free changed before they were booked", reason.Plural(len(v.order), "pod")), RetryOn: append(gang.ClusterEvents(), gang.Released), Backoff: true, NodesFound: true}
	}
	if len(spare) > 0 {
		q.effects.Release = append(q.effects.Release, gang.Release{Job: q.plan.Job, Keys: spare})
	}
	ordered := make([]match.Slot, len(v.order))
	for n, i := range v.order {
		ordered[n] = a.Slots[i]
	}
	return ordered, nil
}

// assign gives each slot the key of a pod: first the slots in order, in this
// order, and then the slots that order leaves out. It returns all keys in the
// order of the requests. spare are the keys of the slots that order leaves out.
func (q *attempt) assign(requests []translate.ShapeRequest, targets []interpod.Target, order []int) (keys, spare []string) {
	taken := make([]int, len(q.shapes))
	keyByTarget := make([]string, len(targets))
	next := func(i int) string {
		shape := targets[i].Shape
		taken[shape]++
		return string(q.shapes[shape].Pods[taken[shape]-1].UID)
	}
	for _, i := range order {
		keyByTarget[i] = next(i)
	}
	for i := range keyByTarget {
		if keyByTarget[i] == "" {
			keyByTarget[i] = next(i)
			spare = append(spare, keyByTarget[i])
		}
	}
	for shape, s := range q.shapes {
		for i, t := range targets {
			if t.Shape == shape {
				keys = append(keys, keyByTarget[i])
			}
		}
		for _, pod := range s.Pods[taken[shape]:requests[shape].Max] {
			keys = append(keys, string(pod.UID))
		}
	}
	return keys, spare
}
