package command

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/flux-k8s/fluence/pkg/match"
)

// Satisfy returns the command that answers whether jobspecs could ever be matched.
func Satisfy(open Opener) *cobra.Command {
	a := &query{open: open}
	c := withUsage(&cobra.Command{
		Use:   "satisfy --graph FILE --jobspec FILE",
		Short: "Say whether jobspecs could be matched if no job held resources",
		Long: `Say for each jobspec whether it could be matched if no job held resources of the graph:
"yes", or "no" and why, one line for each on standard output.

Exit codes: 0 all could, 1 a file or a jobspec is wrong, 2 the command line is wrong,
4 one could not.`,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.satisfy(c.Context(), c.InOrStdin(), c.OutOrStdout())
		},
	})
	a.addFlags(c.Flags())
	a.addJobspecFlags(c.Flags())
	return c
}

func (a *query) satisfy(ctx context.Context, in io.Reader, out io.Writer) error {
	if err := a.check(true); err != nil {
		return err
	}
	requests, err := a.requests(in, match.Satisfiability)
	if err != nil {
		return err
	}
	e, err := a.load(ctx, in)
	if err != nil {
		return err
	}
	var code int
	for i, r := range requests {
		r.Epoch = e.epoch
		_, err := e.Match(ctx, r)
		answer := "yes"
		switch {
		case errors.Is(err, match.ErrUnsatisfiable):
			answer, code = "no: "+err.Error(), exitUnsatisfiable
		case err != nil:
			return fmt.Errorf("jobspec %s: %w", a.jobspecs[i], err)
		}
		if _, err := fmt.Fprintf(out, "%s: %s\n", a.jobspecs[i], answer); err != nil {
			return err
		}
	}
	if code != exitOK {
		return &reportedError{code}
	}
	return nil
}
