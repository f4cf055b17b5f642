package gang

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
)

// asBound sets what the kubelet of a node reports of a pod there, whoever put it there.
func asBound(p *corev1.Pod) { objects.OnNode(p.Spec.NodeName)(p) }

// A pod that was created on a node does not start its group. The
// other pods are placed together, one fewer for each such pod.
func TestAPodThatWasCreatedOnANodeStartsNothing(t *testing.T) {
	s := newStory(t)
	s.gang(4, 0)
	s.add("brought", objects.CreatedOn("nowhere"))
	s.update("brought", asBound)
	s.add("0")
	if m, _ := s.GroupOf("0"); m.Started || m.Missing != 0 || m.Replaces {
		t.Errorf("the group is taken for one that has started: %+v", m)
	}
	s.add("1")
	if v := s.PreEnqueue("0", s.now); v.Pass || v.Reason != reason.Gathering || !strings.HasSuffix(v.Message, "has 3 of minMember 4") {
		t.Errorf("verdict = %+v, want that one more is waited for", v)
	}
	s.add("2")
	p, _ := s.Plan("0", s.now)
	if p.Late || len(p.Required) != 3 || len(p.Near) != 0 {
		t.Errorf("plan = late %t, %d pods, near %v; want a new group of three", p.Late, len(p.Required), p.Near)
	}
	if nodes := s.NodesOf(key); len(nodes) != 0 {
		t.Errorf("it is said to run on %v", nodes)
	}
	s.match("0")
	s.reserve("1", "2")
	s.DropPod("brought")
	if m, _ := s.GroupOf("0"); m.Missing != 0 {
		t.Errorf("the group lacks %d members that nobody placed", m.Missing)
	}
}

// A pod that was created on a node makes no position that others may take, and enlarges none.
func TestPreplacedPodHasNoPosition(t *testing.T) {
	small, great := withRequests("cpu", "1m"), withRequests("cpu", "4")
	s := newStoryWithRequests(t)
	s.runs(map[string]func(*corev1.Pod){"0": small, "1": small})
	s.DropPod("1")
	s.add("great", great)
	if got := s.replacements("great"); len(got) != 0 {
		t.Fatal("a greater pod takes the place of a small one")
	}
	s.DropPod("great")
	s.add("brought", great, objects.CreatedOn("nowhere"))
	s.DropPod("brought")
	s.add("another", great)
	if got := s.replacements("another"); len(got) != 0 {
		t.Error("the place has grown by a pod that nobody matched")
	}
}

// A pod that runs in one group and comes to another by a label counts as created on its node.
func TestAPodThatComesToAnotherGroupStartsNothing(t *testing.T) {
	s := newStory(t)
	s.gang(2, 1)
	s.add("elsewhere", objects.OnNode("n"), func(p *corev1.Pod) { p.Labels[group.Label] = "other" })
	s.update("elsewhere", func(p *corev1.Pod) { p.Labels[group.Label] = key.Name })
	if m, _ := s.GroupOf("0"); m.Started {
		t.Errorf("the group is taken for one that has started: %+v", m)
	}
	if p, _ := s.Plan("0", s.now); p.Late || len(p.Required) != 1 {
		t.Errorf("plan = late %t, %d pods, want one that is new", p.Late, len(p.Required))
	}
}

// After a restart a group has to have no more members than its status reported.
func TestMinimumRaisedBeforeRestartMakesNoMissingMembers(t *testing.T) {
	for placed, lacking := range map[int]int{0: 49, 1: 0, 3: 2, 60: 49} {
		s := newStory(t)
		s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 50, Created: noon, Placed: placed})
		s.add("0", objects.OnNode("n"))
		s.add("1")
		if m, _ := s.GroupOf("1"); m.Missing != lacking {
			t.Errorf("of %d that were placed, and one that is there, %d are lacking, want %d", placed, m.Missing, lacking)
		}
	}
}

// A group waits for nothing if all its pods were created on nodes.
func TestAGroupThatWasCreatedOnNodesIsHeld(t *testing.T) {
	s := newStory(t)
	s.gang(2, 0)
	s.add("0", objects.CreatedOn("n"))
	s.add("1", objects.CreatedOn("n"))
	if c := s.Stats(); c.Phases[Held] != 1 {
		t.Errorf("phases = %v, want one held", c.Phases)
	}
}
