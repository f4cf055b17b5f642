package invariants

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// settleEvery is the interval at which Settle looks.
	settleEvery = 250 * time.Millisecond
	// settled is how many times in a row all groups must be at rest,
	// because a group that is placed may show a refusal a moment before.
	settled = 8
)

// Settle waits until every group is at rest: all its pods are
// placed, or it is refused with a reason. A group that is not at
// rest when ctx ends is a violation. Settle returns an error for it.
func (c *Checker) Settle(ctx context.Context) error {
	quiet := 0
	err := wait.PollUntilContextCancel(ctx, settleEvery, true, func(context.Context) (bool, error) {
		rest := true
		c.tell(func(j *judge) { rest = len(j.restless(time.Now())) == 0 })
		quiet++
		if !rest {
			quiet = 0
		}
		return quiet >= settled, nil
	})
	if err == nil {
		return nil
	}
	n := 0
	c.tell(func(j *judge) {
		left := j.restless(time.Now())
		n = len(left)
		for _, fam := range left {
			have := fam.count()
			j.report(RuleNotAtRest, fam.about, time.Now(), "it must be placed, or refused with a reason: %d pods wait and %d are on nodes; PodGroup %s; pods: %s",
				have.pending, have.serving, fam.group, fam.describePods())
		}
	})
	return fmt.Errorf("wait until all groups are at rest (%d are not): %w", n, err)
}

// restless returns the families that are not at rest, by name.
func (j *judge) restless(now time.Time) (found []*family) {
	for _, fam := range j.families {
		if !j.atRest(fam, now) {
			found = append(found, fam)
		}
	}
	slices.SortFunc(found, func(a, b *family) int { return cmp.Compare(a.key.String(), b.key.String()) })
	return found
}

func (j *judge) atRest(fam *family, now time.Time) bool {
	c := fam.count()
	if fam.group == nil {
		return c.pending == 0 || fam.podTold
	}
	if c.serving == 0 && c.pending == 0 || j.abandoned(fam, now) {
		return true
	}
	refused := fam.group.untold(c.serving) == "" && fam.group.stale(c) == "" && fam.group.refusal().reason != reasonBinding
	need, have := j.need(fam, c)
	if fam.met > 0 { // a raise of the minimum while it runs is no loss
		need = min(need, fam.met)
	}
	if have < need && c.serving > 0 {
		// Nothing says of a native PodGroup that pods of it are gone.
		return refused || fam.group.incomplete() || fam.group.native && c.pending == 0
	}
	placed := false
	for _, s := range fam.group.condition(conditionScheduled) {
		placed = s.status == "True"
	}
	return c.pending == 0 || refused || placed && c.serving > 0
}

// String returns a PodGroup's minimum and its conditions.
func (g *groupFact) String() string {
	if g == nil {
		return "does not exist"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "asks for %d", g.minMember)
	for _, c := range g.conditions {
		fmt.Fprintf(&text, "; %s=%s (%s: %s)", c.kind, c.status, c.reason, c.message)
	}
	return text.String()
}
