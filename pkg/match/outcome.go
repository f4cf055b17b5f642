package match

import (
	"context"
	"errors"
)

// outcomes has the name of each error that a Match is expected to return. Every other error is
// OutcomeError.
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

// Outcomes that correspond to no error above.
const (
	outcomeMatched = "matched"
	// OutcomeError is the outcome of a Match with an unexpected error.
	OutcomeError = "error"
)

// OutcomeOf returns the outcome of a Match as one word, for use as a metric label.
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

// Outcomes lists every word that OutcomeOf may return.
func Outcomes() []string {
	all := []string{outcomeMatched}
	for _, o := range outcomes {
		all = append(all, o.name)
	}
	return append(all, OutcomeError)
}
