package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/cli-runtime/pkg/printers"
)

// rereadEvery is the pause between two reads of a command that watches.
const rereadEvery = 2 * time.Second

// watchGroups prints the groups, and then the rows that change, until ctx ends. A change of
// the times alone does not count.
func (o *options) watchGroups(ctx context.Context, g *groupsOptions) error {
	shown := &shownGroups{table: growingTable{printers.GetNewTabWriter(o.Out)}, rows: map[string][]string{}}
	again := time.NewTicker(rereadEvery)
	defer again.Stop()
	for first := true; ; first = false {
		var rows []listedGroup
		err := o.withTimeout(ctx, func(ctx context.Context) error {
			all, r, err := o.listGroups(ctx, g)
			if err == nil && first {
				o.notes(r.notes)
			}
			rows = all
			return err
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && first:
			return err
		case err != nil:
			fmt.Fprintf(o.ErrOut, "note: read again in %s: %v\n", rereadEvery, withAdvice(err))
		default:
			if err := o.writeChanged(rows, g, shown, first); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
	}
}

// shownGroups are the rows that a watch has written, by the keys of the groups.
type shownGroups struct {
	table growingTable
	rows  map[string][]string
}

// writeChanged writes the rows that differ from those that were shown, and remembers them.
func (o *options) writeChanged(rows []listedGroup, g *groupsOptions, shown *shownGroups, first bool) error {
	var changed []listedGroup
	left := map[string]bool{}
	for _, row := range rows {
		at, cells := row.key.String(), o.steady(&row)
		left[at] = true
		if !slices.Equal(shown.rows[at], cells) {
			shown.rows[at] = cells
			changed = append(changed, row)
		}
	}
	for at := range shown.rows {
		if !left[at] {
			delete(shown.rows, at)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	how := *g
	how.noHeaders = g.noHeaders || !first
	return shown.table.add(o.cells(changed, &how))
}

// steady returns what is shown of a group, without what changes with time alone.
func (o *options) steady(g *listedGroup) []string {
	still := *g
	still.WaitSeconds, still.RunSeconds = nil, nil
	why := still.WaitingFor
	if still.Status != statusFinished {
		why = o.reasonText(&still.groupSummary)
	}
	return append(o.row(&still, true, true)[:9], why, still.Status, counts(still.Nodes, 0))
}
