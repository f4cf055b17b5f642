package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/flux-k8s/fluence/pkg/match"
)

// checkRequest fails for a request that is wrong whatever the graph. It checks neither the jobspec
// nor the policy. slot checks one expected slot.
func checkRequest(r *match.Request, slot func(*match.Slot) error) error {
	switch r.Op {
	case match.Allocate, match.AllocateOrElseReserve:
		if r.ID == 0 {
			return invalid("the job id must not be 0")
		}
	case match.Satisfiability, match.WithoutAllocating, match.WithoutAllocatingFuture:
	default:
		return invalid("unknown operation %d", r.Op)
	}
	for i := range r.Expected {
		if err := slot(&r.Expected[i]); err != nil {
			return invalid("expected: slot %q %w", r.Expected[i].Key, err)
		}
	}
	switch {
	case isBooking(r.Op) && slices.Contains(r.Ignore, r.ID):
		return invalid("jobs to ignore: must not have the job of the request, %d, for an operation that books", r.ID)
	case len(r.Ending) > 0 && isBooking(r.Op):
		return invalid("ending slots: must be empty for an operation that books, are set for operation %d", r.Op)
	case slices.ContainsFunc(r.Ending, func(s match.SlotRef) bool { return s.Job == r.ID && r.Op != match.Satisfiability }):
		return invalid("ending slots: must not be of the job of the request, %d", r.ID)
	case r.Duration < 0:
		return invalid("duration must be at least 0, is %s", r.Duration)
	}
	if err := checkReplaces(r); err != nil {
		return err
	}
	return checkDisplace(r)
}

// checkReplaces fails for a job to replace that is wrong whatever jobs hold.
func checkReplaces(r *match.Request) error {
	switch {
	case r.Replaces == 0 && len(r.ReplacesKeys) > 0:
		return invalid("keys to replace: %q need the job that has them, which is not set", r.ReplacesKeys)
	case r.Replaces == 0:
	case r.Replaces == r.ID:
		return invalid("job to replace: must not be the job of the request, %d", r.ID)
	case r.Op == match.AllocateOrElseReserve:
		return invalid("job to replace: must not be set for operation %d (allocate or else reserve), is %d", r.Op, r.Replaces)
	}
	return nil
}

// checkDisplace fails for units that are wrong whatever jobs hold.
func checkDisplace(r *match.Request) error {
	switch {
	case len(r.Displace) == 0:
		return nil
	case r.Op != match.WithoutAllocating:
		return invalid("units to displace: are allowed only with operation %d (without allocating), are set for operation %d", match.WithoutAllocating, r.Op)
	case len(r.Displace) > match.MaxUnits:
		return invalid("units to displace: at most %d, are %d", match.MaxUnits, len(r.Displace))
	}
	jobs := make(map[match.JobID]unitsOfJob, len(r.Displace))
	keys := make(map[slotName]int)
	for i := range r.Displace {
		u := &r.Displace[i]
		switch {
		case u.Class < 0:
			return invalid("units to displace: the class of unit %d must be at least 0, is %d", i, u.Class)
		case u.Protected < 0:
			return invalid("units to displace: the protected slots of unit %d must be at least 0, are %d", i, u.Protected)
		}
		for _, ref := range u.Slots {
			if ref.Job == r.ID {
				return invalid("units to displace: unit %d must not have slots of the job of the request, %d", i, r.ID)
			}
			j, again := jobs[ref.Job]
			if !again {
				j = unitsOfJob{first: i, refs: ref.Keys}
			}
			j.several = j.several || j.first != i
			j.all = j.all || len(ref.Keys) == 0
			jobs[ref.Job] = j
			if j.several && j.all {
				return invalid("units to displace: units %d and %d both have slots of job %d, and one of them has all", j.first, i, ref.Job)
			}
			if !again {
				// Nearly all jobs are named once, so their keys are compared only if they are named again.
				continue
			}
			for _, key := range j.refs {
				keys[slotName{ref.Job, key}] = j.first
			}
			for _, key := range ref.Keys {
				if other, there := keys[slotName{ref.Job, key}]; there && other != i {
					return invalid("units to displace: slot %q of job %d is in the units %d and %d", key, ref.Job, other, i)
				}
				keys[slotName{ref.Job, key}] = i
			}
		}
	}
	return nil
}

// A slotName names a slot.
type slotName struct {
	job match.JobID
	key string
}

// A unitsOfJob is what is known of the units that have slots of one job: the first of them and its first
// keys, and whether there are several units, and whether one has all slots.
type unitsOfJob struct {
	first        int
	refs         []string
	several, all bool
}

// checkPolicy fails for a policy that is not one of match.Policies, and for a policy of whole nodes
// if the request has no holder.
func checkPolicy(r *match.Request) error {
	policy, known := match.PolicyOf(r.Policy)
	switch {
	case r.Policy != "" && (!known || policy.Prefers != match.NoPreference):
		return invalid("unknown policy %q, must be one of %q", r.Policy, match.Policies())
	case policy.Exclusive && r.Holder == "":
		return invalid("policy %q takes whole nodes and needs a holder", r.Policy)
	}
	return nil
}

// checkR fails for a slot without R.
func checkR(s *match.Slot) error {
	if s.R == nil {
		return errors.New("has no resource set (R)")
	}
	return nil
}

// isBooking reports whether an operation books what it finds.
func isBooking(o match.Op) bool { return o == match.Allocate || o == match.AllocateOrElseReserve }

// mayStartLater reports whether an operation may answer with a reservation.
func mayStartLater(o match.Op) bool {
	return o == match.AllocateOrElseReserve || o == match.WithoutAllocatingFuture
}

// invalid returns an error that wraps match.ErrInvalid.
func invalid(format string, a ...any) error {
	return fmt.Errorf("%w: %w", match.ErrInvalid, fmt.Errorf(format, a...))
}
