package fluence

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/test/objects"
)

// endsAt returns the end of each slot that the matcher knows, as seconds from a time on. -1 is no end.
func (r *rig) endsAt(from time.Time) map[string]int {
	r.Helper()
	jobs, err := r.matcherFake.Jobs(r.ctx, r.pl.inventory.Epoch())
	r.must(err)
	ends := map[string]int{}
	for _, j := range jobs {
		for _, s := range j.Slots {
			ends[s.Key] = -1
			if end := s.R.Expiration; !end.IsZero() {
				ends[s.Key] = int(end.Sub(from).Seconds())
			}
		}
	}
	return ends
}

// The matcher gets to know how long the pods of a group hold their nodes, and when they end.
func TestTheMatcherKnowsHowLongAGroupRuns(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.pl.walltimes.enforced = true
		r.node("n", 8)
		r.owners.create("jobs", "train", "job-uid", group.Owner{})
		r.pass(0)
		r.gang(2, 2, controlledBy("batch/v1", "Job", "train", "job-uid"), func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(20)) })
		lasts := func(duration string) {
			pg := aPodGroup(g.Name, 2, "pg")
			pg.Annotations = map[string]string{group.DurationAnnotation: duration}
			r.podGroupAPI.put(pg)
			r.pass(0) // the scheduler sees it
		}
		lasts("10m")
		began := time.Now().Truncate(time.Second)
		r.schedule()
		r.pass(time.Second)
		// Pods are bound within a second, and end at a whole one.
		if got := r.matches(); len(got) != 1 || got[0].Duration < 620*time.Second || got[0].Duration > 621*time.Second {
			t.Fatalf("matches %+v, began %v, want one for ten minutes and twenty seconds", got, began)
		}
		want := func(what string, seconds int) {
			t.Helper()
			r.pass(time.Second)
			for key, end := range r.endsAt(began) {
				if end != seconds && end != seconds+1 {
					t.Errorf("%s: the slot of %s ends after %ds, want %ds", what, key, end, seconds)
				}
			}
		}
		want("bound", 620)
		r.owners.setDeadline("train", deadline{300, began})
		want("its Job has a deadline before that", 320)
		r.owners.setDeadline("train", deadline{3000, began})
		want("its Job ends later", 620)
		lasts("inf")
		want("its duration has no end", 3020)
		r.owners.setDeadline("train", deadline{})
		want("nothing ends it", -1)
		r.owners.setDeadline("train", deadline{4000, began})
		r.owners.remove("jobs", "train")
		r.pass(0)
		lasts("") // its pods are looked at again
		want("its Job has gone before it", 4020)
		lasts("1m")
		want("it ends earlier", 80)
		r.loseGraph()
		r.pass(5 * time.Second)
		want("the graph was loaded again", 80)
		r.pass(rememberGone)
		lasts("inf")
		want("its Job went long ago", -1)
	})
}

// A group whose duration cannot be read waits until it is corrected.
func TestADurationThatIsWrongIsRefused(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.pl.walltimes.enforced = true
		r.node("n", 8)
		pod := r.pod("a", annotated(group.DurationAnnotation, "1h30m"))
		r.wantHeld(pod, `annotation fluence.flux-framework.org/duration: "1h30m": must be a number of at least 0, with one of the suffixes ms, s, m, h, d or without one for seconds`)
		if got := r.matches(); len(got) > 0 {
			t.Errorf("matches %+v, want none", got)
		}
		r.update("a", annotated(group.DurationAnnotation, "1.5h"))
		r.schedule()
		r.pass(time.Second)
		if got := r.matches(); len(got) != 1 || got[0].Op != match.Allocate || got[0].Duration.Round(time.Minute) != 90*time.Minute {
			t.Errorf("matches %+v, want one for an hour and a half", got)
		}
	})
}

// A Job has a deadline only after its pods exist. It counts if it comes during their match, which knew of no end.
func TestADeadlineThatComesDuringAMatchCounts(t *testing.T) {
	engine := realEngine(t)
	inRig(t, engine, func(r *rig) {
		r.pl.args.Promises.Depth = 1
		r.node("n0", 8)
		r.node("n1", 8)
		brief := group.Owner{Group: "batch", Kind: "Job", Name: "brief", UID: "job-uid"}
		r.owners.create("jobs", brief.Name, brief.UID, group.Owner{})
		r.podGroupAPI.put(aPodGroup(brief.PodGroupName(), 1, "pg-uid"))
		r.pass(settleTime)
		r.schedule()
		r.pod("runs", objects.CPU("8"), objects.OnNode("n0"), withoutGrace, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(3600)) })
		r.gangFor("big", 2, 1, "10m")
		if why := r.why("big"); !strings.HasPrefix(why, "promised 2 nodes from ") {
			t.Fatalf("it waits with %q, want it promised both nodes", why)
		}
		began, matches := time.Now().Truncate(time.Second), 0
		r.matcherFake.OnMatch(func(q match.Request) (*match.Allocation, error) {
			if strings.HasSuffix(q.Holder, brief.PodGroupName()) {
				if matches++; matches == 1 {
					r.owners.setDeadline(brief.Name, deadline{600, began})
					time.Sleep(10 * time.Millisecond) // in the time of the bubble: the deadline is seen
				}
			}
			return engine.Match(r.ctx, q)
		})
		r.pod("brief-0", controlledBy("batch/v1", "Job", brief.Name, brief.UID), objects.CPU("8"), withoutGrace)
		r.pass(5 * time.Second)
		if !r.runs("brief-0") {
			t.Errorf("it waits after %d matches, although it ends before the promise", matches)
		}
	})
}
