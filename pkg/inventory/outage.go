package inventory

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/klog/v2"

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
// graph. It is "" if the latest graph is loaded, or if the engine has not answered with an error. While
// there is an epoch too, the engine could not load a later graph.
func (i *Inventory) WhyNotLoaded() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.why
}

// noteFailure records why the graph is not loaded. Nil, and errors that only say that there was no
// answer or that the graph is gone, explain nothing.
func (i *Inventory) noteFailure(err error) {
	why := ""
	if err != nil && !meansNoAnswer(err) {
		why = err.Error()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.why = why
}

// meansNoAnswer reports whether an error only says that there was no answer, or that the graph is gone.
func meansNoAnswer(err error) bool {
	return errors.Is(err, match.ErrUnavailable) || errors.Is(err, match.ErrStale) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// checkReady asks whether the engine could load the latest graph. If it could not, that is recorded and
// logged, and nothing is sent again: the engine may have the graph of before still, and tries again by
// itself. An error means that the graph must be loaded again.
func (s sender) checkReady(ctx context.Context, failures outageLog) error {
	err := s.call(ctx, func(ctx context.Context) error { return s.inventory.cfg.Engine.Ready(ctx, s.epoch) })
	switch {
	case errors.Is(err, match.ErrLoading):
		return nil
	case err != nil && meansNoAnswer(err):
		return fmt.Errorf("ask whether the engine is ready: %w", err)
	}
	s.inventory.noteFailure(err)
	if err == nil {
		clear(failures)
		return nil
	}
	klog.FromContext(ctx).V(failures.verbosity(err)).Info("The engine cannot load the latest graph", "epoch", s.epoch, "reason", err)
	return nil
}
