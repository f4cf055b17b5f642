package process

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

const (
	// superviseInterval is the interval at which the supervisor looks at the processes.
	superviseInterval = 500 * time.Millisecond
	// firstRestart is the time between the end of a process and its first restart.
	// The following restarts are restartBase after the end, then twice as long each
	// time, up to longestRestart. These two are a kubelet's, and so is stableRun.
	firstRestart   = time.Second
	restartBase    = 10 * time.Second
	longestRestart = 5 * time.Minute
	// stableRun is how long a process has to run until its next end counts as its first.
	stableRun = 10 * time.Minute
	// recordGrace is how long a supervisor waits for its own record, which its parent writes.
	recordGrace = 10 * time.Second
)

// Supervise starts the detached processes of a folder again when they have ended, as a
// kubelet starts containers, until ctx is done. They get the program, the arguments and the
// log that they had. log gets a line for each end and each start.
//
// The caller has to be a process of the folder itself, of the name self. Supervise returns
// when the record of that name is gone, or is another process's: only one supervisor acts
// on a folder, and none on a folder that was removed. If the records cannot be read,
// Supervise logs that once and tries again. Supervise signals no process.
func Supervise(ctx context.Context, dir, self string, log io.Writer) error {
	me, err := identify(os.Getpid())
	if err != nil {
		return fmt.Errorf("supervise %s: %w", dir, err)
	}
	g := newGroup(dir, true)
	defer g.Forget()
	s := supervisor{group: g, log: log, ended: map[string]*ending{}}
	begin, recorded, unread := time.Now(), false, ""
	tick := time.NewTicker(superviseInterval)
	defer tick.Stop()
	for {
		records, err := readRecords(g.records())
		trouble := ""
		if err != nil {
			trouble = err.Error()
		}
		if trouble != "" && trouble != unread {
			s.logf("%s; it is tried again", trouble)
		}
		unread = trouble
		mine := slices.ContainsFunc(records, func(r record) bool { return r.Name == self && r.identity == me })
		if !mine && err == nil && (recorded || time.Since(begin) > recordGrace) {
			s.logf("no longer the supervisor of %s", dir)
			return nil
		}
		if mine {
			recorded = true
			slices.SortFunc(records, func(a, b record) int { return a.At.Compare(b.At) })
			for _, r := range records {
				if r.Name != self && ctx.Err() == nil {
					s.look(r, time.Now())
				}
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// supervisor is the state of Supervise.
type supervisor struct {
	group *Group
	log   io.Writer
	ended map[string]*ending // by the name of the process
}

// ending is what is known of a process that has ended, or had ended before.
type ending struct {
	of identity
	// restarts is the number of restarts without a run of stableRun between them.
	restarts int
	// due is the time of the next start.
	due time.Time
}

// look starts a process again if it has ended and its restart is due.
func (s *supervisor) look(r record, now time.Time) {
	if r.alive() {
		return
	}
	if p := s.group.Process(r.Name); p != nil && !ended(p) {
		return // it is not reaped yet
	}
	e := s.ended[r.Name]
	if e == nil {
		e = &ending{}
		s.ended[r.Name] = e
	}
	if e.of != r.identity {
		if now.Sub(r.At) >= stableRun {
			e.restarts = 0
		}
		delay := restartDelay(e.restarts)
		e.of, e.due = r.identity, now.Add(delay)
		s.logf("%s (process %d) has ended%s; it is started again in %v", r.Name, r.PID, s.state(r), delay)
	}
	if now.Before(e.due) {
		return
	}
	e.restarts++
	p, err := s.group.Start(r.Name, r.Path, r.Args...)
	if err != nil {
		delay := restartDelay(e.restarts)
		e.due = now.Add(delay)
		s.logf("%v; it is tried again in %v", err, delay)
		return
	}
	s.logf("%s is started again as process %d", r.Name, p.PID())
}

// ended reports whether a process that this group started has ended and was reaped.
func ended(p *Process) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// state returns how a process ended, if the supervisor had started it: ` (signal: killed)`.
func (s *supervisor) state(r record) string {
	p := s.group.Process(r.Name)
	if p == nil || p.PID() != r.PID || p.State() == nil {
		return ""
	}
	return fmt.Sprintf(" (%v)", p.State())
}

func (s *supervisor) logf(format string, args ...any) {
	fmt.Fprintf(s.log, "%s %s\n", time.Now().UTC().Format(time.RFC3339), fmt.Sprintf(format, args...))
}

// restartDelay returns the time between the end of a process and its start.
func restartDelay(restarts int) time.Duration {
	if restarts == 0 {
		return firstRestart
	}
	delay := restartBase
	for range restarts - 1 {
		delay = min(2*delay, longestRestart)
	}
	return delay
}
