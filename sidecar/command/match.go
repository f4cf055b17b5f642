package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// operations are the match operations, by the names that Fluxion uses.
var operations = []struct {
	name string
	op   match.Op
}{
	{"allocate", match.Allocate},
	{"allocate_with_satisfiability", match.Allocate},
	{"allocate_orelse_reserve", match.AllocateOrElseReserve},
	{"without_allocating", match.WithoutAllocating},
	{"without_allocating_future", match.WithoutAllocatingFuture},
}

// A matchCommand is the command match.
type matchCommand struct {
	query
	op     string
	format string
}

// Match returns the command that matches jobspecs against a graph, once.
func Match(open Opener) *cobra.Command {
	m := &matchCommand{query: query{open: open}}
	c := withUsage(&cobra.Command{
		Use:   "match --graph FILE --jobspec FILE",
		Short: "Match jobspecs against a graph, once, and write R",
		Long: `Match jobspecs against a graph, one after the other, and write the resources of each.

R is written to standard output. For each jobspec one line is written to standard
error: the result, start and end, and how long the match took. The resources are
released when the command ends.

Exit codes: 0 all jobspecs were matched, 2 the command line is wrong. Otherwise the first
failure decides: 1 a file or a jobspec is invalid, 3 there is no room now, 4 the jobspec
can never be matched.`,
		RunE: func(c *cobra.Command, _ []string) error {
			return m.run(c.Context(), c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
		},
	})
	m.addFlags(c.Flags())
	m.addJobspecFlags(c.Flags())
	c.Flags().StringVar(&m.op, "op", "allocate", "the match operation: "+strings.Join(operationNames(), ", "))
	c.Flags().StringVar(&m.format, "format", "", "the format of R: "+strings.Join(resource.Formats(), ", ")+
		" (default the option match_format, and without it rv1)")
	return c
}

func operationNames() []string {
	var names []string
	for _, o := range operations {
		names = append(names, o.name)
	}
	return names
}

// operation reads --op.
func (m *matchCommand) operation() (match.Op, error) {
	for _, o := range operations {
		if o.name == m.op {
			return o.op, nil
		}
	}
	return 0, usage("--op %q: must be one of %s", m.op, strings.Join(operationNames(), ", "))
}

// resultFormat reads --format, or the option match_format.
func (m *matchCommand) resultFormat() (string, error) {
	options, err := m.initOptions()
	if err != nil {
		return "", err
	}
	format := resource.FormatRV1
	if given, ok := options["match_format"]; ok {
		if err := json.Unmarshal(given, &format); err != nil {
			return "", usage("--options: match_format: %w", err)
		}
	}
	if m.format != "" {
		format = m.format
	}
	if !slices.Contains(resource.Formats(), format) {
		return "", usage("--format %q: must be one of %s", format, strings.Join(resource.Formats(), ", "))
	}
	return format, nil
}

func (m *matchCommand) run(ctx context.Context, in io.Reader, out, stderr io.Writer) error {
	if err := m.check(true); err != nil {
		return err
	}
	op, err := m.operation()
	if err != nil {
		return err
	}
	format, err := m.resultFormat()
	if err != nil {
		return err
	}
	requests, err := m.requests(in, op)
	if err != nil {
		return err
	}
	e, err := m.load(ctx, in)
	if err != nil {
		return err
	}
	code := exitOK
	for i, r := range requests {
		r.Epoch = e.epoch
		begin := time.Now()
		a, err := e.Match(ctx, r)
		took := time.Since(begin)
		if err == nil {
			err = writeR(out, a.R, format)
		}
		fmt.Fprintf(stderr, "job %d (%s): %s, in %v\n", r.ID, m.jobspecs[i], outcomeOf(a, err), took.Round(time.Microsecond))
		if code == exitOK {
			code = verdict(err)
		}
	}
	if code != exitOK {
		return &reportedError{code}
	}
	return nil
}

// outcomeOf returns the result of a jobspec in words.
func outcomeOf(a *match.Allocation, err error) string {
	if err != nil {
		return err.Error()
	}
	says := "allocated"
	if a.Reserved {
		says = "reserved"
	}
	says += fmt.Sprintf(" at %d", a.Start.Unix())
	if !a.End.IsZero() {
		says += fmt.Sprintf(" until %d", a.End.Unix())
	}
	return says
}

// writeR writes a set in one of the formats.
func writeR(out io.Writer, r *resource.Set, format string) error {
	if r == nil {
		return errors.New("the engine returned no R")
	}
	text, err := r.Format(format)
	if err != nil {
		return fmt.Errorf("write R as %s: %w", format, err)
	}
	if len(text) == 0 {
		return fmt.Errorf("write R as %s: the format lists only cores and gpus of nodes, and the match has none", format)
	}
	if text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	_, err = out.Write(text)
	return err
}
