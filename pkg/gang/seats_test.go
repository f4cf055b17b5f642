package gang

import (
	"fmt"
	"slices"
	"strings"
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
	s.record()
	s.reserveAndBind("0", "1")
	return p
}

// record writes what is to be recorded of the seats.
func (s *story) record() *SeatRecord {
	s.Helper()
	r := s.SeatsToRecord(key)
	if r == nil {
		s.Fatal("there is nothing to record")
	}
	s.SeatsRecorded(key, r)
	return r
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
	if free := len(s.groups[key].free); free != n {
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
		s.add("worker", role("worker"), asking("1"))
		// It is matched alone, with the room of its seat, and keeps the seat if there is no room.
		plan, _ := s.Plan("launcher", s.now)
		if seat := plan.InsteadOf; plan.Job == 0 || !plan.Late || seat == nil || seat.ID != p.Job || seat.Slots[0].Node != "n-seat" {
			t.Fatalf("plan %+v, want a match instead of the seat", plan)
		}
		s.Refuse(plan, Refusal{Reason: "NoRoom", RetryOn: ClusterEvents()}, s.now)
		s.wantFreeSeats(1)
		other, _ := s.Plan("worker", s.now)
		if other.InsteadOf != nil || len(other.Optional) > 0 {
			t.Errorf("the plan of another pod has the seat %v and the pods %v", other.InsteadOf, names(other.Optional))
		}
		s.Refuse(other, Refusal{Reason: "NoRoom"}, s.now)
		s.ObserveEvent(NodeChanged)
		_, s.now = s.Due(s.now)
		s.Due(s.now)
		plan, _ = s.Plan("launcher", s.now)
		_, _, out, err := s.Assign(plan, []match.Slot{{Key: "launcher", Node: "n-large"}}, s.now.Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		s.wantReleased(out, p.Job, string(p.Required[2].UID))
		s.wantFreeSeats(0)
		if !slices.ContainsFunc(out.Transitions, func(t Transition) bool { return t.Type == SeatsGivenBack && t.Reason != "" }) {
			t.Errorf("nothing says why the seat was given back: %+v", out.Transitions)
		}
	})
	t.Run("a filter rejects the node", func(t *testing.T) {
		s := newSeatStory(t)
		p := s.startSeated()
		s.add("launcher", role("launcher"), asking("2"))
		if plan, _ := s.Plan("launcher", s.now); plan.Node != "n-seat" {
			t.Fatalf("the launcher is placed on %q", plan.Node)
		}
		out := s.FilterRejected("launcher", s.now, "a taint")
		s.wantReleased(out, p.Job, string(p.Required[2].UID))
		s.wantFreeSeats(0)
		if !slices.ContainsFunc(out.Transitions, func(t Transition) bool {
			return t.Type == SeatsGivenBack && strings.Contains(t.Reason, "a taint")
		}) {
			t.Errorf("transitions %v, want the seat that was given back", out.Transitions)
		}
	})
}

// No pod of a group is bound before its PodGroup records the seats.
func TestSeatsAreRecordedBeforeTheFirstBind(t *testing.T) {
	s := newSeatStory(t)
	s.add("0", role("worker"))
	s.add("1", role("worker"))
	p := s.matchSeated()
	record := s.SeatsToRecord(key)
	if got := fmt.Sprint(record.Seats); got != "map[launcher:map[n-seat:1] worker:map[n-0:1 n-1:1]]" {
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
		"the owner is suspended": {func(s *story) Output {
			pg := seatedPodGroup()
			pg.Suspended = true
			return s.PutPodGroup(key, pg)
		}, false},
		"the launcher has come and has no node yet": {func(s *story) Output {
			s.add("launcher", role("launcher"), asking("2"))
			return s.PutPodGroup(key, seatedPodGroup())
		}, true},
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

// bindElsewhere shows the workers and, with launcher, the launcher on their nodes, bound by another process.
func (s *story) bindElsewhere(launcher bool) (out Output) {
	for i, node := range []string{"n-0", "n-1"} {
		s.add(fmt.Sprint(i), role("worker"), func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Conditions = node, boundCondition() })
	}
	if launcher {
		out = s.add("launcher", role("launcher"), func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Conditions = "n-seat", boundCondition() })
	}
	return out
}

// recordedPodGroup is the PodGroup with the record of its seats.
func recordedPodGroup() PodGroup {
	pg := seatedPodGroup()
	pg.Placed, pg.Seats = 2, RecordedSeats{"worker": {"n-0": 1, "n-1": 1}, "launcher": {"n-seat": 1}}
	return pg
}

// A standby follows what its leader records: the seats are there when it takes over.
func TestAStandbyFollowsTheSeatsOfItsLeader(t *testing.T) {
	s := newSeatStory(t)
	s.MarkSynced()
	s.bindElsewhere(false)
	s.wantFreeSeats(0)
	out := s.PutPodGroup(key, recordedPodGroup())
	s.wantFreeSeats(1)
	jobs := s.SeatSlots(key)
	if !slices.Equal(out.Book, []types.NamespacedName{key}) || len(jobs) != 1 || jobs[0].Slots[0].Node != "n-seat" || s.Tentative()[0].ID != jobs[0].ID {
		t.Errorf("to be booked: %v with %+v, want the seat", out.Book, jobs)
	}
	if out := s.PutPodGroup(key, recordedPodGroup()); len(out.Book)+len(out.Release) > 0 {
		t.Errorf("the same record again: %+v", out)
	}
	// The leader binds the launcher: the seat is the pod's.
	s.wantReleased(s.bindElsewhere(true), jobs[0].ID, jobs[0].Slots[0].Key)
	s.wantFreeSeats(0)
	// A launcher that is lost later has no seat again.
	s.DropPod("launcher")
	s.wantFreeSeats(0)

	// The leader gives a seat back: so does the standby.
	s = newSeatStory(t)
	s.MarkSynced()
	s.bindElsewhere(false)
	s.PutPodGroup(key, recordedPodGroup())
	s.wantFreeSeats(1)
	pg := recordedPodGroup()
	pg.Seats = nil
	if out := s.PutPodGroup(key, pg); len(out.Release) != 1 {
		t.Errorf("released %v, want the seat", out.Release)
	}
	s.wantFreeSeats(0)
}

// What a scheduler has given back, the next one does not hold again. The times go on.
func TestTimesOfSeatsOutliveARestart(t *testing.T) {
	at := func(p *corev1.Pod, of corev1.PodConditionType, d time.Duration) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: of, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(d))})
	}
	start := func(t *testing.T, ready bool) *story {
		s := newSeatStory(t)
		s.PutPodGroup(key, recordedPodGroup())
		for i, node := range []string{"n-0", "n-1"} {
			s.add(fmt.Sprint(i), role("worker"), func(p *corev1.Pod) {
				p.Spec.NodeName = node
				at(p, corev1.PodScheduled, time.Duration(i)*time.Second)
				if ready {
					at(p, corev1.PodReady, time.Minute)
				}
			})
		}
		s.MarkSynced()
		s.wantFreeSeats(1)
		return s
	}
	cases := map[string]struct {
		ready bool
		after time.Duration
		kept  bool
	}{
		"short of the total time":                    {false, 30*time.Minute - time.Second, true},
		"the total time is over":                     {false, 30 * time.Minute, false},
		"the others have been ready, not for long":   {true, 6*time.Minute - time.Second, true},
		"the others have been ready for long enough": {true, 6 * time.Minute, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := start(t, tc.ready)
			s.ExpireSeats(noon.Add(tc.after))
			if tc.kept {
				s.wantFreeSeats(1)
				return
			}
			s.wantFreeSeats(0)
			r := s.record()
			if len(r.Seats) > 0 || r.Reason != reason.ExpectedMissing || !strings.Contains(r.Message, "1 pod of template launcher") {
				t.Errorf("to record: %+v, want no seat and why", r)
			}
			// The PodGroup is seen once more as it was.
			s.PutPodGroup(key, recordedPodGroup())
			s.wantFreeSeats(0)
		})
	}
}

// A scheduler that starts knows which pods did not come, and ends that once they are there.
func TestWhatIsMissingOutlivesARestart(t *testing.T) {
	s := newSeatStory(t)
	pg := seatedPodGroup()
	pg.ExpectedMissing = "no room is held any more for 1 pod of template launcher"
	s.PutPodGroup(key, pg)
	s.bindElsewhere(false)
	s.MarkSynced()
	if got := s.UnrecordedSeats(); len(got) > 0 {
		t.Errorf("to be recorded while the launcher is missing: %v", got)
	}
	s.bindElsewhere(true)
	if r := s.record(); len(r.Seats) > 0 || r.Reason != "" {
		t.Errorf("to record: %+v, want nothing", r)
	}
}

// Once nothing lacks a seat any more, the PodGroup says nothing of seats.
func TestTheRecordEndsWithTheSeats(t *testing.T) {
	s := newSeatStory(t)
	s.startSeated()
	if got := s.UnrecordedSeats(); len(got) > 0 {
		t.Errorf("to be recorded again: %v", got)
	}
	s.add("launcher", role("launcher"), asking("2"))
	s.Plan("launcher", s.now)
	s.wantFreeSeats(0)
	if got := s.UnrecordedSeats(); len(got) > 0 {
		t.Errorf("to be recorded while the launcher has no node: %v", got)
	}
	for name, node := range map[string]string{"0": "n-0", "1": "n-1", "launcher": "n-seat"} {
		s.update(name, func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Conditions = node, boundCondition() })
	}
	if got := s.UnrecordedSeats(); len(got) != 1 {
		t.Fatalf("to be recorded: %v, want the group", got)
	}
	if r := s.record(); len(r.Seats) > 0 || r.Reason != "" {
		t.Errorf("to record: %+v, want nothing", r)
	}
	if got := s.UnrecordedSeats(); len(got) > 0 {
		t.Errorf("to be recorded again: %v", got)
	}
}

// The time to wait for a pod begins when nothing but its owner is missing.
func TestWhenExpectedPodsAreDue(t *testing.T) {
	ready := func(p *corev1.Pod) {
		p.Status.Conditions = append(boundCondition(), corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	}
	unready := func(p *corev1.Pod) { p.Status.Conditions = boundCondition() }
	list := []Template{
		{Name: "a", Coming: 1, Pod: &corev1.Pod{}},
		{Name: "b", Expected: 1, AfterReady: true, Pod: &corev1.Pod{}},
		{Name: "c", Expected: 1, AfterReady: true, Pod: &corev1.Pod{}},
		{Name: "d", Coming: 1, Expected: 1, Leader: "d", Pod: &corev1.Pod{}},
		{Name: "e", Coming: 1, Stage: 1, Pod: &corev1.Pod{}},
	}
	cases := map[string]struct {
		pods map[string]func(*corev1.Pod)
		due  string
	}{
		"those before are not ready":               {map[string]func(*corev1.Pod){"a": unready}, ""},
		"those before are ready":                   {map[string]func(*corev1.Pod){"a": ready}, "b"},
		"all before are ready":                     {map[string]func(*corev1.Pod){"a": ready, "b": ready}, "c"},
		"a leader has a node":                      {map[string]func(*corev1.Pod){"a": unready, "d": unready}, "d"},
		"pods of the stages before have all ended": {map[string]func(*corev1.Pod){"a": func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }}, "b e"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSeatStory(t)
			s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 1, Created: noon, Stages: Stages{Templates: &Templates{Hash: "1", List: list}}})
			for template, change := range tc.pods {
				s.add(template, role(template), func(p *corev1.Pod) { p.Spec.NodeName = "n-" + template }, change)
			}
			g := s.groups[key]
			g.free = nil
			for _, t := range list {
				if t.Expected > 0 && tc.pods[t.Name] == nil || t.Name == "d" || t.Stage > 0 {
					g.free = append(g.free, &seat{template: t.Name})
				}
			}
			var due []string
			for _, t := range list {
				if hasSeat(g, t.Name) && isDue(g, t) {
					due = append(due, t.Name)
				}
			}
			if got := strings.Join(due, " "); got != tc.due {
				t.Errorf("due: %q, want %q", got, tc.due)
			}
		})
	}
}

// A seat whose room is lost is looked for again near the others.
func TestALostSeatIsLookedForAgain(t *testing.T) {
	s := newSeatStory(t)
	p := s.startSeated()
	held := s.HeldSeats()
	if len(held) != 1 || held[0].Node != "n-seat" || held[0].Pod.Annotations["asks"] != "2" {
		t.Fatalf("held: %+v", held)
	}
	if _, ok := s.PlanSeats(s.now); ok {
		t.Error("a seat is looked for, and none is lost")
	}
	s.wantReleased(s.LoseSeat(key, held[0].ID, "too little room"), p.Job, held[0].ID)
	s.wantFreeSeats(0)
	if r := s.record(); r.Reason != reason.SeatsTaken || !strings.Contains(r.Message, "too little room") {
		t.Errorf("to record: %+v, want why there is no seat", r)
	}
	plan, ok := s.PlanSeats(s.now)
	if !ok || len(plan.Required) != 1 || plan.Expected != 1 || !slices.Equal(plan.Near, []string{"n-0", "n-1"}) {
		t.Fatalf("plan %+v, want one seat near the others", plan)
	}
	if _, ok := s.PlanSeats(s.now); ok {
		t.Error("a seat is looked for twice at once")
	}
	s.RefuseSeats(plan, "room for 0")
	s.now = s.now.Add(searchPause)
	if plan, ok = s.PlanSeats(s.now); !ok {
		t.Fatal("the seat is not looked for again")
	}
	s.AssignSeats(plan, []match.Slot{{Key: string(plan.Required[0].UID), Node: "n-other"}})
	s.wantFreeSeats(1)
	if r := s.record(); r.Reason != "" || r.Seats["launcher"]["n-other"] != 1 {
		t.Errorf("to record: %+v, want the seat on its new node", r)
	}
	s.add("launcher", role("launcher"), asking("2"))
	if plan, _ := s.Plan("launcher", s.now); plan.Node != "n-other" {
		t.Errorf("the launcher is placed on %q, want its new seat", plan.Node)
	}
}

// If the owner wants more pods than before, seats for them are looked for.
func TestSeatsGrowWithTheTemplates(t *testing.T) {
	s := newSeatStory(t)
	s.startSeated()
	pg := seatedPodGroup()
	more := *pg.Templates
	more.Hash, more.List = "2", slices.Clone(more.List)
	more.List[1].Expected = 3
	pg.Templates = &more
	s.PutPodGroup(key, pg)
	if plan, ok := s.PlanSeats(s.now); !ok || len(plan.Required) != 2 {
		t.Errorf("plan %+v, want two seats more", plan)
	}
}

func boundCondition() []corev1.PodCondition {
	return []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
}

// stagedPodGroup is a PodGroup whose pods of the template train come after those of init have ended, while
// those of serve still run.
func stagedPodGroup() PodGroup {
	return PodGroup{UID: "pg", MinMember: 2, Created: noon, Stages: Stages{Templates: &Templates{Hash: "1", List: []Template{
		{Name: "serve", Coming: 1, Pod: &corev1.Pod{}}, {Name: "init", Coming: 1, Pod: &corev1.Pod{}}, {Name: "train", Coming: 3, Stage: 1, Pod: &corev1.Pod{}},
	}}}}
}

// A stage that begins while pods of an earlier one run is a gang as well.
func TestALateStageIsAGang(t *testing.T) {
	s := newSeatStory(t)
	s.PutPodGroup(key, stagedPodGroup())
	s.add("serve", role("serve"))
	s.add("init", role("init"))
	s.match("serve")
	s.reserveAndBind("serve", "init")
	s.update("serve", func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Conditions = "n-serve", boundCondition() })
	s.update("init", func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "n-init", corev1.PodSucceeded })
	s.add("t0", role("train"))
	s.add("t1", role("train"))
	if v := s.PreEnqueue("t0", s.now); v.Pass || v.Reason != reason.Gathering || !strings.Contains(v.Message, "1 more pod") {
		t.Errorf("verdict %+v, want that a pod of the stage is missing", v)
	}
	s.add("t2", role("train"))
	plan, _ := s.Plan("t0", s.now)
	if got := names(plan.Required); len(got) != 3 || !plan.Late {
		t.Errorf("the plan requires %v (late: %v), want the whole stage", got, plan.Late)
	}
}

// The time of the seats of a later stage begins with that stage, however long ago the group has started.
func TestSeatsOfALateStageHaveTheirOwnTime(t *testing.T) {
	s := newSeatStory(t)
	pg := stagedPodGroup()
	pg.Templates.List[2].Coming, pg.Templates.List[2].Expected = 1, 2
	s.PutPodGroup(key, pg)
	s.add("serve", role("serve"))
	s.add("init", role("init"))
	s.match("serve")
	s.reserveAndBind("serve", "init")
	s.update("serve", func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Conditions = "n-serve", boundCondition() })
	s.update("init", func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "n-init", corev1.PodSucceeded })
	s.groups[key].heldSince = s.now // a seat of the first stage was held then, and was taken
	s.now = s.now.Add(time.Hour)
	s.ExpireSeats(s.now)
	s.add("t0", role("train"))
	s.match("t0")
	s.now = s.now.Add(time.Second)
	s.ExpireSeats(s.now)
	if held := s.Stats().Seats[key.Namespace]; held != 2 {
		t.Errorf("%d seats are held, want 2", held)
	}
}

// A pod whose cycle ended without a result takes its seat again, so that no seat is lost.
func TestASeatStaysWithAPodWhoseCycleFailed(t *testing.T) {
	s := newSeatStory(t)
	s.startSeated()
	s.add("late", asking("2"), role("launcher"))
	first, _ := s.Plan("late", s.now)
	again, out := s.Plan("late", s.now)
	if first.Node != "n-seat" || again.Node != first.Node || len(out.Release) != 0 {
		t.Errorf("the pod is sent to %q and then to %q, and %v is released; want its seat twice", first.Node, again.Node, out.Release)
	}
}

// With the annotation stages: together, all stages have room with the first, and keep it between two stages.
func TestStagesTogether(t *testing.T) {
	s := newSeatStory(t)
	pg := PodGroup{UID: "pg", MinMember: 1, Created: noon, Stages: Stages{StagesTogether: group.StagesTogether, Templates: &Templates{Hash: "1", List: []Template{
		{Name: "init", Coming: 1, Pod: &corev1.Pod{}}, {Name: "train", Coming: 2, Stage: 1, Pod: &corev1.Pod{}},
	}}}}
	s.PutPodGroup(key, pg)
	s.add("init", role("init"))
	p, _ := s.Plan("init", s.now)
	if len(p.Required) != 3 || p.Expected != 2 {
		t.Fatalf("the plan requires %v, %d expected; want all stages", names(p.Required), p.Expected)
	}
	slots := []match.Slot{{Key: "init", Node: "n-init"}, {Key: string(p.Required[1].UID), Node: "n-a"}, {Key: string(p.Required[2].UID), Node: "n-b"}}
	if _, _, _, err := s.Assign(p, slots, s.now.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	s.record()
	s.reserveAndBind("init")
	s.update("init", func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "n-init", corev1.PodSucceeded })
	s.wantFreeSeats(2)
	s.add("t0", role("train"))
	s.add("t1", role("train"))
	if plan, _ := s.Plan("t0", s.now); plan.Node == "" || len(plan.Seated) != 1 {
		t.Errorf("plan %+v, want seats for both", plan)
	}
	s.wantFreeSeats(0)

	// Without the annotation the second stage asks for itself.
	s = newSeatStory(t)
	pg.StagesTogether = ""
	s.PutPodGroup(key, pg)
	s.add("init", role("init"))
	if p, _ := s.Plan("init", s.now); len(p.Required) != 1 {
		t.Errorf("the plan requires %v, want the first stage", names(p.Required))
	}
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

// Some pods of a stage have succeeded, and the others are made again. The group waits for the others alone.
func TestAStageThatStartsAgainNeedsOnlyWhatIsLeft(t *testing.T) {
	s := newStory(t)
	s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 1, Created: noon, Stages: Stages{Templates: &Templates{Hash: "1", List: []Template{
		{Name: "init", Coming: 1}, {Name: "train", Coming: 3, Stage: 1},
	}}}})
	s.add("init", role("init"), objects.InPhase(corev1.PodSucceeded))
	s.add("t0", role("train"), objects.InPhase(corev1.PodSucceeded))
	s.add("t1", role("train"), objects.InPhase(corev1.PodFailed))
	s.add("t2", role("train"))
	s.wantEnqueueable()
	s.add("t3", role("train"))
	if plan, _ := s.Plan("t2", s.now); len(plan.Required) != 2 {
		t.Errorf("the plan requires %v, want the two that are left", names(plan.Required))
	}
}

// No seat is large enough for two of the pods. The third pod gets the seat.
func TestSeatsGoToThosePodsThatTheyAreLargeEnoughFor(t *testing.T) {
	s := newSeatStory(t)
	s.startSeated()
	for name, asks := range map[string]string{"a-large": "5", "b-larger": "6", "c-small": "2"} {
		s.add(name, role("launcher"), asking(asks))
	}
	if plan, _ := s.Plan("c-small", s.now); plan.Node != "n-seat" {
		t.Errorf("the small pod is placed on %q, want the seat", plan.Node)
	}
}

// seatTakenElsewhere is what a PodGroup says of which another process looks for a seat.
func seatTakenElsewhere() PodGroup {
	pg := seatedPodGroup()
	pg.Placed, pg.Seats = 2, RecordedSeats{"worker": {"n-0": 1, "n-1": 1}}
	pg.SeatsTaken = "a seat of template launcher has no room any more"
	return pg
}

// A scheduler that starts looks for the seats that the one before has lost, and tells so until it has them.
func TestASearchForSeatsOutlivesARestart(t *testing.T) {
	s := newSeatStory(t)
	s.PutPodGroup(key, seatTakenElsewhere())
	s.bindElsewhere(false)
	s.MarkSynced()
	plan, ok := s.PlanSeats(s.now)
	if !ok || len(plan.Required) != 1 {
		t.Fatalf("plan %+v, want one seat", plan)
	}
	s.AssignSeats(plan, []match.Slot{{Key: string(plan.Required[0].UID), Node: "n-other"}})
	s.PutPodGroup(key, seatTakenElsewhere())
	s.wantFreeSeats(1)
	if r := s.record(); r.Reason != "" || r.Seats["launcher"]["n-other"] != 1 {
		t.Errorf("to record: %+v, want the new seat, and no reason", r)
	}

	// A standby ends the search when its leader has found the seat.
	s = newSeatStory(t)
	s.PutPodGroup(key, seatTakenElsewhere())
	s.bindElsewhere(false)
	s.MarkSynced()
	s.PutPodGroup(key, recordedPodGroup())
	s.wantFreeSeats(1)
	if plan, ok := s.PlanSeats(s.now); ok {
		t.Errorf("plan %+v, and nothing is missing", plan)
	}
}

// What this process has written before its last record is no news when it is read.
func TestAnOlderRecordOfOnesOwnIsNoNews(t *testing.T) {
	s := newSeatStory(t)
	s.PutPodGroup(key, recordedPodGroup())
	s.bindElsewhere(false)
	s.MarkSynced()
	s.wantFreeSeats(1)
	s.LoseSeat(key, s.HeldSeats()[0].ID, "too little room")
	lost := s.record()
	plan, _ := s.PlanSeats(s.now)
	s.AssignSeats(plan, []match.Slot{{Key: string(plan.Required[0].UID), Node: "n-other"}})
	found := s.record()
	for _, r := range []*SeatRecord{lost, found} {
		pg := seatTakenElsewhere()
		if pg.Seats = r.Seats; r == found {
			pg.SeatsTaken = ""
		}
		if out := s.PutPodGroup(key, pg); len(out.Book)+len(out.Release) > 0 {
			t.Errorf("after a record of its own: %+v", out)
		}
		s.wantFreeSeats(1)
	}
	if node := s.HeldSeats()[0].Node; node != "n-other" {
		t.Errorf("the seat is on %s", node)
	}
	// What another process writes is news.
	if s.PutPodGroup(key, recordedPodGroup()); s.HeldSeats()[0].Node != "n-seat" {
		t.Errorf("the seat is on %s, want that of the new record", s.HeldSeats()[0].Node)
	}
}

// After a restart the time of a later stage's seats counts from the first bind of that stage.
func TestSeatsOfALateStageKeepTheirTimeOverARestart(t *testing.T) {
	s := newSeatStory(t)
	pg := stagedPodGroup()
	pg.Templates.List[2].Coming, pg.Templates.List[2].Expected = 1, 2
	pg.Placed, pg.Seats = 2, RecordedSeats{"serve": {"n-serve": 1}, "train": {"n-0": 1, "n-1": 2}}
	s.PutPodGroup(key, pg)
	bound := func(after time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = boundCondition()
			p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(after))
		}
	}
	s.add("serve", role("serve"), objects.OnNode("n-serve"), bound(0))
	s.add("t0", role("train"), objects.OnNode("n-0"), bound(time.Hour))
	s.MarkSynced()
	s.ExpireSeats(noon.Add(time.Hour + time.Minute))
	s.wantFreeSeats(2)
	s.ExpireSeats(noon.Add(time.Hour + 30*time.Minute))
	s.wantFreeSeats(0)
}

// A group with seats keeps no room for pods that are made again, and gets the reason.
func TestAGroupWithSeatsKeepsNoRoom(t *testing.T) {
	restarts := func(p *corev1.Pod) { p.Annotations = map[string]string{group.RestartTimeoutAnnotation: "1m"} }
	s := newSeatStory(t)
	s.add("0", role("worker"), restarts)
	s.add("1", role("worker"), restarts)
	p := s.matchSeated()
	if !strings.Contains(p.Note, `annotation fluence.flux-framework.org/restart-timeout: "1m": is ignored`) {
		t.Errorf("note %q, want that the annotation is ignored", p.Note)
	}
	s.record()
	s.reserveAndBind("0", "1")
	s.update("0", objects.OnNode("n-0"))
	if r, ok := s.RestartOf("0", s.now); ok {
		t.Errorf("room is kept: %+v", r)
	}

	s = newSeatStory(t)
	s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 2, Created: noon})
	s.add("0", restarts)
	s.add("1")
	s.match("0")
	s.reserveAndBind("0", "1")
	s.update("0", objects.OnNode("n-0"))
	s.update("1", objects.OnNode("n-1"))
	if r, ok := s.RestartOf("0", s.now); !ok || r.Timeout != time.Minute || r.Total != 30*time.Minute || r.Pods != 2 {
		t.Errorf("restart %+v, %t; want a minute for two pods", r, ok)
	}
	if _, ok := s.RestartOf("1", s.now); ok {
		t.Error("room is kept of a pod without the annotation")
	}
	s.DropPod("0")
	if n := s.Lacks(key, s.now); n != 1 {
		t.Errorf("the group lacks %d pods, want 1", n)
	}
	s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 2, Created: noon, Ended: true})
	if n := s.Lacks(key, s.now); n != 0 {
		t.Errorf("a group that has ended lacks %d pods", n)
	}
}
