package fluence

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/gang"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/objects"
)

// workerIndexLabel is the label by which a LeaderWorkerSet tells its leader, which is 0, from its workers.
const workerIndexLabel = "leaderworkerset.sigs.k8s.io/worker-index"

// leading is a PodGroup of a leader, and of workers with some
// cores each that are made when the leader is ready.
func leading(namespace, name string, workers int32, cores string) *scheduling.PodGroup {
	pg := aPodGroup(name, 1, types.UID("pg-"+name))
	pg.Namespace = namespace
	pod := func(cpu string) *runtime.RawExtension {
		return &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"spec":{"schedulerName":"fluence","containers":[{"name":"main","resources":{"requests":{"cpu":%q}}}]}}`, cpu)}
	}
	pg.Spec.Templates = []scheduling.PodsOfTemplate{
		{Name: "leader", Coming: 1, Pod: pod("1m")},
		{Name: "worker", Expected: workers, After: "Ready", Pod: pod(cores)},
	}
	return pg
}

// leader creates such a PodGroup, and its leader.
func (r *rig) leader(namespace, name string, workers int32, cores string, edit ...func(*scheduling.PodGroup)) {
	r.Helper()
	pg := leading(namespace, name, workers, cores)
	objects.All(edit...)(pg)
	r.podGroupAPI.put(pg)
	r.pod(name+"-0", objects.In(namespace), objects.InGroup(name), objects.CPU("1m"), asWorker("0"))
}

// asWorker gives a pod its place in a LeaderWorkerSet.
func asWorker(index string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[workerIndexLabel] = index }
}

func TestTemplatesOfAPodGroupAreRead(t *testing.T) {
	pg := leading(ns, "g", 3, "2")
	got := templatesOf(pg)
	if len(got.List) != 2 || got.List[0].Coming != 1 || got.List[0].AfterReady || got.List[1].Expected != 3 || !got.List[1].AfterReady {
		t.Fatalf("templates %+v, want a leader, and three workers after it", got.List)
	}
	if cpu := got.List[1].Pod.Spec.Containers[0].Resources.Requests.Cpu(); cpu.String() != "2" {
		t.Errorf("a worker asks for %s CPUs, want 2", cpu)
	}
	if same := templatesOf(leading(ns, "g", 3, "2")); same.Hash != got.Hash {
		t.Error("equal templates have different hashes")
	}
	for name, other := range map[string]*scheduling.PodGroup{"numbers": leading(ns, "g", 4, "2"), "pods": leading(ns, "g", 3, "1")} {
		if templatesOf(other).Hash == got.Hash {
			t.Errorf("templates with other %s have the same hash", name)
		}
	}
	pg.Spec.Templates[0].Pod.Raw = []byte("{")
	if got := templatesOf(pg); got != nil {
		t.Errorf("templates that cannot be read are %+v", got)
	}
	if got := templatesOf(aPodGroup("g", 1, "1")); got != nil {
		t.Errorf("templates of a PodGroup without any: %+v", got)
	}
}

// The seats are in the PodGroup's status before a pod of the group is bound.
func TestSeatsAreWrittenBeforeTheFirstBind(t *testing.T) {
	cases := map[string]struct {
		fails         error
		wantBound     bool
		wantRecord    bool
		wantInTheLogs string
	}{
		"they are written":            {nil, true, true, ""},
		"the API server refuses them": {errors.New("no"), false, false, "Failed to record the seats"},
		"the CRD has no such field":   {errors.New(".status.seats: field not declared in schema"), true, false, "apply manifests/crds"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.podGroupAPI.broken = func(int) error {
					// The conditions are written by another manager.
					if writes := r.podGroupAPI.written(); writes[len(writes)-1].manager == seatsManager {
						return tc.fails
					}
					return nil
				}
				r.node("n1", 8)
				r.leader(ns, "g", 2, "2")
				r.schedule()
				r.pass(3 * time.Second)
				if bound := r.assigned()["g-0"] != ""; bound != tc.wantBound {
					t.Errorf("the leader is bound: %v, want %v", bound, tc.wantBound)
				}
				want := map[string]map[string]int32{"leader": {"n1": 1}, "worker": {"n1": 2}}
				if got := r.podGroupAPI.get(g).Status.Seats; tc.wantRecord != reflect.DeepEqual(got, want) {
					t.Errorf("the status records %v, want %v: %v", got, want, tc.wantRecord)
				}
				if !strings.Contains(r.logged(0), tc.wantInTheLogs) {
					t.Errorf("logged:\n%s\nwant %q", r.logged(0), tc.wantInTheLogs)
				}
			})
		})
	}
}

// A status has room for so many seats only.
func TestSeatsThatTakeTooMuchRoomAreNotWritten(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.podGroupAPI.put(leading(ns, "g", 2, "2"))
		r.pass(time.Second)
		seats := &gang.SeatRecord{Seats: gang.RecordedSeats{"worker": {strings.Repeat("n", maxSeats): 1}}}
		if err := r.pl.seats.applySeats(r.ctx, g, seats, time.Now()); err == nil || !strings.Contains(err.Error(), "may have 262144") {
			t.Errorf("applySeats = %v, want that they are too large", err)
		}
		if err := r.pl.seats.applySeats(r.ctx, types.NamespacedName{Namespace: ns, Name: "none"}, seats, time.Now()); err == nil || !strings.Contains(err.Error(), "does not exist") {
			t.Errorf("applySeats = %v, want that there is no PodGroup", err)
		}
		if writes := r.podGroupAPI.written(); len(writes) != 0 {
			t.Errorf("written: %+v", writes)
		}
	})
}

// What a status records of seats is read back.
func TestSeatsOfAStatus(t *testing.T) {
	pg := leading(ns, "g", 2, "2")
	if got := seatsOf(pg); got != nil {
		t.Errorf("seats %v, want none", got)
	}
	pg.Status.Seats = map[string]map[string]int32{"worker": {"n1": 2}}
	if got := seatsOf(pg); !reflect.DeepEqual(got, gang.RecordedSeats{"worker": {"n1": 2}}) {
		t.Errorf("seats %v", got)
	}
}

// mallory is the namespace of a hostile author.
const mallory = "mallory"

// An author whose pods of one millicore promise many more holds room for nothing once, however
// many groups take turns. Then another tenant has its room, and the metric names the author's namespace.
func TestAnAuthorOfManyPromisesHoldsRoomOnce(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: mallory}})
		for i := range 4 {
			r.node(fmt.Sprintf("n%d", i), 8)
		}
		r.schedule()
		before, others := valueOf("fluence_seats_wasted_total", mallory), valueOf("fluence_seats_wasted_total", ns)
		began := time.Now()
		r.leader(mallory, "evil-0", 2, "7")
		r.pass(time.Second)
		pods := r.gang(4, 4, objects.CPU("7"))
		// While the victim may be passed, a second group takes what the first has left.
		r.pass(9 * time.Minute)
		r.leader(mallory, "evil-1", 2, "7")
		r.pass(time.Second)
		r.pass(snapshotEvery)
		if held := valueOf("fluence_seats_held", mallory); held != 4 {
			t.Errorf("%v seats are held at first, want 4", held)
		}
		for n := 2; r.assigned()[pods[3].Name] == "" && time.Since(began) < 2*time.Hour; n++ {
			r.leader(mallory, fmt.Sprintf("evil-%d", n), 4, "7")
			r.pass(time.Minute)
		}
		if waited, most := time.Since(began), r.pl.args.ExpectTotal.Duration+90*time.Second; waited > most {
			t.Errorf("another tenant waits for %s, want at most %s", waited, most)
		}
		if got := valueOf("fluence_seats_wasted_total", mallory) - before; got < 2 {
			t.Errorf("%v wasted seats are counted of the author's namespace, want those of the first group at least", got)
		}
		if got := valueOf("fluence_seats_wasted_total", ns) - others; got != 0 {
			t.Errorf("%v wasted seats are counted of the other namespace", got)
		}
		// The author gets no more, though there is room for them.
		for _, p := range pods {
			r.remove(p.Name)
		}
		r.leader(mallory, "evil-last", 1, "1")
		r.pass(10 * time.Second)
		if held := valueOf("fluence_seats_held", mallory); held != 0 {
			t.Errorf("%v seats are held for the author in the end, want none", held)
		}
		if r.assigned()["evil-last-0"] == "" {
			t.Error("a group without seats does not start")
		}
	})
}

// Pods that do not exist yet are no pods on their way to a bind: large groups of others do not wait for them.
func TestSeatsDoNotHoldUpTheBindsOfOthers(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 400)
		r.schedule()
		for _, name := range []string{"a", "b"} {
			r.leader(mallory, name, 40, "1")
		}
		r.pass(100 * time.Millisecond)
		pods := r.gang(16, 16, objects.CPU("1"))
		r.pass(time.Second)
		for _, p := range pods {
			if r.assigned()[p.Name] == "" {
				t.Errorf("pod %s has no node after a second", p.Name)
			}
		}
	})
}
