package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/flux-k8s/fluence/pkg/match"
)

// The exit codes of the process. Serving ends with exitOK or exitError.
const (
	exitOK            = 0
	exitError         = 1 // a file, a graph or a jobspec is wrong, or it could not be served
	exitUsage         = 2 // the command line of match, satisfy or info is wrong
	exitBusy          = 3 // a jobspec finds no room now
	exitUnsatisfiable = 4 // a jobspec could never be matched
)

// A usageError is a mistake in the command line.
type usageError struct{ err error }

func (u *usageError) Error() string { return u.err.Error() }

func (u *usageError) Unwrap() error { return u.err }

func usage(format string, a ...any) error { return &usageError{fmt.Errorf(format, a...)} }

// A reportedError is an error whose text has been written already.
type reportedError struct{ code int }

func (a *reportedError) Error() string { return fmt.Sprintf("ended with code %d", a.code) }

// ExitCode returns the exit code, and whether the error must still be written.
func ExitCode(err error) (code int, tell bool) {
	if err == nil {
		return exitOK, false
	}
	if a, ok := errors.AsType[*reportedError](err); ok {
		return a.code, false
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		return exitUsage, true
	}
	return exitError, true
}

// verdict returns the exit code for the error of a match.
func verdict(err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, match.ErrBusy):
		return exitBusy
	case errors.Is(err, match.ErrUnsatisfiable):
		return exitUnsatisfiable
	}
	return exitError
}

// withUsage makes unknown flags and arguments of a command usage errors.
func withUsage(c *cobra.Command) *cobra.Command {
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usage("%q: unexpected argument, only flags are accepted", args[0])
		}
		return nil
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	return c
}
