package engine

import (
	"errors"
	"fmt"

	"github.com/flux-k8s/fluence/pkg/match"
)

// checkRequest fails for a request that is wrong whatever the graph. It looks at neither the jobspec nor
// the policy. Slot is what is asked of an expected slot.
func checkRequest(r *match.Request, slot func(*match.Slot) error) error {
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
	case len(r.Ignore) > 0 && isBooking(r.Op):
		return invalid("jobs to ignore in a request that books")
	case r.Duration < 0:
		return invalid("a duration of %s", r.Duration)
	}
	return nil
}

// checkPolicy fails for a policy that nodes which were put do not go by, and for one of whole
// nodes without a holder.
func checkPolicy(r *match.Request) error {
	policy, known := match.PolicyOf(r.Policy)
	switch {
	case r.Policy != "" && (!known || policy.Prefers != match.NoPreference):
		return invalid("policy %q: none of %q", r.Policy, match.Policies())
	case policy.Exclusive && r.Holder == "":
		return invalid("no holder, which policy %q needs", r.Policy)
	}
	return nil
}

// checkR fails for a slot that says nothing of what it holds.
func checkR(s *match.Slot) error {
	if s.R == nil {
		return errors.New("has no R")
	}
	return nil
}

// isBooking says whether an operation keeps what it finds.
func isBooking(o match.Op) bool { return o == match.Allocate || o == match.AllocateOrElseReserve }

// mayStartLater says whether an operation looks at later times too.
func mayStartLater(o match.Op) bool {
	return o == match.AllocateOrElseReserve || o == match.WithoutAllocatingFuture
}

// invalid is the error for arguments that are wrong.
func invalid(format string, a ...any) error {
	return fmt.Errorf("%w: %w", match.ErrInvalid, fmt.Errorf(format, a...))
}
