// Package process runs the programs of a test cluster and makes sure that they
// end.
//
// A Group starts processes in one of two ways. Attached processes die with the
// one that started them, however that ends (a panic and SIGKILL included): the
// kernel kills them. Detached processes outlive it, and Open finds them again
// by the records kept in the group's folder. Either way a process is only ever
// signalled through an identity that a later process with the same id does not
// share, so nothing else is hit.
//
//	Start ──> running ──> ended
//	             │  Kill, Stop, Signal, its own exit
//	Open ────────┘
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Process is one program started by a Group.
type Process struct {
	name   string
	record record
	from   int64 // where this run's output begins in the log file
	handle *os.Process
	done   chan struct{}
	state  *os.ProcessState // set before done closes; nil if another process reaped it
}

// Name is the name given at the start. A later process of the group may have
// the same name.
func (p *Process) Name() string { return p.name }

// PID is the process id. After the process has ended it may be another's.
func (p *Process) PID() int { return p.record.PID }

// Log is the path of the file with the process's standard output and error.
func (p *Process) Log() string { return p.record.Log }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait returns when the process has ended, or with ctx's error.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for %s to end: %w", p.name, ctx.Err())
	}
}

// State says how the process ended. It is nil while the process runs, and for
// one that another process started.
func (p *Process) State() *os.ProcessState {
	select {
	case <-p.done:
		return p.state
	default:
		return nil
	}
}

// Signal sends sig. It is not an error if the process has ended.
func (p *Process) Signal(sig os.Signal) error {
	if err := p.handle.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.name, err)
	}
	return nil
}

// Kill ends the process at once, by SIGKILL, and returns when it has ended.
func (p *Process) Kill(ctx context.Context) error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	return p.Wait(ctx)
}

// Stop asks the process to end by SIGTERM, and kills it when ctx is done before
// it has. It returns when the process has ended.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if p.Wait(ctx) == nil {
		return nil
	}
	return p.Kill(context.WithoutCancel(ctx))
}
