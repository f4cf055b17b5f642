package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/flux-k8s/fluence/test/cluster/process"
)

// tempPattern is the beginning of the temporary folders' names,
// by which they are found when their owners were killed.
const tempPattern = "fluence-cluster-"

// stateFile marks a folder as a cluster's. lockFile is locked while a
// process owns the folder. The kernel unlocks it however the process ends.
const (
	stateFile = "cluster.json"
	lockFile  = "lock"
)

// stateDir is a folder that this process owns until release.
type stateDir struct {
	path      string
	temporary bool
	lock      *os.File // nil if released or never owned
}

// newStateDir takes a folder, or a new temporary one if path is empty.
func newStateDir(ctx context.Context, path string) (*stateDir, error) {
	if path == "" {
		return newTempDir(ctx)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find the state folder: %w", err)
	}
	ours, err := isStateDir(path)
	if err != nil {
		return nil, err
	}
	if !ours {
		return nil, fmt.Errorf("%s is not empty and not a cluster's", path)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make the state folder: %w", err)
	}
	lock, err := tryLock(filepath.Join(path, lockFile))
	if err != nil {
		return nil, fmt.Errorf("a cluster runs or starts in %s: %w", path, err)
	}
	d := &stateDir{path: path, lock: lock}
	err = d.checkEnded()
	if err == nil {
		err = d.clear()
	}
	if err != nil {
		return nil, errors.Join(err, d.release(false))
	}
	return d, nil
}

// checkEnded fails if a detached cluster, which holds no lock, runs in the folder.
func (d *stateDir) checkEnded() error {
	g, err := process.Open(d.path)
	if err != nil {
		return err
	}
	defer g.Forget()
	if alive := g.Processes(); len(alive) > 0 {
		return fmt.Errorf("a cluster runs in %s (%s, process %d)", d.path, alive[0].Name(), alive[0].PID())
	}
	return nil
}

// isStateDir reports whether path is a cluster's, is empty, or does not
// exist. A cluster may then take it and remove it. A start that was
// killed early leaves the lock and perhaps the first draft of the state.
func isStateDir(path string) (bool, error) {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the state folder: %w", err)
	}
	ours := true
	for _, e := range entries {
		switch e.Name() {
		case stateFile:
			return true, nil
		case lockFile, stateFile + ".new":
		default:
			ours = false
		}
	}
	return ours, nil
}

// clear removes what an earlier cluster left, except the lock.
func (d *stateDir) clear() error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return fmt.Errorf("clear the state folder: %w", err)
	}
	for _, e := range entries {
		if e.Name() == lockFile {
			continue
		}
		if err := os.RemoveAll(filepath.Join(d.path, e.Name())); err != nil {
			return fmt.Errorf("clear the state folder: %w", err)
		}
	}
	return nil
}

// newTempDir makes a temporary folder, and removes the folders of killed owners. Both happen under
// one lock. Otherwise another process could take the new folder for abandoned before it is locked.
func newTempDir(ctx context.Context) (*stateDir, error) {
	all, err := waitLock(ctx, filepath.Join(os.TempDir(), fmt.Sprintf("%s%d.lock", tempPattern, os.Getuid())))
	if err != nil {
		return nil, fmt.Errorf("make a temporary folder: %w", err)
	}
	defer all.Close()
	removeAbandoned()
	path, err := os.MkdirTemp("", tempPattern)
	if err != nil {
		return nil, fmt.Errorf("make a temporary folder: %w", err)
	}
	lock, err := tryLock(filepath.Join(path, lockFile))
	if err != nil {
		return nil, fmt.Errorf("lock a temporary folder: %w", err)
	}
	return &stateDir{path: path, temporary: true, lock: lock}, nil
}

// removeAbandoned removes temporary folders without an owner. It leaves a folder that cannot be
// removed to the next caller: another user may have made it, or its processes are still dying.
func removeAbandoned() {
	found, _ := filepath.Glob(filepath.Join(os.TempDir(), tempPattern+"*", lockFile))
	for _, path := range found {
		lock, err := tryLock(path)
		if err != nil {
			continue
		}
		_ = os.RemoveAll(filepath.Dir(path))
		lock.Close()
	}
}

// release gives up the folder, and removes it if remove is true. A second call does nothing.
func (d *stateDir) release(remove bool) error {
	if d.lock == nil {
		return nil
	}
	var err error
	if remove {
		err = os.RemoveAll(d.path)
	}
	d.lock.Close()
	d.lock = nil
	return err
}

// tryLock locks the file at path. It fails with EWOULDBLOCK if another process holds it.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// waitLock locks the file at path. It waits for the lock until ctx is done.
func waitLock(ctx context.Context, path string) (*os.File, error) {
	for {
		f, err := tryLock(path)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for %s: %w", path, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
