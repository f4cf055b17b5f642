package fluence

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/objects"
)

// Templates and seats may be written by any user who may write PodGroups.
func TestHostileTemplatesAndSeats(t *testing.T) {
	templates := func(all ...scheduling.PodsOfTemplate) []scheduling.PodsOfTemplate { return all }
	many := make([]scheduling.PodsOfTemplate, group.MaxTemplates+1)
	for i := range many {
		many[i] = scheduling.PodsOfTemplate{Name: fmt.Sprint(i), Expected: 1}
	}
	cases := map[string]struct {
		templates []scheduling.PodsOfTemplate
		want      string
	}{
		"none":                 {nil, ""},
		"as many as may be":    {many[:group.MaxTemplates], ""},
		"too many":             {many, "spec.templates: has more than 128 templates"},
		"a negative number":    {templates(scheduling.PodsOfTemplate{Name: "a", Coming: -1}), "spec.templates[0].coming: -1"},
		"a huge number":        {templates(scheduling.PodsOfTemplate{Name: "a", Expected: 1 << 30}), "spec.templates[0].expected: 1073741824"},
		"a huge sum":           {templates(scheduling.PodsOfTemplate{Name: "a", Expected: 99_999}, scheduling.PodsOfTemplate{Name: "b", Coming: 2}), "spec.templates: 100001 pods"},
		"a negative stage":     {templates(scheduling.PodsOfTemplate{Name: "a", Stage: -1}), "spec.templates[0].stage: -1"},
		"no name":              {templates(scheduling.PodsOfTemplate{}), "spec.templates[0].name"},
		"a long name":          {templates(scheduling.PodsOfTemplate{Name: strings.Repeat("x", 1000)}), "spec.templates[0].name"},
		"a name twice":         {templates(scheduling.PodsOfTemplate{Name: "a"}, scheduling.PodsOfTemplate{Name: "a"}), "is there twice"},
		"a pod that is no pod": {templates(scheduling.PodsOfTemplate{Name: "a", Pod: &runtime.RawExtension{Raw: []byte(`{"spec":3}`)}}), "cannot be read"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pg := aPodGroup(g.Name, 1, "pg")
			pg.Spec.Templates = tc.templates
			trimmed, err := trimPodGroup(pg)
			if err != nil {
				t.Fatal(err)
			}
			got := toGangPodGroup(trimmed.(*scheduling.PodGroup))
			if valid := tc.want == ""; valid != (got.Fault == gang.Fault{}) || !strings.Contains(got.Fault.Message, tc.want) {
				t.Errorf("fault = %+v, want %q", got.Fault, tc.want)
			}
			if tc.want != "" && (got.Fault.Reason != reason.InvalidGroupSize || got.Templates != nil) {
				t.Errorf("fault %+v, templates %+v", got.Fault, got.Templates)
			}
		})
	}
	pg := aPodGroup(g.Name, 1, "pg")
	pg.Status.Seats = map[string]map[string]int32{"a": {"n-0": -3, "n-1": 1 << 30, "n-2": 2}}
	if got := fmt.Sprint(seatsOf(pg)); got != "map[a:map[n-1:100000 n-2:2]]" {
		t.Errorf("seats = %s", got)
	}
	pg.Status.Seats = map[string]map[string]int32{"a": {strings.Repeat("n", maxSeats+1): 1}}
	if got := seatsOf(pg); got != nil {
		t.Errorf("seats of more than %d bytes are read: %d templates", maxSeats, len(got))
	}
}

// unitOfTwo creates a PodGroup of a worker and a launcher that is made when the worker is bound, and the worker.
func (r *rig) unitOfTwo() {
	r.Helper()
	pg := aPodGroup(g.Name, 1, "pg")
	pod := &runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"2"}}}]}}`)}
	pg.Spec.Templates = []scheduling.PodsOfTemplate{
		{Name: "worker", Coming: 1, Pod: pod}, {Name: "launcher", Expected: 1, After: "Bound", Pod: pod},
	}
	r.podGroupAPI.put(pg)
	r.pod("worker", asRole("worker"))
}

// asRole makes a pod of 2 cores one of group g with a role.
func asRole(role string) func(*corev1.Pod) {
	return objects.All(objects.InGroup(g.Name), objects.CPU("2"), func(p *corev1.Pod) { p.Labels["training.kubeflow.org/job-role"] = role })
}

// seatNode returns the node of the only seat that is held. It is empty if there is none.
func (r *rig) seatNode() string {
	r.Helper()
	held := r.pl.groups.HeldSeats()
	if len(held) > 1 {
		r.Fatalf("%d seats are held, want one at most", len(held))
	}
	if len(held) == 0 {
		return ""
	}
	return held[0].Node
}

func (r *rig) podGroup() *scheduling.PodGroup { return r.podGroupAPI.get(g) }

// A pod of another scheduler takes the room of a seat. The PodGroup says so, and in the next cycle of
// any pod the seat is found again.
func TestASeatWhoseRoomIsTakenIsFoundAgain(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 4)
		r.node("n2", 4)
		r.schedule()
		r.unitOfTwo()
		r.pass(10 * time.Second)
		on := r.seatNode()
		if on == "" {
			t.Fatalf("no seat is held; the group: %+v", r.pl.groups.WaitingGroups())
		}
		if got := r.podGroup().Status.Seats["launcher"][on]; got != 1 {
			t.Fatalf("the PodGroup records %v, want a seat on %s", r.podGroup().Status.Seats, on)
		}
		r.pod("foreign", objects.OnNode(on), objects.CPU("3"), func(p *corev1.Pod) { p.Spec.SchedulerName = "other" })
		r.pass(10 * time.Second)
		if now := r.seatNode(); now != "" {
			t.Fatalf("the seat is on %s, want it lost", now)
		}
		c := meta.FindStatusCondition(r.podGroup().Status.Conditions, scheduling.ConditionSeatsHeld)
		if c == nil || c.Reason != reason.SeatsTaken || !strings.Contains(c.Message, on) {
			t.Errorf("the PodGroup says %+v, want that the room is taken", c)
		}
		r.pod("passer-by", objects.CPU("1"))
		r.pass(10 * time.Second)
		if now := r.seatNode(); now == "" || now == on {
			t.Errorf("the seat is on %q, want another node than %s", now, on)
		}
		if c := meta.FindStatusCondition(r.podGroup().Status.Conditions, scheduling.ConditionSeatsHeld); c != nil {
			t.Errorf("the PodGroup still says %+v", c)
		}
	})
}

// The graph is loaded anew: the seat is in it once, and the launcher takes it.
func TestASeatIsInAGraphThatIsLoadedAnew(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 4)
		r.schedule()
		r.unitOfTwo()
		r.pass(10 * time.Second)
		if r.seatNode() != "n1" {
			t.Fatal("no seat is held")
		}
		r.loseGraph()
		r.pass(10 * time.Second)
		r.pod("rival", objects.CPU("2"))
		r.pass(10 * time.Second)
		if node := r.assigned()["rival"]; node != "" {
			t.Errorf("another pod has the room of the seat, on %s", node)
		}
		r.pod("launcher", asRole("launcher"))
		r.pass(10 * time.Second)
		if node := r.assigned()["launcher"]; node != "n1" {
			t.Errorf("the launcher is on %q, want its seat", node)
		}
	})
}

// A pod takes its seat without a match, also if its namespace is throttled.
func TestAThrottledPodTakesItsSeat(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 4)
		r.schedule()
		r.unitOfTwo()
		r.pass(10 * time.Second)
		before := len(r.matches())
		r.pl.charge(ns, maxDebt, true)
		r.pod("launcher", asRole("launcher"))
		r.pass(time.Second)
		if node := r.assigned()["launcher"]; node != "n1" {
			t.Errorf("the launcher is on %q, want its seat", node)
		}
		if n := len(r.matches()) - before; n > 0 {
			t.Errorf("%d matches were made for a pod that has a seat", n)
		}
	})
}

// A standby whose graph is loaded books the seats of a group that its leader has started.
func TestAStandbyBooksTheSeatsOfItsLeader(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.standby.Store(true)
		r.node("n1", 4)
		pg := aPodGroup(g.Name, 1, "pg")
		pod := &runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"2"}}}]}}`)}
		pg.Spec.Templates = []scheduling.PodsOfTemplate{{Name: "worker", Coming: 1, Pod: pod}, {Name: "launcher", Expected: 1, After: "Bound", Pod: pod}}
		pg.Status.Seats = map[string]map[string]int32{"worker": {"n1": 1}, "launcher": {"n1": 1}}
		r.podGroupAPI.put(pg)
		bound := func(p *corev1.Pod) {
			objects.OnNode("n1")(p)
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
		}
		r.pod("worker", asRole("worker"), bound)
		r.pass(time.Second)
		slots := func() []string {
			var keys []string
			nodes, err := r.matcher.Nodes(r.ctx, r.pl.inventory.Epoch(), "", 10)
			r.must(err)
			for _, n := range nodes {
				for _, job := range n.Jobs {
					for _, slot := range job.Slots {
						keys = append(keys, slot.Key)
					}
				}
			}
			return keys
		}
		if got := slots(); len(got) != 2 {
			t.Errorf("slots %v, want the worker's and the seat", got)
		}
		r.pod("launcher", asRole("launcher"), bound)
		r.pass(time.Second)
		if got := slots(); len(got) != 2 {
			t.Errorf("slots %v, want those of worker and launcher", got)
		}
		if n := len(r.matcherFake.Calls(matchtest.Match)); n > 0 {
			t.Errorf("a standby asked %d times", n)
		}
	})
}

// A launcher that asks for more than its seat is matched with the seat's room. Without room for it the seat is
// kept.
func TestAPodThatAsksForMoreThanItsSeat(t *testing.T) {
	for name, tc := range map[string]struct {
		cpu  string
		want string
	}{"there is room with the seat's": {"3", "n1"}, "there is none": {"4", ""}} {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.node("n1", 5)
				r.schedule()
				r.unitOfTwo()
				r.pass(10 * time.Second)
				r.pod("launcher", asRole("launcher"), objects.CPU(tc.cpu))
				r.pass(10 * time.Second)
				if node := r.assigned()["launcher"]; node != tc.want {
					t.Errorf("the launcher is on %q, want %q", node, tc.want)
				}
				r.pod("rival", objects.CPU("2"))
				r.pass(10 * time.Second)
				if node := r.assigned()["rival"]; node != "" {
					t.Errorf("another pod has the room of the seat, on %s", node)
				}
				if tc.want == "" {
					if r.seatNode() != "n1" {
						t.Error("the seat is not kept")
					}
					v := r.pl.groups.PreEnqueue(types.UID("launcher"), time.Now())
					if !strings.Contains(v.Message, "asks for more than its seat") {
						t.Errorf("the launcher is told %q", v.Message)
					}
				}
			})
		})
	}
}

// Status.seats that would be too large is refused with a reason, and no pod is bound.
func TestSeatsThatAreTooLargeAreNotRecorded(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.podGroupAPI.put(aPodGroup(g.Name, 1, "pg"))
		r.pass(0)
		large := &gang.SeatRecord{Seats: gang.RecordedSeats{strings.Repeat("x", maxSeats): {"n1": 1}}}
		err := r.pl.podGroups.applySeats(r.ctx, g, large, time.Now())
		if err == nil || !strings.Contains(err.Error(), "status.seats of PodGroup ns/g takes") {
			t.Errorf("applySeats() = %v, want an error that names the field", err)
		}
		if n := len(r.podGroupAPI.written()); n > 0 {
			t.Errorf("%d writes", n)
		}
	})
}
