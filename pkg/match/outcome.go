package match

import (
	"context"
	"errors"
)

// outcomes name how a Match can end that fails. Everything else is OutcomeError.
var outcomes = []struct {
	name string
	err  error
}{
	{"busy", ErrBusy},
	{"unsatisfiable", ErrUnsatisfiable},
	{"unavailable", ErrUnavailable},
	{"conflict", ErrConflict},
	{"stale", ErrStale},
	{"invalid", ErrInvalid},
	{"canceled", context.Canceled},
	{"deadline", context.DeadlineExceeded},
}

// The outcomes without an error to know them by.
const (
	outcomeMatched = "matched"
	// OutcomeError is that of an error which no engine is expected to give.
	OutcomeError = "error"
)

// OutcomeOf names how a Match ended, in one word for those who count.
func OutcomeOf(err error) string {
	if err == nil {
		return outcomeMatched
	}
	for _, o := range outcomes {
		if errors.Is(err, o.err) {
			return o.name
		}
	}
	return OutcomeError
}

// Outcomes lists what OutcomeOf may return.
func Outcomes() []string {
	all := []string{outcomeMatched}
	for _, o := range outcomes {
		all = append(all, o.name)
	}
	return append(all, OutcomeError)
}
