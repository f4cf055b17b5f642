package gang

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/test/objects"
)

// reserveGang brings a gang of n pods, with a minimum of least, into the bind queue.
func (s *story) reserveGang(least, n int) Plan {
	s.Helper()
	s.gang(int32(least), n)
	p := s.match("0")
	for i := range n {
		name := string(rune('0' + i))
		if err := s.Reserve(types.UID(name), "n-"+name); err != nil {
			s.Fatal(err)
		}
		s.Permit(types.UID(name))
	}
	return p
}

// leaveBindQueue has a pod leave the bind queue if its assignments are valid. It returns why not otherwise.
func (s *story) leaveBindQueue(uid types.UID, closed string) (string, Output) {
	s.Helper()
	why, e, ok := s.CommitBind(s.PrepareBind(uid), closed, s.now)
	if !ok {
		s.Fatalf("the departure of %s is said to be out of date", uid)
	}
	return why, e
}

func TestCommitBindRevokesInvalidAssignments(t *testing.T) {
	const cordoned = "node n-1 was cordoned"
	cases := map[string]struct {
		least int
		play  func(s *story) Output
		// released are the pods that lose their assignments.
		// rejected are the pods among them that are not to be bound.
		released, rejected []string
		left               int
	}{
		"a node that closes costs a group without a bind all assignments": {least: 3, play: func(s *story) Output {
			_, e := s.leaveBindQueue("1", cordoned)
			return e
		}, released: []string{"0", "1", "2"}, rejected: []string{"0", "1", "2"}},
		"also where fewer would be enough": {least: 2, play: func(s *story) Output {
			_, e := s.leaveBindQueue("1", cordoned)
			return e
		}, released: []string{"0", "1", "2"}, rejected: []string{"0", "1", "2"}},
		"a node that closes costs a group with a bind this seat alone": {least: 3, play: func(s *story) Output {
			s.sendBinds("0")
			_, e := s.leaveBindQueue("1", cordoned)
			return e
		}, released: []string{"1"}, rejected: []string{"1"}, left: 2},
		"a bind that was refused for a 429 is none": {least: 3, play: func(s *story) Output {
			s.sendBinds("0")
			s.UndoBind("0")
			_, e := s.leaveBindQueue("1", cordoned)
			return e
		}, released: []string{"0", "1", "2"}, rejected: []string{"0", "1", "2"}},
		"but another that is in flight is one": {least: 3, play: func(s *story) Output {
			s.sendBinds("0", "2")
			s.UndoBind("0")
			_, e := s.leaveBindQueue("1", cordoned)
			return e
		}, released: []string{"1"}, rejected: []string{"1"}, left: 2},
		"and so is one that was made": {least: 3, play: func(s *story) Output {
			s.sendBinds("0", "2")
			s.ObserveBind("2")
			s.UndoBind("0")
			_, e := s.leaveBindQueue("1", cordoned)
			return e
		}, released: []string{"1"}, rejected: []string{"1"}, left: 2},
		"a member that is deleted costs a group without a bind all assignments": {least: 3, play: func(s *story) Output {
			return s.DropPod("1")
		}, released: []string{"0", "1", "2"}, rejected: []string{"0", "1", "2"}},
		"unless the others are enough": {least: 2, play: func(s *story) Output {
			return s.DropPod("1")
		}, released: []string{"1"}, rejected: []string{"1"}, left: 2},
		"a member that is deleted costs a group with a bind this seat alone": {least: 3, play: func(s *story) Output {
			s.sendBinds("0")
			return s.DropPod("1")
		}, released: []string{"1"}, rejected: []string{"1"}, left: 2},
		"a minimum that is raised above the members costs all seats": {least: 3, play: func(s *story) Output {
			return s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 4, Created: noon})
		}, released: []string{"0", "1", "2"}, rejected: []string{"0", "1", "2"}},
		"the gate is no place at which a deadline is missed": {least: 3, play: func(s *story) Output {
			s.now = s.now.Add(time.Hour)
			return s.RevokeExpired(s.now)
		}, left: 3},
		"what fails before the first bind costs all seats": {least: 3, play: func(s *story) Output {
			return s.Unreserve("1", s.now, "no volume")
		}, released: []string{"0", "1", "2"}, rejected: []string{"0", "1", "2"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			p := s.reserveGang(tc.least, 3)
			e := tc.play(s)
			s.wantReleased(e, p.Job, tc.released...)
			var rejected []string
			for _, uid := range e.Reject {
				rejected = append(rejected, string(uid))
			}
			if slices.Sort(rejected); !slices.Equal(rejected, tc.rejected) {
				t.Errorf("rejected pods = %v, want %v", rejected, tc.rejected)
			}
			s.wantTentative(tc.left)
		})
	}
}

// PrepareBind returns the assignments that have to be valid before a bind is sent.
func TestPrepareBindReturnsAllReservedUntilStarted(t *testing.T) {
	cases := map[string]struct {
		play func(s *story)
		want []string
	}{
		"no bind was sent": {func(*story) {}, []string{"0 n-0", "1 n-1", "2 n-2"}},
		"one was sent":     {func(s *story) { s.sendBinds("0") }, []string{"1 n-1"}},
		"one was sent, and the API server was too busy for it": {func(s *story) {
			s.sendBinds("0")
			s.UndoBind("0")
		}, []string{"0 n-0", "1 n-1", "2 n-2"}},
		"another is on its way out": {func(s *story) {
			s.update("2", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} })
		}, []string{"0 n-0", "1 n-1"}},
		"it is on its way out": {func(s *story) {
			s.update("1", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} })
		}, nil},
		"it is gone": {func(s *story) { s.DropPod("1") }, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.reserveGang(2, 3)
			tc.play(s)
			var got []string
			for _, a := range s.PrepareBind("1").Assignments {
				got = append(got, string(a.Pod.UID)+" "+a.Node)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("departing: %q, want %q", got, tc.want)
			}
		})
	}
}

// An intent that was made for another start of the group is out of date.
func TestCommitBindDetectsStaleIntent(t *testing.T) {
	cases := map[string]struct{ before, after func(s *story) }{
		"its group has started meanwhile": {func(*story) {}, func(s *story) { s.sendBinds("0") }},
		"its group has not, after all":    {func(s *story) { s.sendBinds("0") }, func(s *story) { s.UndoBind("0") }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.reserveGang(2, 2)
			tc.before(s)
			d := s.PrepareBind("1")
			tc.after(s)
			if why, e, ok := s.CommitBind(d, "node n-0 was cordoned", s.now); ok || why != "" || len(e.Release)+len(e.Reject) > 0 {
				t.Errorf("it departs with what was looked at before: %q, %+v", why, e)
			}
			// Nor with an intent of a pod without an assignment.
			if _, _, ok := s.CommitBind(BindIntent{Pod: "1"}, "", s.now); ok {
				t.Error("it departs without a look")
			}
			if why, _ := s.leaveBindQueue("1", ""); why != "" {
				t.Errorf("after another look it does not depart: %s", why)
			}
		})
	}
}

func TestCommitBindRefusesPodWithoutReservedAssignment(t *testing.T) {
	cases := map[string]func(s *story){
		"it was never seen":          func(s *story) { s.DropPod("0") },
		"it is being deleted":        func(s *story) { s.update("0", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} }) },
		"somebody else has bound it": func(s *story) { s.update("0", objects.OnNode("elsewhere")) },
		"its group gave back":        func(s *story) { s.leaveBindQueue("1", "node n-1 was cordoned") },
		"it stands there a second time": func(s *story) {
			s.sendBinds("0")
			s.Unreserve("0", s.now, "the bind failed")
		},
	}
	for name, play := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.reserveGang(2, 2)
			play(s)
			if why, _ := s.leaveBindQueue("0", ""); why == "" {
				t.Error("it departs")
			}
		})
	}
}

func TestGroupInBindQueueIsNotEnqueued(t *testing.T) {
	s := newStory(t)
	s.reserveGang(2, 2)
	s.add("late")
	s.now = s.now.Add(time.Minute)
	if v := s.PreEnqueue("late", s.now); v.Pass {
		t.Error("a pod that came meanwhile asks before its group has started")
	}
	if waits, may := s.StillWaits("0"); !waits || !may {
		t.Errorf("Awaited = %t, %t; want that it waits and may go on", waits, may)
	}
	s.sendBinds("0", "1")
	if v := s.PreEnqueue("late", s.now); !v.Pass {
		t.Errorf("a pod that is late may not ask: %s", v.Message)
	}
}

// If a bind of a group was made, or may have been made, the group has started whatever comes next.
func TestUndoBindKeepsStartedIfABindMayHaveBeenMade(t *testing.T) {
	cases := map[string]func(s *story){
		"a member ran and ended": func(s *story) {
			s.sendBinds("0")
			s.ObserveBind("0")
			s.update("0", objects.OnNode("n-0"))
			s.update("0", func(p *corev1.Pod) { p.Spec.NodeName = "n-0"; p.Status.Phase = corev1.PodSucceeded })
		},
		"no answer came": func(s *story) {
			s.sendBinds("0")
			s.Unreserve("0", s.now, "the bind timed out")
		},
	}
	for name, first := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.reserveGang(3, 3)
			first(s)
			s.sendBinds("1")
			s.UndoBind("1")
			if why, _ := s.leaveBindQueue("1", ""); why != "" {
				t.Errorf("the next pod does not depart: %s", why)
			}
			s.UndoBind("1")
			_, e := s.leaveBindQueue("1", "node n-1 was cordoned")
			for _, r := range e.Release {
				if len(r.Keys) > 1 {
					t.Errorf("seats are given back: %v, want that of pod 1 alone", r.Keys)
				}
			}
		})
	}
}

// If something else was reported of a group in the
// moment before it was placed, it is reported again.
func TestReportAgainListsFullyPlacedGroup(t *testing.T) {
	s := newStory(t)
	s.reserveGang(2, 2)
	s.sendBinds("0", "1")
	s.ObserveBind("0")
	k := s.members["0"].group.key
	s.ReportAgain(k)
	if got := s.Placed(); len(got) > 0 {
		t.Errorf("a group that is not whole is told to be: %+v", got)
	}
	s.ObserveBind("1")
	for range 2 {
		if got := s.Placed(); len(got) != 1 {
			t.Errorf("groups that are whole: %+v, want one", got)
		}
		s.ReportAgain(k)
	}
	if n, of, whole := s.MemberCounts(k); n != 2 || of != 2 || !whole {
		t.Errorf("OnNodes = %d, %d, %t", n, of, whole)
	}
}

// A pod that is being deleted keeps its node for a while. It
// does not count for the pods of its group that follow it.
func TestTerminatingPodsDoNotCountForNextIncarnation(t *testing.T) {
	leaving := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} }
	begin := func(t *testing.T) *story {
		s := newStory(t)
		s.reserveGang(2, 2)
		s.sendBinds("0", "1")
		for _, name := range []string{"0", "1"} {
			s.ObserveBind(types.UID(name))
			s.update(name, objects.OnNode("n-"+name))
		}
		for _, name := range []string{"0", "1"} {
			s.update(name, leaving)
		}
		return s
	}
	t.Run("the PodGroup changes meanwhile", func(t *testing.T) {
		s := begin(t)
		s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 2, Created: noon})
		s.DropPod("0")
		s.DropPod("1")
		delete(s.pods, "0")
		delete(s.pods, "1")
		s.add("2")
		s.add("3")
		s.wantEnqueueable("2")
	})
	t.Run("the minimum is raised when the next are matched", func(t *testing.T) {
		s := begin(t)
		s.add("2")
		s.add("3")
		p := s.match("2")
		s.wantReleased(s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 4, Created: noon}), p.Job, "2", "3")
	})
	t.Run("the next are matched meanwhile", func(t *testing.T) {
		s := begin(t)
		s.add("2")
		s.add("3")
		s.match("2")
		for _, name := range []string{"2", "3"} {
			if err := s.Reserve(types.UID(name), "n-"+name); err != nil {
				t.Fatal(err)
			}
			if may, _ := s.Permit(types.UID(name)); may != (name == "3") {
				t.Errorf("pod %s may be bound: %t, want that both may when both are reserved", name, may)
			}
		}
	})
}
