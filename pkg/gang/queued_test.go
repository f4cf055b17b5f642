package gang

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
)

// A queuedStory is a story of a group that a queue of jobs holds, or does not.
type queuedStory struct {
	*story
	held bool
}

func newQueuedStory(t *testing.T) *queuedStory {
	s := &queuedStory{newStory(t), true}
	s.SetWhyQueued(func(k types.NamespacedName, pod *corev1.Pod) (why, message string) {
		if !s.held || k != key {
			return "", ""
		}
		return reason.Queued, "NotItsTurn"
	})
	return s
}

// A group that waits for its turn in a queue of jobs says so, in whatever state it is, except for what somebody has to
// correct. It does not enter the scheduling queue.
func TestAGroupWaitsForItsTurn(t *testing.T) {
	cases := map[string]struct {
		before func(s *queuedStory)
		want   string
		// waits is true if the group is one of WaitingGroups.
		waits bool
	}{
		"it is complete":        {func(s *queuedStory) { s.gang(2, 2) }, reason.Queued, true},
		"pods are missing":      {func(s *queuedStory) { s.gang(3, 2) }, reason.Queued, true},
		"it was refused before": {func(s *queuedStory) { s.gang(2, 2); s.held = false; s.refuse("0", noRoom); s.held = true }, reason.Queued, true},
		"it has started":        {func(s *queuedStory) { s.held = false; s.start(2); s.add("late"); s.held = true }, reason.Queued, false},
		"an annotation is wrong": {func(s *queuedStory) {
			s.gang(2, 2)
			s.update("0", func(p *corev1.Pod) { p.Annotations = map[string]string{group.DurationAnnotation: "soon"} })
		}, reason.InvalidAnnotation, true},
		"its PodGroup is missing": {func(s *queuedStory) { s.add("0"); s.add("1") }, reason.Queued, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newQueuedStory(t)
			tc.before(s)
			name := types.UID("0")
			if s.pods["late"] != nil {
				name = "late"
			}
			if v := s.PreEnqueue(name, s.now); v.Pass || v.Reason != tc.want {
				t.Errorf("verdict %+v, want %s", v, tc.want)
			}
			if pods := s.Enqueueable(s.now); len(pods) != 0 {
				t.Errorf("%d pods may enter the queue, want none", len(pods))
			}
			if w := s.WaitingGroups(); (len(w) == 1) != tc.waits || tc.waits && w[0].Reason != tc.want {
				t.Errorf("waiting groups %+v, want it with %s: %v", w, tc.want, tc.waits)
			}
		})
	}
}

// A suspended group without pods waits for its turn, and says that rather than that it is suspended. Its turn lets it go.
func TestASuspendedGroupOfAQueueWaitsForItsTurn(t *testing.T) {
	s := newQueuedStory(t)
	s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 1, Created: noon, Absence: Absence{Suspended: true, WhyNotExpected: "Job/w is suspended"}})
	if w := s.WaitingGroups(); len(w) != 1 || w[0].Reason != reason.Queued || w[0].Message != "NotItsTurn" {
		t.Errorf("waiting groups %+v, want the group, queued", w)
	}
	if n := s.Stats().WaitingByReason[reason.Queued]; n != 1 {
		t.Errorf("%d groups count as queued, want one", n)
	}
	s.held = false
	s.add("0")
	s.wantEnqueueable("0")
}

// Members that are ending hold their nodes still. Those that have ended do not.
func TestPlacedMembers(t *testing.T) {
	s := newStory(t)
	s.gang(2, 2)
	if got := s.Groups.Placed(key); len(got) != 0 {
		t.Errorf("placed %v, want none", got)
	}
	s.match("0")
	if got := s.Groups.Placed(key); len(got) != 2 || got["1"] != "n-1" {
		t.Errorf("placed %v, want those that are assigned", got)
	}
	s.add("2", objects.OnNode("n-2"), s.terminating)
	s.add("3", objects.OnNode("n-3"), objects.InPhase(corev1.PodSucceeded))
	if got := s.Groups.Placed(key); len(got) != 3 || got["2"] != "n-2" {
		t.Errorf("placed %v, want also the one that is ending", got)
	}
}
