// Command reference writes docs/reference.md and docs/commands.md from the sources and the programs,
// so that no name is described in two places. It runs in the folder of the repository.
//
//	main.go      Which pages are there, and are they up to date?
//	tables.go    What do tables look like?
//	keys.go      Which labels and annotations are there?
//	kinds.go     Which fields do PodGroups, Queues and FluxJobs have?
//	reasons.go   Which reasons do conditions and events have?
//	args.go      Which arguments does the plugin have?
//	programs.go  Which flags and commands do the programs have?
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
)

// A page is a file with what writes its text.
type page struct {
	path string
	text func() (string, error)
}

var pages = []page{
	{"docs/reference.md", reference},
	{"docs/commands.md", commands},
}

func main() {
	check := flag.Bool("check", false, "write nothing, and fail if a page is out of date")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: go run ./hack/reference [-check] [PAGE ...]\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(*check, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

// run writes the pages with these paths, or all of them.
func run(check bool, paths []string) error {
	wanted := pages
	if len(paths) > 0 {
		wanted = nil
	}
	for _, path := range paths {
		i := 0
		for i < len(pages) && pages[i].path != path {
			i++
		}
		if i == len(pages) {
			return fmt.Errorf("page %q: must be %s or %s", path, pages[0].path, pages[1].path)
		}
		wanted = append(wanted, pages[i])
	}
	for _, p := range wanted {
		text, err := p.text()
		if err != nil {
			return fmt.Errorf("%s: %w", p.path, err)
		}
		if !check {
			if err := os.WriteFile(p.path, []byte(text), 0o644); err != nil {
				return err
			}
			continue
		}
		have, err := os.ReadFile(p.path)
		if err != nil {
			return err
		}
		if !bytes.Equal(have, []byte(text)) {
			return fmt.Errorf("%s is out of date from line %d on: run `make generate`", p.path, firstDifference(string(have), text))
		}
	}
	return nil
}

// firstDifference returns the number of the first line, counted from 1, in which two texts differ.
func firstDifference(a, b string) int {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return i + 1
		}
	}
	return min(len(x), len(y)) + 1
}

// reference returns the page that needs only the sources.
func reference() (string, error) {
	var b strings.Builder
	b.WriteString(`# Reference

This page lists labels and annotations, the fields of PodGroups, Queues and FluxJobs, conditions, reasons and events,
and the arguments of the scheduler, for users and administrators. ` + "`make generate`" + ` writes it from the sources;
do not edit it. [commands.md](commands.md) has the commands and flags of the programs, [metrics.md](metrics.md)
the metrics.

`)
	for _, section := range []func() (string, error){keys, kinds, reasons, arguments} {
		text, err := section()
		if err != nil {
			return "", err
		}
		b.WriteString(text)
		b.WriteString("\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n", nil
}
