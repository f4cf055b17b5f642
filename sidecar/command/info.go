package command

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/spf13/cobra"
)

// Info returns the command that describes a graph.
func Info(open Opener) *cobra.Command {
	a := &query{open: open}
	c := withUsage(&cobra.Command{
		Use:   "info --graph FILE",
		Short: "Describe a graph",
		Long: `Load a graph and describe it: the number of vertices of each type, how many of them are
down and the sum of their sizes, the levels from the root down, ranks, properties, and how
much time and memory the engine needs to load it.

Exit codes: 0 the graph was loaded, 1 it cannot be loaded, 2 the command line is wrong.`,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.info(c.Context(), c.InOrStdin(), c.OutOrStdout())
		},
	})
	a.addFlags(c.Flags())
	return c
}

func (a *query) info(ctx context.Context, in io.Reader, out io.Writer) error {
	if err := a.check(false); err != nil {
		return err
	}
	e, err := a.load(ctx, in)
	if err != nil {
		return err
	}
	// The memory of the graph is the memory that becomes free when the graph is dropped.
	used := heap()
	if _, err := e.Reset(ctx); err != nil {
		return err
	}
	used = max(0, used-heap())
	c, err := graphStatsOf(e.text)
	if err != nil {
		return fmt.Errorf("graph %s: %w", a.graph, err)
	}
	if err := c.write(out); err != nil {
		return err
	}
	memory := ""
	if a.engine == Embedded { // The memory of a library cannot be measured this way.
		memory = fmt.Sprintf(", into %d bytes of memory", used)
	}
	_, err = fmt.Fprintf(out, "\nloaded %d bytes of JGF in %v%s\n", len(e.text), e.took.Round(time.Microsecond), memory)
	return err
}

// heap returns the number of bytes in use after two garbage collections, because pools survive the
// first one.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
