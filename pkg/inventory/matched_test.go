package inventory

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// What a match has booked in the present epoch is not sent again, but only if it is all the pod holds.
func TestAPodThatWasMatchedIsSentOnlyIfItHoldsSomethingElse(t *testing.T) {
	whole := match.NewJobID("group")
	for name, tc := range map[string]struct {
		edit func(w *world, job *match.JobID, slot *match.Slot, epoch *match.Epoch)
		want string
	}{
		"it holds what was matched":    {edit: func(*world, *match.JobID, *match.Slot, *match.Epoch) {}},
		"matched in an epoch before":   {func(_ *world, _ *match.JobID, _ *match.Slot, e *match.Epoch) { *e++ }, "Update group: u1@n1 core=1000m"},
		"not matched":                  {func(_ *world, _ *match.JobID, _ *match.Slot, e *match.Epoch) { *e = 0 }, "Update group: u1@n1 core=1000m"},
		"matched under another job":    {func(_ *world, j *match.JobID, _ *match.Slot, _ *match.Epoch) { *j = match.NewJobID("other") }, "Update group: u1@n1 core=1000m"},
		"matched to another node":      {func(_ *world, _ *match.JobID, s *match.Slot, _ *match.Epoch) { s.Node = "n2" }, "Update group: u1@n1 core=1000m"},
		"another holder":               {func(w *world, _ *match.JobID, _ *match.Slot, _ *match.Epoch) { w.holders["u1"] = "ns/g" }, "Update group: u1@n1 core=1000m of ns/g"},
		"it was resized since":         {func(_ *world, _ *match.JobID, s *match.Slot, _ *match.Epoch) { s.R.Vertices[0].Amount-- }, "Update group: u1@n1 core=1000m"},
		"the match says no resources":  {func(_ *world, _ *match.JobID, s *match.Slot, _ *match.Epoch) { s.R = nil }, "Update group: u1@n1 core=1000m"},
		"the matched vertices are two": {edit: func(_ *world, _ *match.JobID, s *match.Slot, _ *match.Epoch) { split(s) }},
	} {
		t.Run(name, func(t *testing.T) {
			a := pod("a", "u1", "n1", "1")
			job, slot, epoch := whole, translate.HeldSlot(a), match.Epoch(0)
			configure := func(c *Config) {
				c.MatchedAs = func(*corev1.Pod) (match.JobID, match.Slot, match.Epoch) { return job, slot, epoch }
			}
			run(t, matchtest.NewFake, configure, func(w *world) {
				w.nodes.add(node("n1", "8"))
				w.begin()
				w.step()
				w.jobs["u1"], epoch = whole, w.Epoch()
				tc.edit(w, &job, &slot, &epoch)
				w.pods.add(a)
				var want []string
				if tc.want != "" {
					want = append(want, tc.want)
				}
				w.expect("the pod comes to its node", want...)
				w.pods.remove(a)
				w.expect("the pod goes", "Release group: u1")
			})
		})
	}
}

// split divides the amounts of the slot's first share between two vertices.
func split(s *match.Slot) {
	half := s.R.Vertices[0]
	half.Amount /= 2
	s.R.Vertices[0].Amount -= half.Amount
	s.R.Vertices = append(s.R.Vertices, half)
}

// What was not sent is part of the graph all the same.
func TestAPodThatWasMatchedIsLoadedAndReadAgain(t *testing.T) {
	a := pod("a", "u1", "n1", "1")
	slot := translate.HeldSlot(a)
	var epoch match.Epoch
	configure := func(c *Config) {
		c.MatchedAs = func(*corev1.Pod) (match.JobID, match.Slot, match.Epoch) { return match.NewJobID("group"), slot, epoch }
	}
	run(t, matchtest.NewFake, configure, func(w *world) {
		w.nodes.add(node("n1", "8"))
		w.begin()
		w.step()
		w.jobs["u1"], epoch = match.NewJobID("group"), w.Epoch()
		w.pods.add(a)
		w.expect("matched")
		w.fake.FailNext(matchtest.Update, match.ErrStale)
		w.Resync()
		w.within(probeEvery*10, "the graph is loaded again", func() bool { return w.loaded() && w.Epoch() != epoch })
		w.expect("loaded again", "Reset", "PutNode n1", "Update group: u1@n1 core=1000m", "Ready")
		// The match's slot was released, so the pod has one of its own.
		w.jobs["u1"], epoch = match.NewJobID("pod", "u1"), 0
		w.Recheck("u1")
		w.expect("read again", "Update pod: u1@n1 core=1000m", "Release group: u1")
	})
}

// A slot that was held for a pod under another key is released once the pod itself is booked.
func TestAPodThatComesToASlotThatWasHeldForIt(t *testing.T) {
	a := pod("a", "u1", "n1", "1")
	held := translate.HeldSlot(a)
	held.Key = "seat"
	configure := func(c *Config) {
		c.MatchedAs = func(*corev1.Pod) (match.JobID, match.Slot, match.Epoch) { return match.NewJobID("group"), held, 0 }
	}
	run(t, matchtest.NewFake, configure, func(w *world) {
		w.nodes.add(node("n1", "8"))
		w.begin()
		w.step()
		w.jobs["u1"] = match.NewJobID("group")
		w.pods.add(a)
		w.expect("the pod comes to its node", "Update group: u1@n1 core=1000m", "Release group: seat")
		w.pods.remove(a)
		w.expect("the pod goes", "Release group: u1")
	})
}
