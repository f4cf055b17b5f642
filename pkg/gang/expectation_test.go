package gang

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// showWorkers has the API show the workers on their nodes, with conditions.
func (s *story) showWorkers(conditions ...corev1.PodCondition) {
	s.Helper()
	for _, name := range []string{"0", "1"} {
		s.update(name, func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Conditions = "n-"+name, conditions })
	}
}

// A group with seats is reported again when the number of its seats or their end changes, and only then.
func TestAnExpectationIsReportedWhenItChanges(t *testing.T) {
	s := newSeatStory(t)
	s.startSeated()
	s.showWorkers()
	reported := func(when string, want ...Expectation) {
		t.Helper()
		var got []Expectation
		for _, p := range s.Placed() {
			got = append(got, p.Expectation)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: reported %v, want %v", when, got, want)
		}
	}
	reported("the workers are bound", Expectation{Pods: 1})
	tick := func(d time.Duration) {
		s.now = s.now.Add(d)
		s.note(s.ExpireSeats(s.now))
	}
	tick(0)
	reported("the time begins", Expectation{Pods: 1, Until: s.now.Add(30 * time.Minute)})
	tick(time.Minute)
	reported("a minute has passed")
	s.showWorkers(corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	tick(0)
	reported("the workers are ready", Expectation{Pods: 1, Until: s.now.Add(5 * time.Minute)})
	s.add("launcher", role("launcher"), asking("2"))
	s.Plan("launcher", s.now)
	tick(time.Second)
	reported("the launcher is to be bound")
	s.update("launcher", func(p *corev1.Pod) { p.Spec.NodeName = "n-seat" })
	reported("the launcher is bound", Expectation{})
}

// Seats that are given back are not expected any more.
func TestAnExpectationEndsWithTheSeats(t *testing.T) {
	s := newSeatStory(t)
	s.startSeated()
	s.showWorkers()
	s.note(s.ExpireSeats(s.now))
	s.Placed()
	s.note(s.ExpireSeats(s.now.Add(30 * time.Minute)))
	if got := s.Placed(); len(got) != 1 || got[0].Expectation != (Expectation{}) {
		t.Errorf("reported %+v, want the group without seats", got)
	}
}
