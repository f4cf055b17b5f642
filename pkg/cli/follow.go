package cli

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// rereadEvery is the pause between two reads of a command that watches.
const rereadEvery = 2 * time.Second

// watchGroups prints the groups, and then the rows that change, until ctx ends. A change of
// the times alone does not count.
func (o *options) watchGroups(ctx context.Context, g *groupsOptions) error {
	printed := map[string][]string{}
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
			if err := o.writeChanged(rows, g, printed, first); err != nil {
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

// writeChanged writes the rows that differ from those in printed, and puts them there.
func (o *options) writeChanged(rows []listedGroup, g *groupsOptions, printed map[string][]string, first bool) error {
	var changed []listedGroup
	left := map[string]bool{}
	for _, row := range rows {
		at, cells := row.key.String(), o.steady(&row)
		left[at] = true
		if !slices.Equal(printed[at], cells) {
			printed[at] = cells
			changed = append(changed, row)
		}
	}
	for at := range printed {
		if !left[at] {
			delete(printed, at)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	shown := *g
	shown.noHeaders = g.noHeaders || !first
	return table(o.Out, o.cells(changed, &shown))
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
