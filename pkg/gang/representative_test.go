package gang

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A group has the priority that as many of its members have as it needs, whichever came first.
func TestGroupPriorityIsReachedByItsMinimum(t *testing.T) {
	cases := map[string]struct {
		minimum    int32
		priorities []int32 // in the order of creation
		asks       string
		with       int // placed together with the representative
	}{
		"all alike":                        {3, []int32{5, 5, 5, 5}, "0", 3},
		"one is higher":                    {3, []int32{1000, 0, 0}, "1", 2},
		"one is higher, and the last":      {3, []int32{0, 0, 1000}, "0", 2},
		"enough are higher":                {2, []int32{0, 1000, 1000, 0}, "1", 1},
		"not all that are higher are most": {2, []int32{0, 1000, 500, 0, 500}, "2", 2},
		"one is needed":                    {1, []int32{0, 1000, 0}, "1", 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.gang(tc.minimum, 0)
			for i, p := range tc.priorities {
				s.add(string(rune('0'+i)), withPriority(p))
			}
			s.wantEnqueueable(tc.asks)
			p, _ := s.Plan(s.pods[tc.asks].UID, s.now)
			if got := len(p.Required) + len(p.Optional) - 1; got != tc.with || len(p.Required) != int(tc.minimum) {
				t.Errorf("%d pods are required of it, and %d asked for beside it; want %d", len(p.Required), got, tc.with)
			}
			if want := s.pods[tc.asks].Spec.Priority; s.PriorityOf(key) != *want {
				t.Errorf("its priority is said to be %d, want %d", s.PriorityOf(key), *want)
			}
		})
	}
}

// An attempt for a late member includes no late member of a lower priority.
func TestPlanForLateMemberOmitsLowerPriorities(t *testing.T) {
	s := newStory(t)
	s.gang(1, 1)
	s.run("0")
	s.add("high", withPriority(9))
	s.add("low", withPriority(1))
	s.add("other", withPriority(9))
	if p, _ := s.Plan("high", s.now); len(p.Optional) != 1 || p.Optional[0].Name != "other" {
		t.Errorf("it asks for %d others", len(p.Optional))
	}
}

// A group that was refused and then has other pods is placed with these.
func TestRefusedGroupWithNewPodsRetries(t *testing.T) {
	for name, r := range map[string]Refusal{"for want of room": noRoom, "for ever": never} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.gang(2, 2)
			s.refuse("0", r)
			s.DropPod("0")
			s.DropPod("1")
			s.add("2")
			s.add("3")
			s.now = s.now.Add(maxRetryPause)
			if keys, _ := s.Due(s.now); len(keys) != 1 {
				t.Error("it is not asked for again")
			}
			s.wantEnqueueable("2")
		})
	}
	t.Run("which did not answer", func(t *testing.T) {
		s := newStory(t)
		s.gang(1, 1)
		away := noAnswer
		away.RetryAfter = time.Minute
		s.refuse("0", away)
		s.add("1", func(*corev1.Pod) {})
		s.now = s.now.Add(maxRetryPause)
		if keys, _ := s.Due(s.now); len(keys) != 0 {
			t.Error("it asks before the time that it was told")
		}
	})
}
