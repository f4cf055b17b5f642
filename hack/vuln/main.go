// Command vuln runs govulncheck to look for known vulnerabilities in packages. It fails if
// a vulnerable function is called and the list of allowed vulnerabilities does not name it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

// These are the exit codes.
const (
	exitFound      = 1
	exitNotChecked = 2
)

// longest bounds the run of govulncheck.
const longest = 30 * time.Minute

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run runs a command line and returns its exit code. It is 0 if nothing was found that
// is not allowed, exitFound if something was, and exitNotChecked if the check failed.
func run(args []string, out, problems io.Writer) int {
	fs := flag.NewFlagSet("vuln", flag.ContinueOnError)
	fs.SetOutput(problems)
	program := fs.String("govulncheck", "govulncheck", "the program that looks")
	list := fs.String("allowed", "hack/vuln/allowed.txt", "the file with what is allowed, a number and a reason in each line")
	db := fs.String("db", "", "the database, such as file:///copy; empty is that of the Go project")
	if err := fs.Parse(args); err != nil {
		return exitNotChecked
	}
	text, err := os.ReadFile(*list)
	if err != nil {
		fmt.Fprintf(problems, "vuln: read what is allowed: %v\n", err)
		return exitNotChecked
	}
	allowed, err := readAllowed(string(text))
	if err != nil {
		fmt.Fprintf(problems, "vuln: %s: %v\n", *list, err)
		return exitNotChecked
	}
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	stream, err := scan(ctx, *program, *db, fs.Args())
	if err != nil {
		fmt.Fprintf(problems, "vuln: nothing was checked: %v\n", err)
		return exitNotChecked
	}
	found, err := read(stream)
	if err != nil {
		fmt.Fprintf(problems, "vuln: nothing was checked: read what govulncheck writes: %v\n", err)
		return exitNotChecked
	}
	if !report(out, found, allowed) {
		return exitFound
	}
	return 0
}

// errAway means that the database cannot be reached.
var errAway = errors.New("the database of weaknesses is not reached")

// scan runs govulncheck and returns its output.
func scan(ctx context.Context, program, db string, patterns []string) (io.Reader, error) {
	args := []string{"-format", "json"}
	if db != "" {
		args = append(args, "-db", db)
	}
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(ctx, program, append(args, patterns...)...)
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(problems.String())
		if strings.Contains(said, "fetching vulnerabilities") {
			return nil, fmt.Errorf("%w: %s; -db (VULNDB of make) names another, such as a copy in a folder", errAway, said)
		}
		return nil, fmt.Errorf("%s: %w: %s", program, err, said)
	}
	return &out, nil
}

// A weakness is a known vulnerability in a function that is called.
type weakness struct {
	id, summary, module, version, fixed, function string
}

// message is the part of govulncheck's output that is used.
type message struct {
	Config *struct{}
	OSV    *struct{ ID, Summary string }
	// Finding is about a module, a package or a function. A
	// finding with a function means that the function is called.
	Finding *struct {
		OSV          string
		FixedVersion string `json:"fixed_version"`
		Trace        []struct{ Module, Version, Package, Function string }
	}
}

// read returns the vulnerabilities that are called, by their numbers.
func read(stream io.Reader) (map[string]weakness, error) {
	found, summaries, begun := map[string]weakness{}, map[string]string{}, false
	for in := json.NewDecoder(stream); ; {
		var m message
		if err := in.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		begun = begun || m.Config != nil
		if m.OSV != nil {
			summaries[m.OSV.ID] = m.OSV.Summary
		}
		if f := m.Finding; f != nil && len(f.Trace) > 0 && f.Trace[0].Function != "" {
			at := f.Trace[0]
			found[f.OSV] = weakness{id: f.OSV, module: at.Module, version: at.Version, fixed: f.FixedVersion, function: at.Package + "." + at.Function}
		}
	}
	if !begun {
		return nil, errors.New("it is empty")
	}
	for id, w := range found {
		w.summary = summaries[id]
		found[id] = w
	}
	return found, nil
}

// report prints what was found, and reports whether all of it is allowed.
func report(out io.Writer, found map[string]weakness, allowed map[string]string) bool {
	well := true
	for _, id := range slices.Sorted(maps.Keys(found)) {
		w := found[id]
		if why, ok := allowed[id]; ok {
			fmt.Fprintf(out, "%s is allowed: it %s\n", id, why)
			continue
		}
		well = false
		fixed := "no fix is known"
		if w.fixed != "" {
			fixed = "fixed in " + w.fixed
		}
		fmt.Fprintf(out, "%s: %s: %s@%s is called at %s; %s\n", id, w.summary, w.module, w.version, w.function, fixed)
	}
	for _, id := range slices.Sorted(maps.Keys(allowed)) {
		if _, ok := found[id]; !ok {
			fmt.Fprintf(out, "%s is allowed and not found\n", id)
		}
	}
	if well {
		fmt.Fprintln(out, "No weakness is known in what is called, but for those that are allowed.")
	}
	return well
}

var allowance = regexp.MustCompile(`^(GO-\d{4}-\d+) (\S.*)$`)

// readAllowed returns the reasons of a list, by number.
func readAllowed(text string) (map[string]string, error) {
	all := map[string]string{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		m := allowance.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("line %d: %q is not a number such as GO-2025-3521 and a reason", n, line)
		}
		if all[m[1]] != "" {
			return nil, fmt.Errorf("line %d: %s stands there twice", n, m[1])
		}
		all[m[1]] = m[2]
	}
	return all, nil
}
