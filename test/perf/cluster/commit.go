package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// gitTimeout bounds one call of git.
const gitTimeout = 30 * time.Second

// commitOf returns the commit that is checked out below root, and whether
// the tree differs from it. It ignores changes of the results and of the
// page made from them, because rows are often run one after another.
func commitOf(ctx context.Context, root string) (commit string, dirty bool, err error) {
	commit, err = git(ctx, root, "rev-parse", "--short=12", "HEAD")
	if err != nil {
		return "", false, err
	}
	changed, err := git(ctx, root, "status", "--porcelain", "--", ".", ":!"+resultsFile, ":!"+pageFile)
	if err != nil {
		return "", false, err
	}
	return commit, changed != "", nil
}

func git(ctx context.Context, root string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = root
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, complaint.String())
	}
	return strings.TrimSpace(string(out)), nil
}
