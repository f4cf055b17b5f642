package cli

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	shown := o.shownGroups(g)
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
			if err == nil && first && len(all) == 0 {
				fmt.Fprintln(o.ErrOut, nothingIn(r.namespace, !g.isEmpty()))
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
			if err := o.writeChanged(rows, g, shown); err != nil {
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
	// text is what the table has written and the user has not got yet.
	text *bytes.Buffer
	// headed is true if the rows have a header above them.
	headed bool
	rows   map[string]shownGroup
}

// usualWidths are how wide the cells of columns usually become while a watch goes on.
var usualWidths = map[string]int{"NAMESPACE": 12, "NAME": 20, "PHASE": len(phaseTerminating), "WAIT": 5, "RUN": 5, "START": 9}

// shownGroups returns that nothing has been written.
func (o *options) shownGroups(g *groupsOptions) *shownGroups {
	how := *g
	how.noHeaders = false
	var widths []int
	for _, head := range o.cells(nil, &how)[0] {
		width := len(head)
		for name, usual := range usualWidths {
			if head == name || head == o.paint(plain, name) {
				width += max(0, usual-len(name))
			}
		}
		widths = append(widths, width)
	}
	text := &bytes.Buffer{}
	return &shownGroups{table: newTable(text, widths[:len(widths)-1]...), text: text, rows: map[string]shownGroup{}}
}

// A shownGroup is a group as a watch has last written it. steady is what may not change without a new row.
type shownGroup struct {
	steady []string
	listedGroup
}

// writeChanged writes the rows that have changed since they were shown, and remembers them, with a header if
// the columns have become wider than under the last one. It writes a last row for a group that is gone. With flags that choose groups it writes none, because a group also leaves such a list when it changes.
func (o *options) writeChanged(rows []listedGroup, g *groupsOptions, shown *shownGroups) error {
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
	how.noHeaders = g.noHeaders || shown.headed
	wider, err := shown.table.add(o.cells(changed, &how))
	if err != nil {
		return err
	}
	if wider && shown.headed && !g.noHeaders {
		// The last header does not stand above these columns.
		shown.text.Reset()
		how.noHeaders = false
		if _, err := shown.table.add(o.cells(changed, &how)); err != nil {
			return err
		}
	}
	shown.headed = true
	_, err = shown.text.WriteTo(o.Out)
	return err
}

// gone returns the last row of a group that does not exist any more.
func gone(g listedGroup) listedGroup {
	g.Position, g.Bound, g.Pending, g.Nodes = 0, 0, 0, nil
	g.WaitSeconds, g.RunSeconds, g.Promised = nil, nil, metav1.Time{}
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
	return append(o.row(&still, true, true)[:9], clock(still.Promised), why, still.Status, counts(still.Nodes, 0))
}
