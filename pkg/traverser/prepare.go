package traverser

import (
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
)

// An ask is a request that is prepared for the graph.
type ask struct {
	top    *requests
	least  []sum // the minimum needed below the root
	policy policy
	whole  []bool
	holds  jobspec.Condition
}

// prepare prepares a request. It fails with match.ErrInvalid.
func (t *Traverser) prepare(r *match.Request) (*ask, error) {
	q := &ask{policy: t.policy}
	var err error
	if r.Policy != "" {
		if q.policy, err = parsePolicy(r.Policy); err != nil {
			return nil, invalid("policy %w", err)
		}
	}
	if len(r.Near) > 0 {
		return nil, invalid("near: goes only with nodes that were put")
	}
	if r.Duration > lifetime {
		return nil, invalid("duration: %s: longer than %s", r.Duration, lifetime)
	}
	if t.Empty() {
		return nil, invalid("the graph is empty")
	}
	if err := r.Jobspec.Validate(); err != nil {
		return nil, invalid("jobspec: %w", err)
	}
	if len(r.Jobspec.Attributes.System.Fluence) > 0 {
		return nil, invalid("jobspec: attributes: system: fluence: goes only with nodes that were put")
	}
	if q.top, err = t.g.compile(r.Jobspec.Resources); err != nil {
		return nil, err
	}
	if err := checkKeys(q.top, r.Keys); err != nil {
		return nil, err
	}
	q.least = q.top.least()
	if c := r.Jobspec.Attributes.System.Constraints; c != nil && c.Op != "" {
		if q.holds, err = c.Compile(); err != nil {
			return nil, invalid("jobspec: attributes: system: constraints: %w", err)
		}
	}
	q.whole = make([]bool, len(t.g.types))
	q.whole[typeNode] = q.policy.nodeExclusive
	q.top.markWhole(q.whole)
	return q, nil
}

// markWhole marks the types that are asked for exclusively.
func (q *requests) markWhole(whole []bool) {
	for i := range q.list {
		r := &q.list[i]
		if r.exclusive {
			whole[r.typ] = true
		}
		r.with.markWhole(whole)
	}
}

// checkKeys fails for keys that cannot name the slots one by one.
func checkKeys(q *requests, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	seen := make(map[string]struct{}, len(keys))
	for _, k := range keys {
		if _, twice := seen[k]; twice {
			return invalid("two slots have the key %q", k)
		}
		seen[k] = struct{}{}
	}
	if most := q.mostSlots(); int64(len(keys)) != most {
		return invalid("%d keys are given, want %d: one for each slot that the request may get", len(keys), most)
	}
	return nil
}

// mostSlots returns the largest number of slots that the requests may get.
func (q *requests) mostSlots() int64 {
	n := int64(0)
	for i := range q.list {
		r := &q.list[i]
		if r.typ == typeSlot {
			n += r.most
			continue
		}
		n += times(r.most, r.with.mostSlots())
	}
	return n
}
