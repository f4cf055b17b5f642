// Package process runs the programs of a test cluster and makes sure that they end.
//
// A Group starts processes in one of two ways. Attached processes die with the
// process that started them, however it ends, even by a panic or SIGKILL: the
// kernel kills them. Detached processes outlive it. Open finds them again by the
// records in the group's folder. Invariant: a process is only signalled through a
// handle that no later process with the same id shares, so nothing else is hit.
//
//	Start ──> running ──> ended
//	             │  Kill, Stop, Signal, its own exit
//	Open ────────┘
package process

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
)

// Process is one program started by a Group.
type Process struct {
	name   string
	record record
	from   int64 // where this process's output begins in the log file
	handle *os.Process
	done   chan struct{}
	state  *os.ProcessState // set before done closes; nil if another process reaped it
}

// Name returns the name given at the start. A later process of the group may have the same name.
func (p *Process) Name() string { return p.name }

// PID returns the process id. After the end of the process the id may belong to another process.
func (p *Process) PID() int { return p.record.PID }

// Log returns the path of the file with the process's standard output and error.
func (p *Process) Log() string { return p.record.Log }

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait returns when the process has ended. It returns ctx's error if ctx is done before.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for %s to end: %w", p.name, ctx.Err())
	}
}

// State returns how the process ended. It returns nil while the
// process runs, and for a process that another process started.
func (p *Process) State() *os.ProcessState {
	select {
	case <-p.done:
		return p.state
	default:
		return nil
	}
}

// Signal sends a signal. It returns nil if the process has ended.
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

// Stop ends the process by SIGTERM. If ctx is done before the end,
// it kills the process. It returns when the process has ended.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if p.Wait(ctx) == nil {
		return nil
	}
	return p.Kill(context.WithoutCancel(ctx))
}

// Runs reports whether the process was started by this command line, and the file at program has
// the content that it runs. The command line may be of env(1), which becomes the program.
func (p *Process) Runs(program, path string, args []string) bool {
	if p.record.Path != path || !slices.Equal(p.record.Args, args) {
		return false
	}
	running, err := digest(fmt.Sprintf("/proc/%d/exe", p.record.PID)) // readable even if the file was replaced
	if err != nil {
		return false
	}
	now, err := digest(program)
	return err == nil && now == running
}

// digest returns the SHA-256 of a file's content.
func digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return string(h.Sum(nil)), nil
}
