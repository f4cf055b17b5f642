package fluence

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
)

const whyYields = "the group is evicted for a group of higher priority; waits until its pods have gone and that group has room"

// The pods of a group that was evicted are made again while another victim is still ending. They wait until the
// preemptor has nodes, and no longer than some seconds.
func TestAnEvictedGroupLetsItsPreemptorGoFirst(t *testing.T) {
	for name, otherEndsAfter := range map[string]time.Duration{
		"the preemptor starts soon":     3 * time.Second,
		"another victim ends very late": maxYield + 2*tick,
	} {
		t.Run(name, func(t *testing.T) {
			inPreemptionRig(t, func(r *rig) {
				r.podAPI.grace = time.Minute
				r.gangOf("urgent", 8, 1000)
				r.pass(5 * time.Second)
				gone := r.podAPI.deleted()
				if len(gone) != 8 {
					t.Fatalf("deleted: %v, want two groups", gone)
				}
				first, _, _ := strings.Cut(gone[0], "-")
				for i := range 4 {
					r.remove(fmt.Sprintf("%s-%d", first, i))
				}
				again := r.pod(first+"-4", objects.InGroup(first), objects.CPU("8"), atPriority(0))
				for i := range 3 {
					r.pod(fmt.Sprintf("%s-%d", first, 5+i), objects.InGroup(first), objects.CPU("8"), atPriority(0))
				}
				r.pass(otherEndsAfter)
				if held := r.preEnqueueMessage(again); (held == whyYields) != (otherEndsAfter < maxYield) || r.runs(again.Name) {
					t.Errorf("after %s, PreEnqueue: %q; these run: %v", otherEndsAfter, held, r.assigned())
				}
				for _, name := range gone {
					if !strings.HasPrefix(name, first) {
						r.remove(name)
					}
				}
				r.pass(3 * time.Second)
				if held := r.preEnqueueMessage(again); held == whyYields || !r.starts("urgent", 8) {
					t.Errorf("when all victims have gone, PreEnqueue: %q; these run: %v", held, r.assigned())
				}
			})
		})
	}
}

func TestYields(t *testing.T) {
	var y yields
	a, b, c := types.NamespacedName{Name: "a"}, types.NamespacedName{Name: "b"}, types.NamespacedName{Name: "c"}
	now := time.Now()
	marked := map[types.NamespacedName]bool{a: true, b: true}
	over := func(at time.Time, want ...types.NamespacedName) {
		t.Helper()
		if got := y.over(at, func(k types.NamespacedName) bool { return marked[k] }); !slices.Equal(got, want) {
			t.Errorf("over() = %v, want %v", got, want)
		}
	}
	y.begin(a, yield{to: "p"})
	y.begin(b, yield{to: "q"})
	y.begin(c, yield{until: now.Add(unknownYield)})
	over(now.Add(time.Second))
	marked[a] = false
	over(now.Add(unknownYield), c)
	over(now.Add(unknownYield + maxYield - time.Second))
	over(now.Add(unknownYield+maxYield), a)
	if got := y.end("p"); got != nil {
		t.Errorf("end() = %v for a preemptor to which nobody yields", got)
	}
	if got := y.end("q"); !slices.Equal(got, []types.NamespacedName{b}) || y.has(a) || y.has(b) || y.has(c) {
		t.Errorf("end() = %v, want b alone, and no group waits", got)
	}
}

// Where the search for room takes too long, the room of a preemptor's own victims is kept for it.
func TestTheRoomOfItsVictimsIsKeptForAPreemptorThatGetsNoAnswer(t *testing.T) {
	engine := realEngine(t)
	inPreemptionRigOver(t, engine, func(r *rig) {
		r.podAPI.grace = time.Minute
		r.gangOf("urgent", 4, 1000)
		r.pass(5 * time.Second)
		id := claimant{NamespacedName: types.NamespacedName{Namespace: ns, Name: "urgent"}}
		want := r.pl.claims.nodesOf(id)
		r.pl.dropClaim(id)
		r.matcherFake.OnMatch(func(q match.Request) (*match.Allocation, error) {
			if len(q.Ending) > 0 {
				return nil, errTooHard
			}
			return engine.Match(r.ctx, q)
		})
		r.pl.groups.RetryNow(id.NamespacedName)
		r.pl.activator.activateGroups(id.NamespacedName)
		r.pass(tick / 2)
		if got := r.pl.claims.nodesOf(id); len(want) != 4 || !got.Equal(want) {
			t.Errorf("claimed are %v, want %v", got, want)
		}
		if c := r.conditionOf("urgent", "Scheduled"); c.Reason != reason.Preempting {
			t.Errorf("the group waits with %s: %q", c.Reason, c.Message)
		}
	})
}

// A matcher that does not answer once changes nothing for a group that waits for its victims to end.
func TestAMatchWithoutAnAnswerKeepsTheClaimOfAPreemptor(t *testing.T) {
	inPreemptionRig(t, func(r *rig) {
		r.podAPI.grace = time.Minute
		r.gangOf("urgent", 4, 1000)
		r.pass(5 * time.Second)
		id := claimant{NamespacedName: types.NamespacedName{Namespace: ns, Name: "urgent"}}
		want := r.pl.claims.nodesOf(id)
		r.matcherFake.FailNext(matchtest.Match, match.ErrUnavailable)
		before := len(r.matches())
		r.pl.groups.RetryNow(id.NamespacedName)
		r.pl.activator.activateGroups(id.NamespacedName)
		r.pass(2 * tick)
		if len(r.matches()) == before {
			t.Fatal("the group did not ask")
		}
		if got := r.pl.claims.nodesOf(id); len(want) != 4 || !got.Equal(want) {
			t.Errorf("claimed are %v, want %v", got, want)
		}
		if !hasPlan(&r.pl.groupPlacer, "urgent") {
			t.Error("the plan was canceled")
		}
	})
}
