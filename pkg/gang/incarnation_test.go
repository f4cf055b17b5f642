package gang

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
)

func (s *story) terminating(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: s.now} }

// State 4 of the lessons of earlier systems. Pods that are being deleted hold
// their room for as long as they like; the pods after them start together.
func TestSuccessorsOfTerminatingPodsAreANewIncarnation(t *testing.T) {
	s := newStory(t)
	s.start(3)
	s.Placed()
	for _, name := range []string{"0", "1", "2"} {
		s.update(name, s.terminating)
	}
	s.DropPod("0")
	delete(s.pods, "0")
	s.add("0b")
	if v := s.PreEnqueue("0b", s.now); v.Pass || v.Reason != reason.Gathering {
		t.Errorf("verdict on one successor of three = %+v, want it held", v)
	}
	s.add("1b")
	s.add("2b")
	for name, want := range map[types.UID]bool{"0b": true, "1b": false, "2b": false} {
		if v := s.PreEnqueue(name, s.now); v.Pass != want || v.Message != "" {
			t.Errorf("verdict on pod %s = %+v, want that one asks for all", name, v)
		}
	}
	plan := s.match("0b")
	if len(plan.Required) != 3 || len(plan.Near) != 0 {
		t.Errorf("plan requires %d pods near %v, want all three, near nobody", len(plan.Required), plan.Near)
	}
	if got := s.Placed(); len(got) != 0 {
		t.Errorf("placed = %+v, though only those on their way out have nodes", got)
	}
}

func TestRevokeAbandonedRevokesWholeJob(t *testing.T) {
	s := newStory(t)
	s.start(2)
	s.add("2")
	s.add("3")
	plan := s.match("2")
	s.wantReleased(s.RevokeAbandoned("2", plan.Job, s.now), plan.Job, "2", "3")
	s.wantTentative(0)
}

func TestLateMemberHeldByAnotherPluginDoesNotBlockOthers(t *testing.T) {
	s := newStory(t)
	s.start(2)
	s.add("2")
	s.add("3")
	s.wantEnqueueable("0", "1", "2")
	e := s.RefusePod("2", s.now, "NodesRuledOut", "no such claim")
	if len(e.Refusals) != 1 || e.Refusals[0].Message != "no such claim" {
		t.Errorf("told %+v, want why the pod is kept out", e.Refusals)
	}
	if got := s.podsToEnqueue(); !slices.Equal(got, []string{"3"}) {
		t.Errorf("pods to enqueue = %v, want the other one", got)
	}
}

// Also after a restart of the scheduler, which sees pods before their owners.
func TestALabelledPodOfADeploymentIsNoGangOnceItsOwnerIsSeen(t *testing.T) {
	owners := seenOwners{}
	s := newStory(t)
	s.Groups = New(owners, match.PolicyLonode)
	s.add("0", func(p *corev1.Pod) {
		p.Labels = map[string]string{group.Label: ownerOfKind(deployment).PodGroupName()}
		objects.OwnedBy(ownerOfKind(replicaSet))(p)
	})
	if v := s.PreEnqueue("0", s.now); v.Pass || v.Reason != reason.NoPodGroup {
		t.Errorf("verdict before the owner was seen = %+v, want %s", v, reason.NoPodGroup)
	}
	owners[ownerOfKind(replicaSet)] = ownerOfKind(deployment)
	s.ObserveOwner(ownerOfKind(replicaSet).UID)
	s.wantEnqueueable("0")
}

func TestRaisedMinimumMakesNoMissingMembers(t *testing.T) {
	s := newStory(t)
	s.start(2)
	s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 4, Created: noon})
	s.add("2")
	s.add("3")
	s.PreEnqueue("2", s.now)
	if m, _ := s.GroupOf("2"); m.Missing != 0 || s.Rank(s.pods["2"]).Urgent {
		t.Errorf("a group of 2 that is to have 4 lacks %d and goes before others", m.Missing)
	}
	plan, _ := s.Plan("2", s.now)
	s.Refuse(plan, Refusal{Reason: "NoRoom", Message: "full", RetryOn: []Event{Released}, AlsoRefused: []types.UID{"2", "3"}}, s.now)
	if placed := s.Placed(); len(placed) != 1 || placed[0].RefusedLate != 2 || placed[0].Message != "full" {
		t.Errorf("placed = %+v, want that two cannot follow, and why", placed)
	}
	s.DropPod("1")
	if m, _ := s.GroupOf("2"); m.Missing != 1 || m.Required != 2 {
		t.Errorf("after a loss it lacks %d of %d, want 1 of the 2 that it had", m.Missing, m.Required)
	}
}

func TestPlacedIsReportedAgainWithNewNodes(t *testing.T) {
	s := newStory(t)
	s.start(2)
	s.Placed()
	s.DropPod("1")
	delete(s.pods, "1")
	s.add("1b")
	s.update("1b", objects.OnNode("elsewhere"))
	placed := s.Placed()
	if len(placed) != 1 || placed[0].Nodes["elsewhere"] != 1 {
		t.Errorf("placed = %+v, want the new node", placed)
	}
}

// PreEnqueue runs under the lock of the scheduler's queue.
func BenchmarkPreEnqueue(b *testing.B) {
	g := New(seenOwners{}, match.PolicyLonode)
	g.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 4000, Created: noon})
	var pods []*corev1.Pod
	for i := range 4000 {
		name := time.Duration(i).String()
		pods = append(pods, objects.Pod(name, objects.InGroup(key.Name)))
		g.PutPod(pods[i], noon)
	}
	for b.Loop() {
		for _, p := range pods {
			g.PreEnqueue(p.UID, noon)
		}
	}
}
