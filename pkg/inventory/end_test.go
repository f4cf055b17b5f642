package inventory

import (
	"strings"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
)

// noon is the time from which the ends of a test count.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestTheEngineKnowsWhenThePodsEnd(t *testing.T) {
	following(t, func(w *world) {
		w.ends["u1"] = noon
		w.pods.add(pod("a", "u1", "n1", "1"), pod("b", "u2", "n1", "1"))
		w.expect("one has an end", "Update pod: u1@n1 core=1000m until 12:00:00 pod: u2@n1 core=1000m")

		w.ends["u1"], w.ends["u2"] = noon.Add(time.Minute), noon
		w.expect("nobody rechecks")
		w.Recheck("u1", "u2")
		w.expect("the ends have changed", "Update pod: u1@n1 core=1000m until 12:01:00 pod: u2@n1 core=1000m until 12:00:00")
		w.expectChanges("one has an end now, the other ends later", "Freed n1")

		delete(w.ends, "u1")
		w.Recheck("u1")
		w.expect("it has no end any more", "Update pod: u1@n1 core=1000m")

		w.fake.FailNext(matchtest.Update, match.ErrStale)
		w.Resync()
		before := w.Epoch()
		w.within(probeEvery*10, "the graph is loaded again", func() bool { return w.loaded() && w.Epoch() != before })
		if calls := w.step(); !strings.Contains(calls, "u2@n1 core=1000m until 12:00:00") || strings.Contains(calls, "u1@n1 core=1000m until") {
			t.Errorf("the engine was called\n%s\nand does not know the end of the second pod again", calls)
		}
	})
}
