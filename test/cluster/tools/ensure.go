package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// progress counts the programs, and reports each program that is built.
type progress struct {
	log         io.Writer
	done, total int
}

func (p *progress) printf(format string, args ...any) {
	if p.log != nil {
		fmt.Fprintf(p.log, format, args...)
	}
}

// buildFlags returns flags that are the same for every program, here and in
// the Makefile. So packages that several programs share are compiled once.
func buildFlags() []string { return []string{"-trimpath", "-buildvcs=false", "-mod=readonly"} }

func buildEnv() []string { return []string{"CGO_ENABLED=0", "GOWORK=off"} }

// ensure returns the bundle's folder. It builds the bundle if the folder does not exist.
func (b *bundle) ensure(ctx context.Context, cache string, p *progress) (string, error) {
	key, err := b.key()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, b.name+"-"+key)
	if exists(dir) {
		p.done += len(b.programs)
		now := time.Now()
		return dir, os.Chtimes(dir, now, now) // see prune
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(ctx, filepath.Join(cache, b.name+".lock"), p)
	if err != nil {
		return "", err
	}
	defer unlock()
	if exists(dir) { // built by the process that held the lock
		p.done += len(b.programs)
		return dir, nil
	}
	if err := b.prune(cache); err != nil {
		return "", err
	}
	// The folder has a unique name, so that a compiler that
	// outlives its caller does not write into a later build.
	partial, err := os.MkdirTemp(cache, b.name+partialMark)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(partial)
	if err := b.fill(ctx, partial, p); err != nil {
		return "", err
	}
	return dir, os.Rename(partial, dir)
}

const (
	// partialMark follows the bundle's name in the folder of a running build.
	partialMark = ".partial-"
	// keep is how long an unused folder is kept, because developers switch between branches.
	keep = 30 * 24 * time.Hour
)

// prune removes the folders of interrupted builds, and folders of other keys
// that have not been used for a long time. The caller holds the bundle's lock.
func (b *bundle) prune(cache string) error {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return err
	}
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), b.name)
		if !ok || !e.IsDir() {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		old := strings.HasPrefix(rest, "-") && time.Since(info.ModTime()) > keep
		if !old && !strings.HasPrefix(rest, partialMark) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(cache, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// fill builds the programs and copies the files into dir.
func (b *bundle) fill(ctx context.Context, dir string, p *progress) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	for _, prog := range b.programs {
		p.done++
		p.printf("[%d/%d] building %s ...", p.done, p.total, prog.name)
		start := time.Now()
		args := append([]string{"build", "-ldflags", prog.ldflags, "-o", filepath.Join(dir, prog.name)}, buildFlags()...)
		if _, err := b.goCommand(ctx, append(args, prog.pkg)...); err != nil {
			p.printf(" stopped\n")
			return fmt.Errorf("build %s: %w", prog.name, err)
		}
		p.printf(" %.1fs\n", time.Since(start).Seconds())
	}
	for _, c := range b.copies {
		module, err := b.goCommand(ctx, "list", "-m", "-f", "{{.Dir}}", c.module)
		if err != nil {
			return fmt.Errorf("find module %s: %w", c.module, err)
		}
		if err := copyTo(filepath.Join(dir, c.name), filepath.Join(module, c.path)); err != nil {
			return fmt.Errorf("copy %s of %s: %w", c.path, c.module, err)
		}
	}
	return nil
}

// copyTo copies a file, or a folder with all that is in it. The files of
// the module cache are read-only. Their copies are not, so that prune can remove them.
func copyTo(to, from string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if e.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), text, 0o644)
	})
}

// goCommand runs the go command in the bundle's module and returns its output.
func (b *bundle) goCommand(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), buildEnv()...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", args[0], err, stderr.String())
	}
	return strings.TrimSpace(stdout.String()), nil
}

// lock takes the lock file at path. The kernel releases it however the holder ends.
func lock(ctx context.Context, path string, p *progress) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	told := false
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !told {
			p.printf("waiting for another build (%s)\n", path)
			told = true
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("wait for another build: %w", ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
