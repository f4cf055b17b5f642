package inventory

import (
	"context"
	"errors"
	"strings"

	"github.com/flux-k8s/fluence/pkg/match"
)

// maxLoggedReasons bounds the reasons of one outage that are logged.
const maxLoggedReasons = 16

// An outageLog decides how an outage is logged: one line for each different reason, however long the
// outage is. The first reason is often a restart. Only a later one says why the engine stays away.
type outageLog map[string]struct{}

// verbosity returns the verbosity of the line for a reason: 0 if it is new in this outage.
func (o outageLog) verbosity(why error) int {
	// Epochs, job numbers and the like differ from attempt to attempt.
	reason := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, why.Error())
	if _, ok := o[reason]; ok || len(o) == maxLoggedReasons {
		return 4
	}
	o[reason] = struct{}{}
	return 0
}

// WhyNotLoaded returns the error with which the engine last answered instead of taking or loading the
// graph. It is "" if the graph is loaded, or if the engine has not answered with an error.
func (i *Inventory) WhyNotLoaded() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.why
}

// noteFailure records why the graph is not loaded. Errors that only say that there was no answer, or
// that the graph is gone, explain nothing.
func (i *Inventory) noteFailure(err error) {
	why := ""
	if !errors.Is(err, match.ErrUnavailable) && !errors.Is(err, match.ErrStale) && !errors.Is(err, context.DeadlineExceeded) {
		why = err.Error()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.why = why
}
