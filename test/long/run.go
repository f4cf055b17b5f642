package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// longest bounds a part.
	longest = 12 * time.Hour
	// parting is how long a part may take to end after SIGTERM.
	parting = time.Minute
)

// A runner runs parts one after another.
type runner struct {
	out io.Writer
	// root is the folder in which commands run. dir is the folder for kept output.
	root, dir string
	// seed returns the seed of a part.
	seed func() uint64
}

// run runs all parts, even after failures. It returns an error
// with the names of the parts that failed. It stops when ctx ends.
func (r *runner) run(ctx context.Context, parts []part) error {
	var failed []string
	for i, p := range parts {
		if ctx.Err() != nil {
			failed = append(failed, namesOf(parts[i:])...)
			break
		}
		seed, begin := r.seed(), time.Now()
		fmt.Fprintf(r.out, "[%d/%d] %s: %s", i+1, len(parts), p.name, p.what(seed))
		output, err := r.carryOut(ctx, p, seed)
		took := time.Since(begin).Round(time.Second)
		if err == nil {
			fmt.Fprintf(r.out, ", %s, ok\n", took)
			continue
		}
		failed = append(failed, p.name)
		fmt.Fprintf(r.out, ", %s, FAILED (%v): %s\n", took, err, output)
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d parts did not pass: %s", len(failed), len(parts), strings.Join(failed, ", "))
	}
	return nil
}

// carryOut runs the command of a part, and returns the file of its output.
// It removes the file if the part passes, unless the part keeps its output.
func (r *runner) carryOut(ctx context.Context, p part, seed uint64) (output string, err error) {
	output = filepath.Join(r.dir, p.name+".log")
	file, err := os.Create(output)
	if err != nil {
		return output, fmt.Errorf("keep the output: %w", err)
	}
	defer file.Close()
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	command := p.filledIn(seed, r.dir)
	fmt.Fprintf(file, "$ %s\n", command)
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.root, file, file
	// The command starts other processes. They have to end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = parting
	err = cmd.Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil || p.keeps() {
		return output, err
	}
	return output, os.Remove(output)
}
