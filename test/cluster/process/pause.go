package process

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// pauseInterval is the interval at which the threads are checked.
const pauseInterval = time.Millisecond

// Pause stops the process by SIGSTOP. It returns when every thread has stopped, which
// takes a while after the signal. The process lives, and its connections remain open.
func (p *Process) Pause(ctx context.Context) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	tick := time.NewTicker(pauseInterval)
	defer tick.Stop()
	for {
		stands, err := allStopped(p.PID())
		if err != nil {
			return fmt.Errorf("pause %s: %w", p.name, err)
		}
		if stands {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("pause %s: it has ended", p.name)
		case <-ctx.Done():
			return fmt.Errorf("pause %s: %w", p.name, ctx.Err())
		case <-tick.C:
		}
	}
}

// Resume continues a paused process.
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }

// allStopped reports whether each thread of a process is stopped by a signal.
func allStopped(pid int) (bool, error) {
	threads, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "stat"))
	if err != nil {
		return false, err
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil {
			continue // it ended meanwhile
		}
		state, _, err := parseStat(stat)
		if err != nil {
			return false, err
		}
		if state != "T" {
			return false, nil
		}
	}
	return len(threads) > 0, nil
}
