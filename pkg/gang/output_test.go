package gang

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
)

// note records what a call returned, as a caller that carries it out.
func (s *story) note(out Output) Output {
	s.transitions = append(s.transitions, out.Transitions...)
	for _, p := range out.Placed {
		s.placed[p.Key] = p
	}
	return out
}

// Transitions returns the transitions since it was last called.
func (s *story) Transitions() []Transition {
	all := s.transitions
	s.transitions = nil
	return all
}

// Placed returns the last report of each group that was listed in Placed since it was last called.
func (s *story) Placed() []PlacedGroup {
	all := slices.Collect(maps.Values(s.placed))
	clear(s.placed)
	return all
}

func (s *story) PutPod(pod *corev1.Pod) Output { return s.note(s.Groups.PutPod(pod, s.now)) }

func (s *story) ObserveOwner(uid types.UID) Output { return s.note(s.Groups.ObserveOwner(uid)) }

func (s *story) DropPod(uid types.UID) Output { return s.note(s.Groups.DropPod(uid)) }

func (s *story) PutPodGroup(key types.NamespacedName, pg PodGroup) Output {
	return s.note(s.Groups.PutPodGroup(key, pg))
}

func (s *story) DropPodGroup(key types.NamespacedName) Output {
	return s.note(s.Groups.DropPodGroup(key))
}

func (s *story) MarkSynced() Output { return s.note(s.Groups.MarkSynced()) }

func (s *story) NamespaceChanged(namespace string) Output {
	return s.note(s.Groups.NamespaceChanged(namespace))
}

func (s *story) Plan(uid types.UID, now time.Time) (Plan, Output) {
	p, out := s.Groups.Plan(uid, now)
	return p, s.note(out)
}

func (s *story) Assign(p Plan, slots []match.Slot, deadline time.Time) (string, []*corev1.Pod, Output, error) {
	node, siblings, out, err := s.Groups.Assign(p, slots, deadline)
	return node, siblings, s.note(out), err
}

func (s *story) Refuse(p Plan, r Refusal, now time.Time) Output {
	return s.note(s.Groups.Refuse(p, r, now))
}

func (s *story) Unreserve(uid types.UID, now time.Time, why string) Output {
	return s.note(s.Groups.Unreserve(uid, now, why))
}

func (s *story) FilterRejected(uid types.UID, now time.Time, why string) Output {
	return s.note(s.Groups.FilterRejected(uid, now, why))
}

func (s *story) RevokeAbandoned(uid types.UID, lost match.JobID, now time.Time) Output {
	return s.note(s.Groups.RevokeAbandoned(uid, lost, now))
}

func (s *story) RefusePod(uid types.UID, now time.Time, reason, why string) Output {
	return s.note(s.Groups.RefusePod(uid, now, reason, why))
}

func (s *story) ObserveBind(uid types.UID) Output { return s.note(s.Groups.ObserveBind(uid)) }

func (s *story) RevokeExpired(now time.Time) Output { return s.note(s.Groups.RevokeExpired(now)) }

func (s *story) CommitBind(d BindIntent, closed string, now time.Time) (string, Output, bool) {
	why, out, ok := s.Groups.CommitBind(d, closed, now)
	return why, s.note(out), ok
}

func (s *story) UndoBind(uid types.UID) Output { return s.note(s.Groups.UndoBind(uid)) }

func (s *story) ReportAgain(key types.NamespacedName) Output {
	return s.note(s.Groups.ReportAgain(key))
}

// Each call returns its results once.
func TestEachCallHasItsOutput(t *testing.T) {
	s := newStory(t)
	wakes := func(what string, out Output, forgets ...types.NamespacedName) {
		t.Helper()
		if !slices.Equal(out.Activate, []types.NamespacedName{key}) || !slices.Equal(out.Forget, forgets) {
			t.Errorf("%s: wakes %v and forgets %v, want the group woken and %v forgotten", what, out.Activate, out.Forget, forgets)
		}
	}
	wakes("a PodGroup", s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 1, Created: noon}))
	wakes("a pod", s.add("0"))
	wakes("another", s.add("1"))
	wakes("a pod that goes", s.DropPod("1"))
	s.match("0")
	s.reserveAndBind("0")
	out := s.ObserveBind("0")
	if len(out.Placed) != 1 || out.Placed[0].Nodes["n-0"] != 1 {
		t.Errorf("the bind of the last pod tells of %v, want the group placed", out.Placed)
	}
	if out = s.ObserveBind("0"); len(out.Placed) > 0 {
		t.Errorf("once more it tells of %v", out.Placed)
	}
	wakes("the PodGroup goes", s.DropPodGroup(key), key)
	wakes("the last pod goes", s.DropPod("0"), key)
	if out := s.DropPodGroup(key); len(out.Activate) > 0 || !slices.Equal(out.Forget, []types.NamespacedName{key}) {
		t.Errorf("a PodGroup without a group wakes %v and forgets %v, want it forgotten alone", out.Activate, out.Forget)
	}
}
