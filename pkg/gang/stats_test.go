package gang

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
)

func TestStats(t *testing.T) {
	gated := func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "wait"}} }
	start := func(s *story) {
		s.gang(2, 2)
		s.match("0")
		s.reserveAndBind("0", "1")
	}
	cases := map[string]struct {
		play func(s *story)
		want Stats
	}{
		"nothing":                            {play: func(*story) {}},
		"a PodGroup without pods":            {play: func(s *story) { s.gang(2, 0) }, want: gatheringStats(reason.Gathering)},
		"a PodGroup without pods that ended": {play: func(s *story) { s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 2, Ended: true}) }, want: Stats{Phases: map[Phase]int{Done: 1}}},
		"a pod that is missing":              {play: func(s *story) { s.gang(2, 1) }, want: gatheringStats(reason.Gathering)},
		"a pod alone that is gated":          {play: func(s *story) { s.addLonePod("0", 0); s.update("0", gated) }, want: gatheringStats(reason.Gathering)},
		"pods of no PodGroup":                {play: func(s *story) { s.add("0") }, want: gatheringStats(reason.NoPodGroup)},
		"one that has yet to ask": {play: func(s *story) { s.gang(2, 2); s.wantEnqueueable("0") },
			want: Stats{Phases: map[Phase]int{Complete: 1}, WaitingByReason: map[string]int{"": 1}, OldestCompleteSince: noon}},
		"one that was refused": {play: func(s *story) {
			s.gang(2, 2)
			s.refuse("0", noRoom)
			s.now = s.now.Add(time.Second)
			s.wantEnqueueable()
		}, want: Stats{Phases: map[Phase]int{Complete: 1}, WaitingByReason: map[string]int{"NoRoom": 1}, OldestCompleteSince: noon}},
		"of two that wait the one that waits longer": {play: func(s *story) {
			s.addLonePod("0", 0)
			s.refuse("0", noRoom)
			s.now = s.now.Add(time.Second)
			s.addLonePod("1", 0)
			s.refuse("1", never)
		}, want: Stats{Phases: map[Phase]int{Complete: 2}, WaitingByReason: map[string]int{"NoRoom": 1, "NeverFits": 1}, OldestCompleteSince: noon}},
		"one that lost a pod": {play: func(s *story) { s.gang(2, 2); s.refuse("0", noRoom); s.DropPod("1") }, want: gatheringStats(reason.Gathering)},
		"one that was matched": {play: func(s *story) { s.gang(2, 3); s.match("0") },
			want: Stats{Phases: map[Phase]int{Tentative: 1}, TentativePods: 3}},
		"one that has started": {play: start, want: Stats{Phases: map[Phase]int{Held: 1}, TentativePods: 2}},
		"one that is seen on its nodes": {play: func(s *story) {
			start(s)
			s.update("0", objects.OnNode("n-0"))
		}, want: Stats{Phases: map[Phase]int{Held: 1}, TentativePods: 1, HeldPods: 1}},
		"one that lacks a pod which nobody has made": {play: func(s *story) {
			start(s)
			s.update("0", objects.OnNode("n-0"))
			s.DropPod("1")
		}, want: Stats{Phases: map[Phase]int{Incomplete: 1}, WaitingByReason: map[string]int{reason.MembersMissing: 1}, HeldPods: 1}},
		"one that lacks a pod which finds no room": {play: func(s *story) {
			start(s)
			s.update("0", objects.OnNode("n-0"))
			s.DropPod("1")
			s.add("2")
			s.refuse("2", noRoom)
		}, want: Stats{Phases: map[Phase]int{Incomplete: 1}, WaitingByReason: map[string]int{"NoRoom": 1}, HeldPods: 1}},
		"one whose pods have ended": {play: func(s *story) {
			start(s)
			for _, name := range []string{"0", "1"} {
				s.update(name, objects.OnNode("n-"+name))
				s.update(name, objects.InPhase(corev1.PodSucceeded))
			}
		}, want: Stats{Phases: map[Phase]int{Done: 1}}},
		"one whose last pod is on its way out": {play: func(s *story) {
			s.addLonePod("0", 0)
			s.update("0", objects.OnNode("n-0"))
			s.update("0", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} })
		}, want: Stats{Phases: map[Phase]int{Done: 1}, HeldPods: 1}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			tc.play(s)
			got := s.Stats()
			if diff := cmp.Diff(withNonNilMaps(tc.want), got); diff != "" {
				t.Errorf("tally (-want +got):\n%s", diff)
			}
			if waiting := got.Phases[Gathering] + got.Phases[Complete] + got.Phases[Incomplete]; waiting != total(got.WaitingByReason) {
				t.Errorf("%d groups wait, and have %d reasons", waiting, total(got.WaitingByReason))
			}
		})
	}
}

// reserveAndBind takes pods that were matched as far as
// Permit. Pods that may be bound leave the bind queue.
func (s *story) reserveAndBind(names ...string) {
	s.Helper()
	for _, name := range names {
		if err := s.Reserve(types.UID(name), "n-"+name); err != nil {
			s.Fatalf("reserve pod %s: %v", name, err)
		}
		ok, others := s.Permit(types.UID(name))
		if ok {
			s.sendBinds(name)
		}
		for _, o := range others {
			s.sendBinds(string(o))
		}
	}
}

// gatheringStats returns the Stats of one group that may not be placed yet.
func gatheringStats(reason string) Stats {
	return Stats{Phases: map[Phase]int{Gathering: 1}, WaitingByReason: map[string]int{reason: 1}}
}

func withNonNilMaps(c Stats) Stats {
	if c.Phases == nil {
		c.Phases = map[Phase]int{}
	}
	if c.WaitingByReason == nil {
		c.WaitingByReason = map[string]int{}
	}
	return c
}

func total(by map[string]int) int {
	n := 0
	for _, c := range by {
		n += c
	}
	return n
}

func TestTransitions(t *testing.T) {
	started := Transition{Type: Started, Key: key, Pods: 2, CompleteSince: noon}
	cases := map[string]struct {
		play func(s *story)
		want []Transition
	}{
		"a match alone is none": {play: func(s *story) { s.gang(2, 2); s.match("0") }},
		"a start, since it was complete": {play: func(s *story) {
			s.gang(2, 2)
			s.wantEnqueueable("0")
			s.now = s.now.Add(time.Minute)
			s.refuse("0", noRoom)
			s.refuseAgain(noRoom)
			s.ObserveEvent(Released)
			s.now = s.now.Add(2 * time.Second)
			s.Due(s.now)
			s.match("0")
			s.reserveAndBind("0", "1")
		}, want: []Transition{started}},
		"a start that is allowed by a smaller minimum": {play: func(s *story) {
			s.gang(3, 3)
			s.match("0")
			s.reserveAndBind("0", "1")
			s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 2, Created: noon})
			s.sendBinds("0", "1")
		}, want: []Transition{started}},
		"a start that is told once, though its only bind was refused for a 429": {play: func(s *story) {
			s.gang(2, 2)
			s.match("0")
			s.reserveAndBind("0", "1")
			s.UndoBind("0")
			s.UndoBind("1")
			s.sendBinds("0", "1")
		}, want: []Transition{started}},
		"a start of a group whose PodGroup was made again during the match, since then": {play: func(s *story) {
			s.gang(2, 2)
			s.wantEnqueueable("0")
			p, _ := s.Plan("0", s.now)
			s.DropPodGroup(key)
			s.PutPodGroup(key, PodGroup{UID: "again", MinMember: 2, Created: noon.Add(time.Minute)})
			if _, _, _, err := s.Assign(p, []match.Slot{{Key: "0", Node: "n-0"}, {Key: "1", Node: "n-1"}}, s.now.Add(time.Hour)); err != nil {
				s.Fatal(err)
			}
			s.reserveAndBind("0", "1")
		}, want: []Transition{{Type: Started, Key: key, Pods: 2, CompleteSince: noon.Add(time.Minute)}}},
		"a start beside a pod that came meanwhile and asks for nonsense": {play: func(s *story) {
			s.gang(2, 2)
			s.wantEnqueueable("0")
			s.match("0")
			s.add("2", func(p *corev1.Pod) { p.Annotations = map[string]string{group.MatchPolicyAnnotation: "densest"} })
			s.reserveAndBind("0", "1")
		}, want: []Transition{started}},
		"a start where such a pod came during the match": {play: func(s *story) {
			s.gang(2, 2)
			p, _ := s.Plan("0", s.now)
			s.add("2", func(p *corev1.Pod) { p.Annotations = map[string]string{group.MatchPolicyAnnotation: "densest"} })
			if _, _, _, err := s.Assign(p, []match.Slot{{Key: "0", Node: "n-0"}, {Key: "1", Node: "n-1"}}, s.now.Add(time.Minute)); err != nil {
				s.Fatal(err)
			}
			s.reserveAndBind("0", "1")
		}, want: []Transition{started}},
		"one that gives all back, and then starts": {play: func(s *story) {
			s.gang(2, 2)
			s.match("0")
			s.Unreserve("0", s.now, "never mind")
			s.now = s.now.Add(time.Minute)
			s.Due(s.now)
			s.match("0")
			s.reserveAndBind("0", "1")
		}, want: []Transition{{Type: Revoked, Key: key, Pods: 2, Reason: "never mind"}, started}},
		"one that has started loses one seat": {play: func(s *story) {
			s.gang(2, 2)
			s.match("0")
			s.reserveAndBind("0", "1")
			s.DropPod("1")
		}, want: []Transition{started, {Type: Revoked, Key: key, Pods: 1, Reason: "pod 1 was deleted"}}},
		"one that ends": {play: func(s *story) {
			s.gang(2, 2)
			s.match("0")
			s.reserveAndBind("0", "1")
			for _, name := range []string{"0", "1"} {
				s.update(name, objects.OnNode("n-"+name))
				s.update(name, objects.InPhase(corev1.PodSucceeded))
			}
		}, want: []Transition{started, {Type: Ended, Key: key}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			tc.play(s)
			got := s.Transitions()
			for i := range got {
				if (got[i].Job == 0) != (got[i].Type == Ended) {
					t.Errorf("step %s has the job %d", got[i].Type, got[i].Job)
				}
				got[i].Job = 0
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			if more := s.Transitions(); len(more) > 0 {
				t.Errorf("steps are told twice: %v", more)
			}
		})
	}
}
