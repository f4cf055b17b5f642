package group

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// minute is how long groups of these stories may be passed.
const minute = time.Minute

// lone makes a pod that is a group of its own.
func (s *story) lone(name string, priority int32) {
	s.add(name, func(p *corev1.Pod) { p.Labels, p.Spec.Priority = nil, &priority })
}

// refuse has a pod ask and find none.
func (s *story) refuse(name string, r Refusal) {
	s.Helper()
	r.Until = []Event{Freed}
	p, _ := s.Plan(types.UID(name), s.now)
	if p.Job == 0 {
		s.Fatalf("pod %s has nothing to ask for: %+v", name, p)
	}
	s.Refuse(p, r, s.now)
}

// again has the first pod, which was refused, ask again a while later.
func (s *story) again(r Refusal) {
	s.Helper()
	s.Happened(Freed)
	s.now = s.now.Add(2 * time.Second)
	s.Due(s.now)
	s.refuse("0", r)
}

var (
	noRoom   = Refusal{Reason: "NoRoom", Message: "no room", Cure: CureRoom}
	never    = Refusal{Reason: "NeverFits", Message: "never"}
	noAnswer = Refusal{Reason: "Away", Message: "no answer", Cure: CureAnswer}
)

func (s *story) wantOverdue(want ...string) {
	s.Helper()
	var got []string
	for _, h := range s.Overdue(s.now, minute) {
		got = append(got, h.Key.Name)
	}
	if !slices.Equal(got, want) {
		s.Errorf("overdue: %v, want %v", got, want)
	}
}

func TestTheTimeOfAGroupRunsFromItsFirstRefusalInARow(t *testing.T) {
	cases := map[string]struct {
		play func(s *story)
		want []string
	}{
		"refused once, and a minute ago":        {play: func(s *story) { s.refuse("0", noRoom) }, want: []string{"g"}},
		"refused again and again":               {play: func(s *story) { s.refuse("0", noRoom); s.again(noRoom); s.again(noRoom) }, want: []string{"g"}},
		"an engine that did not answer between": {play: func(s *story) { s.refuse("0", noRoom); s.again(noAnswer) }, want: []string{"g"}},
		"never refused for want of room":        {play: func(s *story) { s.refuse("0", noAnswer) }},
		"refused for something else":            {play: func(s *story) { s.refuse("0", never) }},
		"refused for something else last":       {play: func(s *story) { s.refuse("0", noRoom); s.again(never) }},
		"refused for something else between": {play: func(s *story) {
			s.refuse("0", noRoom)
			s.again(never)
			s.again(noRoom)
		}},
		"it lacks a pod": {play: func(s *story) { s.refuse("0", noRoom); s.DropPod("1") }},
		"a pod of it is gated": {play: func(s *story) {
			s.refuse("0", noRoom)
			s.update("1", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "wait"}} })
		}},
		"it is matched, and may not start after all": {play: func(s *story) { s.refuse("0", noRoom); s.forgive("g"); s.match("0") }, want: []string{"g"}},
		"the node that it was matched with was refused": {play: func(s *story) {
			s.refuse("0", noRoom)
			s.forgive("g")
			s.match("0")
			s.Fail("0", s.now, "Insufficient cpu")
		}, want: []string{"g"}},
		"it has started, and others are late": {play: func(s *story) {
			s.refuse("0", noRoom)
			s.forgive("g")
			s.match("0")
			s.confirm("0", "1")
			s.add("2")
			s.add("3")
			s.refuse("2", noRoom)
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.gang(2, 2)
			tc.play(s)
			s.wantOverdue()
			s.now = noon.Add(minute)
			s.wantOverdue(tc.want...)
		})
	}
}

func TestAGroupHasWaitedForAnotherSchedulerToo(t *testing.T) {
	cases := map[string]struct {
		play func(s *story)
		want []string
	}{
		"and waits for this one":              {play: func(s *story) { s.refuse("0", noRoom) }, want: []string{"g"}},
		"which then says what it is told":     {play: func(s *story) { s.refuse("0", noRoom); s.Waited(key, s.now) }, want: []string{"g"}},
		"and waits for something else by now": {play: func(s *story) { s.refuse("0", never); s.again(noRoom) }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.gang(2, 2)
			s.Waited(key, noon.Add(-minute))
			s.wantOverdue()
			tc.play(s)
			s.wantOverdue(tc.want...)
		})
	}
}

// forgive has a group ask again at once.
func (s *story) forgive(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups[types.NamespacedName{Namespace: key.Namespace, Name: name}].forgive()
}

func TestTheFirstInTheQueueIsTheHeadOfItsPriority(t *testing.T) {
	s := newStory(t)
	for name, priority := range map[string]int32{"a": 0, "b": 0, "c": 5, "d": -5, "e": 5} {
		s.lone(name, priority)
		s.update(name, func(p *corev1.Pod) { p.CreationTimestamp.Time = noon.Add(time.Duration(name[0]) * time.Second) })
	}
	heads := func() string {
		var all []string
		for _, h := range s.Overdue(s.now, minute) {
			all = append(all, h.Pods[0].Name)
		}
		return strings.Join(all, " ")
	}
	for _, step := range []struct{ refused, want string }{
		{"b", "b"}, {"d", "b d"}, {"e", "e b d"}, {"a", "e a d"}, {"c", "c a d"},
	} {
		s.refuse(step.refused, noRoom)
		s.now = s.now.Add(minute)
		if got := heads(); got != step.want {
			t.Errorf("after the refusal of %s the heads are %q, want %q", step.refused, got, step.want)
		}
	}
	s.DropPod("c")
	if got := heads(); got != "e a d" {
		t.Errorf("without c the heads are %q", got)
	}
}

func TestAHeadNamesWhatHasToBePlaced(t *testing.T) {
	s := newStory(t)
	s.gang(2, 3)
	s.refuse("0", noRoom)
	s.now = s.now.Add(minute)
	h := s.Overdue(s.now, minute)
	if len(h) != 1 || len(h[0].Pods) != 2 || h[0].Pods[0].Name != "0" || !h[0].Since.Equal(noon) {
		t.Errorf("heads = %+v, want the group with two of its pods, since noon", h)
	}
}
