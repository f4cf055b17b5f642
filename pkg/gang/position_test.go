package gang

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/test/objects"
)

// newStoryWithRequests is a story of pods that ask for something.
func newStoryWithRequests(t *testing.T) *story {
	s := newStory(t)
	s.SetPodRequests(func(p *corev1.Pod) map[string]int64 {
		amounts := map[string]int64{}
		for _, c := range p.Spec.Containers {
			for name, q := range c.Resources.Requests {
				amounts[string(name)] += q.MilliValue()
			}
		}
		return amounts
	})
	return s
}

// withRequests sets the amounts that a pod asks for: resource and amount in turn.
func withRequests(amounts ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		list := corev1.ResourceList{}
		for i := 0; i < len(amounts); i += 2 {
			list[corev1.ResourceName(amounts[i])] = resource.MustParse(amounts[i+1])
		}
		p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list}}}
	}
}

func withPriority(priority int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Priority = &priority }
}

// replacements returns which of some pods go before all others.
func (s *story) replacements(names ...string) (pass []string) {
	for _, name := range names {
		if m, _ := s.GroupOf(types.UID(name)); m.Replaces {
			pass = append(pass, name)
		}
	}
	return pass
}

// runs has a gang of pods start, and shows them on their nodes.
func (s *story) runs(pods map[string]func(*corev1.Pod)) {
	s.Helper()
	s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: int32(len(pods)), Created: noon})
	var names []string
	for name := range pods {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		s.add(name, pods[name])
	}
	s.run(names...)
}

// A replacement asks for no more than the lost member. Otherwise a group
// of many small pods that soon end could become one of as many large pods.
func TestReplacementMustNotDemandMore(t *testing.T) {
	small := withRequests("cpu", "1", "memory", "1Gi")
	cases := map[string]struct {
		// lose is how pod 1 of two goes.
		lose func(*story)
		come func(*corev1.Pod)
		pass bool
	}{
		"the same":                    {come: small, pass: true},
		"less":                        {come: withRequests("cpu", "500m"), pass: true},
		"more":                        {come: withRequests("cpu", "64", "memory", "1Gi")},
		"less of one, more of other":  {come: withRequests("cpu", "100m", "memory", "2Gi")},
		"something else":              {come: withRequests("cpu", "1", "nvidia.com/gpu", "1")},
		"a lower priority":            {come: withPriority(-1), pass: true},
		"a higher priority":           {come: withPriority(1)},
		"that which was lost is done": {lose: func(s *story) { s.update("1", objects.InPhase(corev1.PodSucceeded)) }, come: small},
		"done, and removed":           {lose: func(s *story) { s.update("1", objects.InPhase(corev1.PodSucceeded)); s.DropPod("1") }, come: small},
		"failed":                      {lose: func(s *story) { s.update("1", objects.InPhase(corev1.PodFailed)) }, come: small, pass: true},
		"on its way out":              {lose: func(s *story) { s.update("1", s.terminating) }, come: small, pass: true},
		"ended on its way out":        {lose: func(s *story) { s.update("1", s.terminating); s.update("1", objects.InPhase(corev1.PodSucceeded)) }, come: small, pass: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStoryWithRequests(t)
			s.runs(map[string]func(*corev1.Pod){"0": small, "1": small})
			if tc.lose == nil {
				tc.lose = func(s *story) { s.DropPod("1") }
			}
			tc.lose(s)
			s.add("2", tc.come)
			if v := s.PreEnqueue("2", s.now); !v.Pass || (v.PodsToPlace == 0) != tc.pass {
				t.Errorf("verdict = %+v, want that it asks, before all others: %t", v, tc.pass)
			}
			rank := s.Rank(s.pods["2"])
			if rank.Urgent != tc.pass || !tc.pass && !rank.Since.Equal(s.pods["2"].CreationTimestamp.Time) {
				t.Errorf("its rank is %+v, want it before all others: %t, or else by its own creation", rank, tc.pass)
			}
			plan, _ := s.Plan("2", s.now)
			if (plan.Missing > 0) != tc.pass || !plan.Late {
				t.Errorf("the plan is for %d that are lacking, want it for one: %t", plan.Missing, tc.pass)
			}
			_, overtaken := s.MoreUrgent(s.other(), s.now)
			if overtaken != tc.pass {
				t.Errorf("it is asked for before others: %t, want %t", overtaken, tc.pass)
			}
		})
	}
}

// other adds a pod of another group.
func (s *story) other() types.UID {
	k := types.NamespacedName{Namespace: key.Namespace, Name: "other"}
	s.PutPodGroup(k, PodGroup{UID: "other", MinMember: 1, Created: noon})
	s.add("other", objects.InGroup(k.Name))
	return "other"
}

// As many pods pass as were lost, each in the position of one.
func TestEachReplacementTakesOnePosition(t *testing.T) {
	leader, worker := withRequests("cpu", "4"), withRequests("cpu", "1")
	s := newStoryWithRequests(t)
	s.runs(map[string]func(*corev1.Pod){"0": leader, "1": worker, "2": worker, "3": worker})
	for _, name := range []string{"0", "1", "2"} {
		s.DropPod(types.UID(name))
	}
	// The workers come first, and leave the leader's position to the leader.
	for _, name := range []string{"1b", "2b"} {
		s.add(name, worker)
	}
	s.add("large", leader)
	s.add("larger", leader)
	s.add("4", worker)
	if got := s.replacements("1b", "2b", "large", "larger", "4"); !slices.Equal(got, []string{"1b", "2b", "large"}) {
		t.Errorf("pods %v pass others, want two workers and a leader", got)
	}
	plan, _ := s.Plan("1b", s.now)
	if got := names(plan.Optional); plan.Missing != 3 || !slices.Equal(got, []string{"2b", "large"}) {
		t.Errorf("the plan is for %d, with %v; want it for the three that pass", plan.Missing, got)
	}
	// A pod that leaves lets the next have the position.
	s.DropPod("large")
	if got := s.replacements("larger", "4"); !slices.Equal(got, []string{"larger"}) {
		t.Errorf("pods %v pass others, want the other leader", got)
	}
}

// A large pod that waited as a new group does is a demand of the group from
// then on. One position becomes larger, however often the pod comes and goes.
func TestPositionTakesOverDemandOfLateMember(t *testing.T) {
	small, large := withRequests("cpu", "1"), withRequests("cpu", "64")
	s := newStoryWithRequests(t)
	s.runs(map[string]func(*corev1.Pod){"0": small, "1": small, "2": small})
	for _, name := range []string{"1", "2"} {
		s.DropPod(types.UID(name))
	}
	s.add("large-1", large)
	s.match("large-1")
	s.update("large-1", objects.OnNode("n"))
	s.DropPod("large-1")
	s.add("large-2", large)
	s.add("large-3", large)
	if got := s.replacements("large-2", "large-3"); !slices.Equal(got, []string{"large-2"}) {
		t.Errorf("pods %v pass others, want one in the place of the one that was matched", got)
	}
	// A pod that runs without a position takes the position of a pod that goes.
	s = newStoryWithRequests(t)
	s.runs(map[string]func(*corev1.Pod){"0": small, "1": small})
	s.add("large-1", large)
	s.match("large-1")
	s.update("large-1", objects.OnNode("n"))
	s.DropPod("0")
	s.DropPod("1")
	s.add("large-2", large)
	s.add("3", small)
	if got := s.replacements("large-2", "3"); !slices.Equal(got, []string{"3"}) {
		t.Errorf("pods %v pass others, want the small one: the large one that was matched still runs", got)
	}
}

// Of the matches of an earlier scheduler only the pods that still run are known.
func TestUnknownPositionsAreCoveredByKnownOnesAfterRestart(t *testing.T) {
	small := withRequests("cpu", "1")
	s := newStoryWithRequests(t)
	s.add("0", small, objects.OnNode("n"))
	s.add("1", small)
	s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 3, Created: noon})
	s.add("2", withRequests("cpu", "2"))
	s.add("3", small, withPriority(1))
	s.add("4", small)
	s.add("5", small)
	if got := s.replacements("1", "2", "3", "4", "5"); !slices.Equal(got, []string{"1", "4"}) {
		t.Errorf("pods %v pass others, want as many of the size that is known as are lacking", got)
	}
	// A pod that was bound and is seen late has its position.
	s.add("6", small, objects.OnNode("n"))
	if got := s.replacements("1", "4", "5"); len(got) != 1 {
		t.Errorf("pods %v pass others, want one", got)
	}
}

// A pod that may pass is placed before a pod that came first and may not pass.
func TestReplacementIsRepresentativeBeforeOtherLateMembers(t *testing.T) {
	small := withRequests("cpu", "1")
	s := newStoryWithRequests(t)
	s.runs(map[string]func(*corev1.Pod){"0": small, "1": small})
	s.add("2", withRequests("cpu", "2"))
	if got := s.podsToEnqueue(); !slices.Equal(got, []string{"2"}) {
		t.Fatalf("pods to enqueue = %v, want the late one", got)
	}
	s.DropPod("1")
	s.add("3", small)
	if got := s.podsToEnqueue(); !slices.Equal(got, []string{"3"}) {
		t.Errorf("pods to enqueue = %v, want the one that takes the place", got)
	}
	// While that pod is refused, the other may be placed.
	plan, _ := s.Plan("3", s.now)
	s.Refuse(plan, Refusal{Reason: "NoRoom", RetryOn: []Event{Released}}, s.now)
	if got := s.podsToEnqueue(); !slices.Equal(got, []string{"2"}) {
		t.Errorf("pods to enqueue = %v, want the one that was not refused", got)
	}
	if uid, ok := s.MoreUrgent(s.other(), s.now); ok {
		t.Errorf("pod %s is asked for before others, which takes no place", uid)
	}
}

// A new incarnation has new positions.
func TestPositionsEndWithTheIncarnation(t *testing.T) {
	large := withRequests("cpu", "64")
	s := newStoryWithRequests(t)
	s.runs(map[string]func(*corev1.Pod){"0": large, "1": large})
	s.DropPod("0")
	s.DropPod("1")
	small := withRequests("cpu", "1")
	for _, name := range []string{"2", "3"} {
		s.add(name, small)
	}
	s.run("2", "3")
	s.DropPod("3")
	s.add("4", large)
	if got := s.replacements("4"); len(got) > 0 {
		t.Errorf("pods %v pass others in places of a former incarnation", got)
	}
}

// A pod that loses its assignment before its bind keeps its position.
func TestReplacementKeepsPositionWhenAssignmentIsRevoked(t *testing.T) {
	s := newStory(t)
	s.gang(2, 2)
	s.run("0")
	s.update("0", objects.OnNode("n-0"))
	s.Plan("1", s.now)
	s.FilterRejected("1", s.now, "no")
	if got := s.replacements("1"); len(got) != 1 {
		t.Error("a pod that lost its seat after the start does not go before others")
	}
}

// A user may delete a member, or take it out of the group, and keep its room for
// long. A position does not hold the room of more than two pods in this way.
func TestTerminatingMembersOfAPositionAreBounded(t *testing.T) {
	large := withRequests("cpu", "64")
	goes := map[string]struct {
		// leave is how the pod that runs leaves, keeping its room.
		leave func(*story) func(*corev1.Pod)
		// want lists the pods that pass in turn, as each leaves in this way.
		want []string
	}{
		"with a long time to end": {leave: func(s *story) func(*corev1.Pod) { return s.terminating }, want: []string{"next-0"}},
		"to another group": {leave: func(*story) func(*corev1.Pod) {
			return objects.InGroup("elsewhere")
		}},
	}
	for name, tc := range goes {
		t.Run(name, func(t *testing.T) {
			s := newStoryWithRequests(t)
			s.runs(map[string]func(*corev1.Pod){"0": withRequests("cpu", "1m"), "1": large})
			last, passed := "1", []string(nil)
			for i := range 4 {
				s.update(last, tc.leave(s))
				next := fmt.Sprintf("next-%d", i)
				s.add(next, large)
				passed = append(passed, s.replacements(next)...)
				s.run(next)
				last = next
			}
			if !slices.Equal(passed, tc.want) {
				t.Errorf("pods %v pass others, want %v", passed, tc.want)
			}
		})
	}
	t.Run("until it is gone", func(t *testing.T) {
		for _, gone := range []func(*story){
			func(s *story) { s.DropPod("1") },
			func(s *story) { s.update("1", objects.InPhase(corev1.PodFailed)) },
			func(s *story) {
				s.update("1", objects.InGroup("elsewhere"))
				s.DropPod("1")
			},
		} {
			s := newStoryWithRequests(t)
			s.runs(map[string]func(*corev1.Pod){"0": withRequests("cpu", "1m"), "1": large})
			s.update("1", s.terminating)
			s.add("2", large)
			s.run("2")
			s.update("2", s.terminating)
			s.add("3", large)
			if got := s.replacements("3"); len(got) > 0 {
				t.Errorf("pods %v pass others while two hold the room of their place", got)
			}
			s.update("1", objects.InGroup("elsewhere"))
			if got := s.replacements("3"); len(got) > 0 {
				t.Errorf("pods %v pass others, since one on its way out went to another group", got)
			}
			gone(s)
			if got := s.replacements("3"); !slices.Equal(got, []string{"3"}) {
				t.Errorf("pods %v pass others when one of the two is gone, want the one that waits", got)
			}
		}
	})
}

// If the minimum is raised after the first bind was sent, the group is not incomplete.
func TestMinimumRaisedAfterFirstBindMakesNoMissingMembers(t *testing.T) {
	s := newStory(t)
	s.reserveGang(2, 2)
	s.leaveBindQueue("0", "")
	s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 100, Created: noon})
	s.ObserveBind("0")
	s.leaveBindQueue("1", "")
	s.ObserveBind("1")
	s.update("0", objects.OnNode("n-0"))
	s.update("1", objects.OnNode("n-1"))
	s.add("2")
	if got := s.replacements("2"); len(got) > 0 {
		t.Errorf("pods %v pass others, of a group that has all that it started with", got)
	}
	// A group whose first bind was not made has not started, and does not start with less.
	s = newStory(t)
	s.reserveGang(2, 2)
	s.leaveBindQueue("0", "")
	s.UndoBind("0")
	s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 3, Created: noon})
	if why, _ := s.leaveBindQueue("0", ""); why == "" {
		t.Error("a group of two starts, and its minimum is three")
	}
}
