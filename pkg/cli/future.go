package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/flux-k8s/fluence/pkg/fsd"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/pkg/simulate"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// parseAt returns the time of the flag --at: one of RFC 3339, a time of today in UTC, or a duration from now, as annotations
// and as Go have it.
func parseAt(text string, now time.Time) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	for _, layout := range []string{"15:04", time.TimeOnly} {
		if err != nil {
			at, err = time.Parse(time.DateOnly+" "+layout, now.UTC().Format(time.DateOnly)+" "+strings.TrimSuffix(text, "Z"))
		}
	}
	if err != nil {
		var from time.Duration
		if from, err = fsd.Parse(strings.TrimPrefix(text, "+")); err != nil {
			from, err = time.ParseDuration(text)
		}
		at = now.Add(from)
	}
	switch {
	case err != nil:
		return at, fmt.Errorf("--at: %q: must be a duration from now such as 30m, a time of today in UTC such as 15:04, or a time such as %s", text, now.UTC().Format(time.RFC3339))
	case at.Before(now):
		return at, fmt.Errorf("--at: %q: is in the past: it is %s now", text, now.UTC().Format(time.RFC3339))
	}
	return at, nil
}

// readFuture reads the cluster, and returns it as it is expected to be at a time.
func (o *options) readFuture(ctx context.Context, r *reader, c simulate.Configuration, at time.Time) (*simulate.Future, error) {
	cluster, err := r.readCluster(ctx)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(cluster.PodGroups, isToldNoReservations) {
		r.notes = append(r.notes, "the matcher's engine has no reservations: no group is promised room, and none that waits is shown")
		if c, err = c.WithDepth(0); err != nil {
			return nil, err
		}
	}
	return simulate.At(ctx, cluster, c, o.now(), at)
}

// isToldNoReservations reports whether the scheduler has written to a group that the matcher's engine has no reservations.
func isToldNoReservations(pg scheduling.PodGroup) bool {
	c := meta.FindStatusCondition(pg.Status.Conditions, report.ConditionScheduled)
	return c != nil && strings.Contains(c.Message, "the matcher's engine has no reservations")
}

// writeFuture writes what happens until the time that is shown, and what that assumes.
func (o *options) writeFuture(w io.Writer, f *simulate.Future, at time.Time) {
	fmt.Fprintf(w, "\n%s (in %s): %s ended\n", reason.Time(at, o.now()), duration.HumanDuration(at.Sub(o.now()).Round(time.Second)), hasEndedText(f.Ended))
	for _, s := range f.Promised {
		fmt.Fprintf(w, "promised %s from %s: %s\n", reason.Plural(len(s.Nodes), "node"), reason.Time(s.From, o.now()), printableName(s.Group.Namespace+"/"+shownName(s.Group.Name)))
	}
	fmt.Fprintf(w, "\n%s\nGroups that wait, and are not promised room by then, are not shown.\n", whenAssumes)
}

// hasEndedText says how many pods have ended.
func hasEndedText(n int) string {
	if n == 1 {
		return "1 pod has"
	}
	return reason.Plural(n, "pod") + " have"
}
