package engine

import (
	"errors"
	"slices"

	"github.com/flux-k8s/fluence/pkg/match"
)

// check fails for a request that is wrong whatever the graph. It looks at neither the jobspec nor
// the policy. Slot is what is asked of an expected slot.
func check(r *match.Request, slot func(*match.Slot) error) error {
	switch r.Op {
	case match.Allocate, match.AllocateOrElseReserve:
		if r.ID == 0 {
			return invalid("job 0 names no job")
		}
	case match.Satisfiability, match.WithoutAllocating, match.WithoutAllocatingFuture:
	default:
		return invalid("operation %d is not known", r.Op)
	}
	for i := range r.Expected {
		if err := slot(&r.Expected[i]); err != nil {
			return invalid("expected: slot %q %w", r.Expected[i].Key, err)
		}
	}
	switch {
	case len(r.Ignore) > 0 && books(r.Op):
		return invalid("jobs to ignore in a request that books")
	case r.Duration < 0:
		return invalid("a duration of %s", r.Duration)
	}
	return nil
}

// checkPolicy fails for a policy that nodes which were put do not go by, and for one of whole
// nodes without a holder.
func checkPolicy(r *match.Request) error {
	switch {
	case r.Policy != "" && !slices.Contains(match.Policies(), r.Policy):
		return invalid("policy %q: none of %q", r.Policy, match.Policies())
	case match.TakesWhole(r.Policy) && r.Holder == "":
		return invalid("no holder, which policy %q needs", r.Policy)
	}
	return nil
}

// hasR fails for a slot that says nothing of what it holds.
func hasR(s *match.Slot) error {
	if s.R == nil {
		return errors.New("has no R")
	}
	return nil
}

// tenantOf returns the one for whom a request is made.
func tenantOf(r *match.Request) tenant {
	return tenant{holder: r.Holder, whole: match.TakesWhole(r.Policy)}
}

// offset returns where the keys of a shape begin among those of the request, or
// for the number of shapes where all end.
func (a *ask) offset(shape int) int64 {
	n := int64(0)
	for _, s := range a.shapes[:shape] {
		n = plus(n, s.count.Max)
	}
	return n
}

// checkKeys fails for keys that do not fit the slots.
func (a *ask) checkKeys(keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	if most := a.offset(len(a.shapes)); int64(len(keys)) != most {
		return invalid("%d keys for %d slots", len(keys), most)
	}
	seen := make(map[string]struct{}, len(keys))
	for _, k := range keys {
		if _, ok := seen[k]; ok {
			return invalid("two slots have the key %q", k)
		}
		seen[k] = struct{}{}
	}
	return nil
}
