package gang

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
)

const roleLabel = "training.kubeflow.org/job-role"

func role(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[roleLabel] = name }
}

// asking lets a pod ask for an amount, which storyRequests reads.
func asking(amount string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{"asks": amount} }
}

// newSeatStory begins a story of a group with two workers that exist, and a launcher that its owner makes
// once they are ready.
func newSeatStory(t *testing.T) *story {
	s := newStory(t)
	s.SetPodRequests(func(pod *corev1.Pod) map[string]int64 {
		n := int64(0)
		_, _ = fmt.Sscan(pod.Annotations["asks"], &n)
		return map[string]int64{"cpu": n}
	})
	s.SetSeatRules(SeatRules{ExpectTimeout: 5 * time.Minute, ExpectTotal: 30 * time.Minute, ScheduleTimeout: time.Minute, SlotOf: func(pod *corev1.Pod, node string) match.Slot {
		return match.Slot{Key: string(pod.UID), Node: node}
	}})
	s.PutPodGroup(key, seatedPodGroup())
	return s
}

// seatedPodGroup is a PodGroup of two workers, and a launcher that follows.
func seatedPodGroup() PodGroup {
	launcher := &corev1.Pod{}
	launcher.Labels, launcher.Annotations = map[string]string{roleLabel: "launcher"}, map[string]string{"asks": "2"}
	return PodGroup{UID: "pg", MinMember: 2, Created: noon, Stages: Stages{Templates: &Templates{Hash: "1", List: []Template{
		{Name: "worker", Coming: 2},
		{Name: "launcher", Expected: 1, AfterReady: true, Pod: launcher},
	}}}}
}

// startSeated adds the workers, matches them with a seat on node n-seat, records the seats and binds the workers.
func (s *story) startSeated() Plan {
	s.Helper()
	s.add("0", role("worker"))
	s.add("1", role("worker"))
	p := s.matchSeated()
	s.SeatsRecorded(key)
	s.reserveAndBind("0", "1")
	return p
}

// matchSeated matches the workers, and a seat on node n-seat.
func (s *story) matchSeated() Plan {
	s.Helper()
	p, _ := s.Plan("0", s.now)
	if len(p.Required) != 3 || p.Expected != 1 {
		s.Fatalf("the plan requires %v, %d of them expected; want two workers and one expected", names(p.Required), p.Expected)
	}
	slots := []match.Slot{{Key: "0", Node: "n-0"}, {Key: "1", Node: "n-1"}, {Key: string(p.Required[2].UID), Node: "n-seat"}}
	if _, _, _, err := s.Assign(p, slots, s.now.Add(time.Minute)); err != nil {
		s.Fatal(err)
	}
	return p
}

func (s *story) wantFreeSeats(n int) {
	s.Helper()
	if free, _ := s.SeatCounts(key); free != n {
		s.Errorf("%d seats are free, want %d", free, n)
	}
}

// The first match has a seat for the launcher, which only the launcher takes, without a match.
func TestAnExpectedPodTakesItsSeat(t *testing.T) {
	s := newSeatStory(t)
	p := s.startSeated()
	s.wantFreeSeats(1)
	s.wantTentative(3)
	s.add("other", role("worker"), asking("1"))
	if plan, _ := s.Plan("other", s.now); plan.Node != "" || plan.Job == 0 {
		t.Errorf("another worker is placed on %q without a match, want a match", plan.Node)
	}
	s.add("launcher", role("launcher"), asking("2"))
	plan, _ := s.Plan("other", s.now)
	if len(plan.Seated) != 1 || plan.Seated[0].Name != "launcher" {
		t.Errorf("pods that take a seat: %v, want the launcher", names(plan.Seated))
	}
	s.wantFreeSeats(0)
	if plan, _ := s.Plan("launcher", s.now); plan.Node != "n-seat" {
		t.Errorf("the launcher is placed on %q, want its seat", plan.Node)
	}
	if job := s.JobOf(s.pods["launcher"]); job != p.Job {
		t.Errorf("the launcher has job %d, want that of its seat, %d", job, p.Job)
	}
	if err := s.Reserve("launcher", "n-seat"); err != nil {
		t.Fatal(err)
	}
	// The seat belongs to the owner's next launcher if this one is deleted before it is bound.
	out := s.DropPod("launcher")
	s.wantReleased(out, p.Job)
	s.wantFreeSeats(1)
}

// A pod that asks for more than its seat, or whose seat a filter rejects, is a late member as any other.
func TestAPodThatCannotTakeItsSeat(t *testing.T) {
	t.Run("it asks for more", func(t *testing.T) {
		s := newSeatStory(t)
		p := s.startSeated()
		s.add("launcher", role("launcher"), asking("3"))
		plan, out := s.Plan("launcher", s.now)
		if plan.Node != "" || plan.Job == 0 || !plan.Late {
			t.Errorf("plan %+v, want a match of a late member", plan)
		}
		s.wantReleased(out, p.Job, string(p.Required[2].UID))
		if _, why := s.SeatCounts(key); why == "" {
			t.Error("nothing says why the seat was given back")
		}
	})
	t.Run("a filter rejects the node", func(t *testing.T) {
		s := newSeatStory(t)
		p := s.startSeated()
		s.add("launcher", role("launcher"), asking("2"))
		if plan, _ := s.Plan("launcher", s.now); plan.Node != "n-seat" {
			t.Fatalf("the launcher is placed on %q", plan.Node)
		}
		s.wantReleased(s.FilterRejected("launcher", s.now, "a taint"), p.Job, string(p.Required[2].UID))
		s.wantFreeSeats(0)
	})
}

// No pod of a group is bound before its PodGroup records the seats.
func TestSeatsAreRecordedBeforeTheFirstBind(t *testing.T) {
	s := newSeatStory(t)
	s.add("0", role("worker"))
	s.add("1", role("worker"))
	p := s.matchSeated()
	record := s.SeatsToRecord(key)
	if got := fmt.Sprint(record); got != "map[launcher:map[n-seat:1] worker:map[n-0:1 n-1:1]]" {
		t.Errorf("to record: %s", got)
	}
	for _, name := range []types.UID{"0", "1"} {
		if err := s.Reserve(name, "n-"+string(name)); err != nil {
			t.Fatal(err)
		}
		s.Permit(name)
	}
	why, out := s.leaveBindQueue("0", "")
	if why == "" {
		t.Error("a pod may be bound before the seats are recorded")
	}
	s.wantReleased(out, p.Job, "0", "1", string(p.Required[2].UID))
	s.wantFreeSeats(0)
}

// The seats end with what they are for, or after a time.
func TestSeatsAreGivenBack(t *testing.T) {
	ready := func(s *story) {
		for _, name := range []string{"0", "1"} {
			s.update(name, func(p *corev1.Pod) {
				p.Spec.NodeName = "n-" + name
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			})
		}
	}
	after := func(s *story, d time.Duration) Output {
		s.now = s.now.Add(d)
		return s.ExpireSeats(s.now)
	}
	cases := map[string]struct {
		do   func(s *story) Output
		kept bool
	}{
		"the others are not ready, and it is not late": {func(s *story) Output { after(s, 0); return after(s, 29*time.Minute) }, true},
		"the total time is over":                       {func(s *story) Output { after(s, 0); return after(s, 30*time.Minute) }, false},
		"the others have been ready for long":          {func(s *story) Output { ready(s); after(s, 0); return after(s, 5*time.Minute) }, false},
		"the others have been ready for a while":       {func(s *story) Output { ready(s); after(s, 0); return after(s, 4*time.Minute) }, true},
		"the group has ended": {func(s *story) Output {
			pg := seatedPodGroup()
			pg.Ended = true
			return s.PutPodGroup(key, pg)
		}, false},
		"the owner does not want the pod any more": {func(s *story) Output {
			pg := seatedPodGroup()
			pg.Templates = &Templates{Hash: "2", List: pg.Templates.List[:1]}
			return s.PutPodGroup(key, pg)
		}, false},
		"the PodGroup is written for another reason": {func(s *story) Output { return s.PutPodGroup(key, seatedPodGroup()) }, true},
		"the PodGroup is deleted":                    {func(s *story) Output { return s.DropPodGroup(key) }, false},
		"no pod of the group is left": {func(s *story) Output {
			s.DropPod("0")
			return s.DropPod("1")
		}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSeatStory(t)
			p := s.startSeated()
			out := tc.do(s)
			var keys []string
			for _, r := range out.Release {
				keys = append(keys, r.Keys...)
			}
			if got := slices.Contains(keys, string(p.Required[2].UID)); got == tc.kept {
				t.Errorf("released %v; the seat is kept: %v", keys, tc.kept)
			}
			want := 0
			if tc.kept {
				want = 1
			}
			s.wantFreeSeats(want)
		})
	}
}

// A scheduler that starts reads in the PodGroup which seats a group has. A seat that is taken is not
// restored.
func TestSeatsAreRestored(t *testing.T) {
	for name, tc := range map[string]struct {
		more []string
		want int
	}{
		"the launcher has not come": {nil, 1},
		"the launcher has its seat": {[]string{"launcher"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSeatStory(t)
			pg := seatedPodGroup()
			pg.Placed, pg.Seats = 2, RecordedSeats{"worker": {"n-0": 1, "n-1": 1}, "launcher": {"n-seat": 1}}
			s.PutPodGroup(key, pg)
			for i, node := range []string{"n-0", "n-1"} {
				s.add(fmt.Sprint(i), role("worker"), func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Conditions = node, boundCondition() })
			}
			for _, name := range tc.more {
				s.add(name, role("launcher"), func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Conditions = "n-seat", boundCondition() })
			}
			s.MarkSynced()
			s.wantFreeSeats(tc.want)
			if tc.want == 0 {
				return
			}
			s.add("launcher", role("launcher"), asking("2"))
			if plan, _ := s.Plan("launcher", s.now); plan.Node != "n-seat" {
				t.Errorf("the launcher is placed on %q, want its seat", plan.Node)
			}
		})
	}
}

func boundCondition() []corev1.PodCondition {
	return []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
}

// A stage whose pods come after those before have ended is a gang of its own size.
func TestAStageIsAGangOfItsOwnSize(t *testing.T) {
	s := newStory(t)
	s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 1, Created: noon, Stages: Stages{Templates: &Templates{Hash: "1", List: []Template{
		{Name: "init", Coming: 1}, {Name: "train", Coming: 3, Stage: 1},
	}}}})
	s.add("init", role("init"))
	s.match("init")
	s.reserveAndBind("init")
	s.update("init", func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "n-init", corev1.PodSucceeded })
	s.add("t0", role("train"))
	s.add("t1", role("train"))
	s.wantEnqueueable()
	s.add("t2", role("train"))
	plan, _ := s.Plan("t0", s.now)
	if got := names(plan.Required); len(got) != 3 || plan.Late {
		t.Errorf("the plan requires %v (late: %v), want the whole stage", got, plan.Late)
	}
}
