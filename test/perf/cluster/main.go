// Command cluster compares, on a new control plane, how fast Fluence and
// kube-scheduler bind a backlog of pods, and what that costs. It also measures
// how fast the API server can accept binds at all. make bench-cluster runs it.
//
//	cluster -row gangs-8
//	cluster -row quick -pods 800 -only fluence -arg matchPolicy=low
//	cluster -table
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/flux-k8s/fluence/test/cluster/tools"
	"github.com/flux-k8s/fluence/test/perf/cluster/report"
)

// These are the file of the results and the page with their tables, below the repository's root.
const (
	resultsFile = "test/perf/cluster/results.jsonl"
	pageFile    = "docs/performance.md"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	root, err := tools.RepositoryRoot()
	if err != nil {
		return err
	}
	if o.table {
		return writePage(root)
	}
	r, err := find(o.row)
	if err != nil {
		return err
	}
	if r, err = r.with(o.changes); err != nil {
		return err
	}
	return compare(ctx, root, r, o)
}

// writePage writes the tables of the results into the page.
func writePage(root string) error {
	path := filepath.Join(root, pageFile)
	was, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	page, err := madePage(root, string(was))
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// madePage returns the page with the tables of the results.
func madePage(root, was string) (string, error) {
	results, err := report.Read(filepath.Join(root, resultsFile))
	if err != nil {
		return "", err
	}
	var shown []report.Row
	for _, r := range rows() {
		shown = append(shown, r.Row)
	}
	page, err := report.Page(was, shown, results)
	if err != nil {
		return "", fmt.Errorf("%s: %w", pageFile, err)
	}
	return page, nil
}
