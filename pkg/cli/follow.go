package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/printers"
)

const (
	// rereadEvery is the least pause between two reads of a command that watches, and maxPause the longest one
	// that failures cause.
	rereadEvery = 2 * time.Second
	maxPause    = time.Minute
)

// watchGroups prints the groups, and then the rows that change, until ctx ends or the user may not read any more. A
// change of the times or of the place alone does not count.
func (o *options) watchGroups(ctx context.Context, g *groupsOptions) error {
	shown := &shownGroups{table: growingTable{printers.GetNewTabWriter(o.Out)}, rows: map[string]shownGroup{}}
	failures := 0
	for first := true; ; first = false {
		var rows []listedGroup
		began := time.Now()
		err := o.withTimeout(ctx, func(ctx context.Context) error {
			all, r, err := o.listGroups(ctx, g)
			if err == nil && first {
				o.noteStopped(ctx, r, oldAnswers)
				o.notes(r.notes)
			}
			rows = all
			return err
		})
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the user has ended the watch
		}
		failures++
		switch {
		case err != nil && (first || apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err)):
			return err
		case err == nil:
			failures = 0
			if err := o.writeChanged(rows, g, shown, first); err != nil {
				return err
			}
			g.mayBeGone = true
		}
		pause := pauseAfter(time.Since(began), failures)
		if err != nil {
			fmt.Fprintf(o.ErrOut, "note: read again in %s: %v\n", pause.Round(time.Second), withAdvice(err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-o.after(pause):
		}
	}
}

// pauseAfter returns the pause after a read that took some time, so that reads take at most a sixth of the time. It
// doubles with each failure, up to a minute.
func pauseAfter(took time.Duration, failures int) time.Duration {
	pause := max(rereadEvery, 5*took)
	for range failures {
		if pause < maxPause {
			pause = min(2*pause, maxPause)
		}
	}
	return pause
}

// shownGroups are the groups that a watch has written, by their keys.
type shownGroups struct {
	table growingTable
	rows  map[string]shownGroup
}

// A shownGroup is a group as a watch has last written it. steady is what may not change without a new row.
type shownGroup struct {
	steady []string
	listedGroup
}

// writeChanged writes the rows that have changed since they were shown, and remembers them. It writes a last row for a group
// that is gone. With flags that choose groups it writes none, because a group also leaves such a list when it changes.
func (o *options) writeChanged(rows []listedGroup, g *groupsOptions, shown *shownGroups, first bool) error {
	var changed []listedGroup
	left := map[string]bool{}
	for _, row := range rows {
		at, cells := row.key.String(), o.steady(&row)
		left[at] = true
		if !slices.Equal(shown.rows[at].steady, cells) {
			changed = append(changed, row)
		}
		shown.rows[at] = shownGroup{cells, row}
	}
	for _, at := range sortedKeys(shown.rows) {
		if left[at] {
			continue
		}
		if !g.hasFlags() {
			changed = append(changed, gone(shown.rows[at].listedGroup))
		}
		delete(shown.rows, at)
	}
	if len(changed) == 0 {
		return nil
	}
	how := *g
	how.noHeaders = g.noHeaders || !first
	return shown.table.add(o.cells(changed, &how))
}

// gone returns the last row of a group that does not exist any more.
func gone(g listedGroup) listedGroup {
	g.Position, g.Bound, g.Pending, g.Nodes = 0, 0, 0, nil
	g.WaitSeconds, g.RunSeconds = nil, nil
	g.Status, g.Phase, g.WaitingFor = "", "-", "gone"
	return g
}

// steady returns what is shown of a group, without what changes with time alone, and without its place, which changes
// with other groups.
func (o *options) steady(g *listedGroup) []string {
	still := *g
	still.Position, still.WaitSeconds, still.RunSeconds = 0, nil, nil
	why := still.WaitingFor
	if still.Status != statusFinished {
		why = o.reasonText(&still.groupSummary)
	}
	return append(o.row(&still, true, true)[:9], why, still.Status, counts(still.Nodes, 0))
}
