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

// pauseInterval is how often it is looked whether all threads stand.
const pauseInterval = time.Millisecond

// Pause stops the process by SIGSTOP and returns when every thread of it stands,
// which is a while after the signal was sent. The process lives, and its
// connections stay open.
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

// Resume lets a process that was paused go on.
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
