package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"
)

// Group starts processes, and ends them together. Its folder holds
// their logs (logs/NAME.log) and records (processes/NAME.json).
type Group struct {
	dir      string
	detached bool
	spawner  *spawner

	quit chan struct{}

	mu        sync.Mutex
	closed    bool // no further starts
	forgotten bool
	all       []*Process // in order of start
}

// NewGroup prepares dir, which must exist, for an
// empty group. The group lasts until Close or Forget.
func NewGroup(dir string, detached bool) (*Group, error) {
	g := newGroup(dir, detached)
	for _, d := range []string{g.logs(), g.records()} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, fmt.Errorf("prepare the process group: %w", err)
		}
	}
	if !detached {
		g.spawner = newSpawner()
	}
	return g, nil
}

func newGroup(dir string, detached bool) *Group {
	return &Group{dir: dir, detached: detached, quit: make(chan struct{})}
}

// Open returns the group of the detached processes whose records are in dir. It leaves
// out processes that have ended. Processes started in the group are detached too.
func Open(dir string) (*Group, error) {
	records, err := readRecords(filepath.Join(dir, "processes"))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(records, func(a, b record) int { return a.At.Compare(b.At) })
	g := newGroup(dir, true)
	for _, r := range records {
		if p := g.adopt(r); p != nil {
			g.all = append(g.all, p)
		}
	}
	return g, nil
}

func (g *Group) logs() string    { return filepath.Join(g.dir, "logs") }
func (g *Group) records() string { return filepath.Join(g.dir, "processes") }

// errClosed is the error of Start after Close or Forget.
var errClosed = errors.New("the process group is closed")

// Start runs the program at path, in the current directory. name is the
// name of its log and record. No running process of the group may have the
// name. The output is appended to the log of earlier processes of the name.
func (g *Group) Start(name, path string, args ...string) (*Process, error) {
	if !regexp.MustCompile(`^[a-zA-Z0-9._-]+$`).MatchString(name) {
		return nil, fmt.Errorf("start %q: the name does not suit a file", name)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, fmt.Errorf("start %s: %w", name, errClosed)
	}
	if g.running(name) != nil {
		return nil, fmt.Errorf("start %s: already running", name)
	}
	p, err := g.start(name, path, args)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	g.all = append(g.all, p)
	return p, nil
}

// start forks the process and records it. The caller holds the lock.
func (g *Group) start(name, path string, args []string) (*Process, error) {
	logPath := filepath.Join(g.logs(), name+".log")
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	info, err := log.Stat()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	begin := startDetached
	if !g.detached {
		begin = g.spawner.start
	}
	if err := begin(cmd); err != nil {
		return nil, err
	}
	p := &Process{name: name, handle: cmd.Process, from: info.Size(), done: make(chan struct{})}
	// The process is not reaped yet, so its id belongs to it even if it has ended.
	id, err := identify(cmd.Process.Pid)
	if errors.Is(err, errGone) {
		id, err = identity{PID: cmd.Process.Pid}, nil
	}
	p.record = record{identity: id, Name: name, Path: path, Args: args, Log: logPath, At: time.Now()}
	err = errors.Join(err, p.record.write(g.records()))
	if err != nil { // without a record it could not be found again
		_ = cmd.Process.Kill()
	}
	go func() {
		_ = cmd.Wait()
		p.state = cmd.ProcessState
		close(p.done)
	}()
	return p, err
}

// adopt returns the process that r describes, or nil if it has ended.
func (g *Group) adopt(r record) *Process {
	handle, err := os.FindProcess(r.PID)
	if err != nil || !r.alive() { // checked after the handle is bound to a process
		return nil
	}
	p := &Process{name: r.Name, record: r, handle: handle, done: make(chan struct{})}
	go func() {
		for r.alive() {
			select {
			case <-g.quit:
				return
			case <-time.After(pollInterval):
			}
		}
		close(p.done)
	}()
	return p
}

// Process returns the last started process of a name, or nil.
func (g *Group) Process(name string) *Process {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range slices.Backward(g.all) {
		if p.name == name {
			return p
		}
	}
	return nil
}

// Processes returns all processes that Start has started
// or Open has found running, in the order of their starts.
func (g *Group) Processes() []*Process {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.all)
}

// running returns the running process of a name, or nil. The caller holds the lock.
func (g *Group) running(name string) *Process {
	for _, p := range g.all {
		select {
		case <-p.done:
		default:
			if p.name == name {
				return p
			}
		}
	}
	return nil
}

// Close refuses further starts and ends all processes, the last started first.
// A process for which gently returns true gets SIGTERM, and time until ctx is
// done. All others are killed at once. Close returns when all have ended.
func (g *Group) Close(ctx context.Context, gently func(name string) bool) error {
	g.mu.Lock()
	already := g.closed
	g.closed = true
	g.mu.Unlock()
	if already {
		return nil
	}
	var errs []error
	for _, p := range slices.Backward(g.Processes()) {
		if gently != nil && gently(p.name) {
			errs = append(errs, p.Stop(ctx))
			continue
		}
		errs = append(errs, p.Kill(context.WithoutCancel(ctx)))
	}
	g.Forget()
	return errors.Join(errs...)
}

// Forget releases what the group holds in this process. That kills attached
// processes, and detached processes live on. A second call does nothing.
func (g *Group) Forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	if g.forgotten {
		return
	}
	g.forgotten = true
	close(g.quit)
	if g.spawner != nil {
		g.spawner.close()
	}
}
