// Command long runs in full what `make test` runs in small: with more
// trials, groups and events. It prints one line for each part. After a part
// that fails the others still run, and the output of that part is kept.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/flux-k8s/fluence/test/cluster/tools"
)

func main() {
	seed := flag.Uint64("seed", 0, "what all parts draw from; 0 is another for each of them")
	dir := flag.String("dir", "", "the folder that the output of parts that fail, and of rows of the benchmark, is kept in")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := start(ctx, *seed, *dir, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "long:", err)
		os.Exit(1)
	}
}

// start runs the named parts, or all if none is named.
func start(ctx context.Context, seed uint64, dir string, names []string) error {
	chosen, err := choose(parts(), names)
	if err != nil {
		return err
	}
	root, err := tools.RepositoryRoot()
	if err != nil {
		return err
	}
	if dir == "" {
		return errors.New("-dir: must name a folder")
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return fmt.Errorf("-dir: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("-dir: %w", err)
	}
	r := runner{out: os.Stdout, root: root, dir: dir, seed: func() uint64 {
		if seed != 0 {
			return seed
		}
		return 1 + uint64(rand.Uint32())
	}}
	return r.run(ctx, chosen)
}

// choose returns the parts of some names in the order of all, or all if none is named.
func choose(all []part, names []string) ([]part, error) {
	if len(names) == 0 {
		return all, nil
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(p part) bool { return p.name == name }) {
			return nil, fmt.Errorf("no part is called %q; there are %s", name, strings.Join(namesOf(all), ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(p part) bool { return !slices.Contains(names, p.name) }), nil
}

func namesOf(all []part) []string {
	var names []string
	for _, p := range all {
		names = append(names, p.name)
	}
	return names
}
