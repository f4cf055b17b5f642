package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/test/invariants"
	"github.com/flux-k8s/fluence/test/objects"
)

func TestTheLastLine(t *testing.T) {
	r := Result{Seed: 18446744073709551615, Events: 500, Kills: 11, Violations: 1, Drift: 2, Leaks: 3}
	const want = "chaos: seed=18446744073709551615 events=500 kills=11 violations=1 drift=2 leaks=3"
	if r.String() != want {
		t.Errorf("the last line is %q, want %q", r, want)
	}
	if !regexp.MustCompile(`^chaos: seed=\d+ events=\d+ kills=\d+ violations=\d+ drift=\d+ leaks=\d+$`).MatchString(Result{}.String()) {
		t.Errorf("the last line of nothing is %q", Result{})
	}
	for name, bad := range map[string]Result{"a violation": {Violations: 1}, "drift": {Drift: 1}, "a leak": {Leaks: 1}, "a doubt": {Doubt: "no bind was judged"}} {
		if bad.Passed() {
			t.Errorf("a run with %s has passed", name)
		}
		if bad.Why() == "" {
			t.Errorf("a run with %s does not say why it has not passed", name)
		}
	}
	if good := (Result{Seed: 1, Events: 2, Kills: 3}); !good.Passed() {
		t.Errorf("%v has not passed", good)
	}
}

func TestARunThatSawTooLittleHasNotPassed(t *testing.T) {
	good := func(edit ...func(*invariants.Stats)) invariants.Stats {
		s := invariants.Stats{Binds: 1000, BindsExcused: 200, BindsUnknown: 12, Excused: 84 * time.Second, Watched: 100 * time.Second}
		for _, e := range edit {
			e(&s)
		}
		return s
	}
	cases := map[string]struct {
		stats invariants.Stats
		saw   witness
		want  string
	}{
		"all was judged":                       {stats: good(), saw: witness{events: 500, ran: 9, rounds: 3}},
		"no bind was judged":                   {stats: good(func(s *invariants.Stats) { s.Binds = 0 }), saw: witness{events: 500, ran: 9, rounds: 3}, want: "no bind was judged"},
		"no bind of few was judged":            {stats: invariants.Stats{BindsExcused: 39}, saw: witness{events: 199, ran: 8, rounds: 3}},
		"no bind of few was seen":              {stats: invariants.Stats{}, saw: witness{events: 199, ran: 8, rounds: 3}, want: "no bind was judged"},
		"no group ran":                         {stats: invariants.Stats{Watched: time.Second}, saw: witness{events: 500, rounds: 3}},
		"too many unknown binds":               {stats: good(func(s *invariants.Stats) { s.BindsUnknown = 13 }), saw: witness{events: 500, ran: 9, rounds: 3}, want: "13 binds are in no audit log, at most 12"},
		"few unknown binds of few":             {stats: invariants.Stats{Binds: 5, BindsUnknown: 3}, saw: witness{events: 30, ran: 9, rounds: 3}},
		"more unknown binds of few":            {stats: invariants.Stats{Binds: 5, BindsUnknown: 9}, saw: witness{events: 30, ran: 9, rounds: 3}, want: "at most 8"},
		"nobody compared the engine":           {stats: good(), saw: witness{events: 500, ran: 9}, want: "no round"},
		"nearly all was excused":               {stats: good(func(s *invariants.Stats) { s.Excused = 86 * time.Second }), saw: witness{events: 200, ran: 9, rounds: 3}, want: "86 % of the time"},
		"nearly all was excused of few events": {stats: good(func(s *invariants.Stats) { s.Excused = 86 * time.Second }), saw: witness{events: 199, ran: 9, rounds: 3}},
		"promises that were kept":              {stats: good(func(s *invariants.Stats) { s.PromisesKept = 1 }), saw: witness{events: 500, ran: 9, rounds: 3, promises: 2}},
		"promises that moved":                  {stats: good(func(s *invariants.Stats) { s.PromisesMoved = 1 }), saw: witness{events: 500, ran: 9, rounds: 3, promises: 2}},
		"no promise was judged":                {stats: good(func(s *invariants.Stats) { s.Promised = 7 }), saw: witness{events: 500, ran: 9, rounds: 3, promises: 2}, want: "7 times, and no promise was judged"},
		"jobs of queues were judged":           {stats: good(func(s *invariants.Stats) { s.Admitted, s.QueueBinds = 1, 1 }), saw: witness{events: 500, ran: 9, rounds: 3, queues: true}},
		"no job of a queue was judged":         {stats: good(func(s *invariants.Stats) { s.QueueBinds = 3 }), saw: witness{events: 500, ran: 9, rounds: 3, queues: true}, want: "0 jobs of queues were seen"},
		"no pod of a queue was judged":         {stats: good(func(s *invariants.Stats) { s.Admitted, s.BindsExcused, s.BindsUnknown = 3, 0, 0 }), saw: witness{events: 500, ran: 9, rounds: 3, queues: true}, want: "0 binds of their pods"},
		"no promise of few events":             {stats: good(), saw: witness{events: 199, ran: 9, rounds: 3, promises: 2}},
		"overloads that refused something":     {stats: good(), saw: witness{events: 500, ran: 9, rounds: 3, overloads: 4, refused: 1}},
		"overloads that refused nothing":       {stats: good(), saw: witness{events: 500, ran: 9, rounds: 3, overloads: 4}, want: "no request was refused in 4 overloads"},
		"a few that refused nothing":           {stats: good(), saw: witness{events: 500, ran: 9, rounds: 3, overloads: 3}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := doubt(tc.stats, tc.saw)
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("doubt() = %q, want %q", got, tc.want)
			}
		})
	}
}

// With a standby, the leader's log has the line of a match, whichever scheduler leads.
func TestTheMatchIsSeenInTheLogOfEither(t *testing.T) {
	const line = `I1 "Group matched" group="ns/job-7-y" pods=1`
	for name, leads := range map[string][]int{"the first leads": {0}, "the standby leads": {1}, "one after the other": {0, 1}} {
		t.Run(name, func(t *testing.T) {
			var logs []*follower
			for range 2 {
				logs = append(logs, &follower{counts: map[string]int{}, waiting: map[*waiter]bool{}})
			}
			seen, giveUp := nextOf(logs, lineMatched, "ns/job-7-")
			for _, i := range leads {
				logs[i].line(line)
			}
			select {
			case <-seen:
			default:
				t.Error("the match was not seen")
			}
			giveUp()
			if n := len(logs[0].waiting) + len(logs[1].waiting); n > 0 {
				t.Errorf("%d waits are left", n)
			}
		})
	}
}

func TestALogIsFollowedWhileItIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "scheduler.log")
	f := follow(t.Context(), path)
	job, _ := f.next(lineMatched, "ns/job-7-")
	other, giveUp := f.next(lineMatched, "ns/job-8-")
	giveUp()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	write := func(text string) {
		t.Helper()
		if _, err := file.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	write(`I1 "Loaded the graph" nodes=4` + "\n" + `I1 "Group mat`)
	filled, _ := f.next(lineFilled, "nodes=5")
	write(`ched" group="ns/job-8-x"` + "\n" + `I1 "Group matched" group="ns/job-7-y" pods=1` + "\n")
	select {
	case <-job:
	case <-t.Context().Done():
		t.Fatal("the match was not seen")
	}
	write(`I1 "Loaded the graph" nodes=5` + "\n")
	select {
	case <-filled:
	case <-t.Context().Done():
		t.Fatal("the second filling was not seen")
	}
	select {
	case <-other:
		t.Error("a wait that was given up was told")
	default:
	}
	for message, want := range map[string]int{lineMatched: 2, lineFilled: 2, lineDrift: 0} {
		if got := f.count(message); got != want {
			t.Errorf("%q was seen %d times, want %d", message, got, want)
		}
	}
}

// seen returns a view of nodes a, b and c of 8 CPUs each. c is cordoned.
func seen() *view {
	v := newView()
	for _, name := range []string{"a", "b", "c"} {
		v.putNode(objects.ReadyNode(name, 8, func(n *corev1.Node) { n.Spec.Unschedulable = name == "c" }))
	}
	return v
}

func pod(uid, node string, milliCPU int, phase corev1.PodPhase) *corev1.Pod {
	return objects.Pod(uid, objects.CPU(fmt.Sprint(milliCPU, "m")), objects.CreatedOn(node), objects.InPhase(phase))
}

func TestRoomIsWhatOtherPodsLeave(t *testing.T) {
	cases := map[string]struct {
		tell   func(*view)
		wantOf string
		want   int64
	}{
		"nothing is there":    {func(*view) {}, "a", 8000},
		"a pod waits":         {func(v *view) { v.putPod(pod("p", "", 500, corev1.PodPending)) }, "a", 8000},
		"a pod is on it":      {func(v *view) { v.putPod(pod("p", "a", 500, corev1.PodRunning)) }, "a", 7500},
		"a pod is on another": {func(v *view) { v.putPod(pod("p", "b", 500, corev1.PodRunning)) }, "a", 8000},
		"it has got a node": {func(v *view) {
			v.putPod(pod("p", "", 500, corev1.PodPending))
			v.putPod(pod("p", "a", 500, corev1.PodPending))
		}, "a", 7500},
		"it is told twice":          {func(v *view) { v.putPod(pod("p", "a", 500, "")); v.putPod(pod("p", "a", 500, "")) }, "a", 7500},
		"it has ended":              {func(v *view) { v.putPod(pod("p", "a", 500, "")); v.putPod(pod("p", "a", 500, corev1.PodFailed)) }, "a", 8000},
		"it is gone":                {func(v *view) { v.putPod(pod("p", "a", 500, "")); v.removePod(pod("p", "a", 500, "")) }, "a", 8000},
		"the node takes no pods":    {func(*view) {}, "c", 0},
		"the node has been removed": {func(v *view) { v.removeNode(objects.ReadyNode("a", 8)) }, "a", 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v := seen()
			tc.tell(v)
			if got := v.room()[tc.wantOf]; got != tc.want {
				t.Errorf("room on %s is %dm, want %dm", tc.wantOf, got, tc.want)
			}
		})
	}
}

func TestAVictimIsChosenAmongThePodsThatStay(t *testing.T) {
	v := seen()
	member := func(name string, edit ...func(*corev1.Pod)) {
		p := Workload{Maker: Job, serial: 3}.member("job-1", name, 0)
		p.Namespace, p.UID = "ns", types.UID(name)
		for _, e := range edit {
			e(p)
		}
		v.putPod(p)
	}
	member("b")
	member("a", objects.CreatedOn("a"))
	member("c", func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) })
	v.putPod(pod("other", "", 1, ""))
	var names []string
	for _, p := range v.podsOf("ns", "job-1") {
		names = append(names, p.Name)
	}
	if len(names) != 2 || names[0] != "a" || names[1] != "b" {
		t.Errorf("the pods of the workload are %v, want a and b", names)
	}
	if v.bound != 1 || !v.ran["3"] || len(v.ran) != 1 {
		t.Errorf("%d pods bound of groups %v, want 1 of group 3", v.bound, v.ran)
	}
}

func TestAStandIsWrittenAsUsersDo(t *testing.T) {
	w := Workload{
		Maker: Pods, Workers: 3, Worker: Shape{MilliCPU: 100}, Leader: &Shape{MilliCPU: 4000}, OwnPodGroup: true, serial: 7,
		Stand: Stand{Apart: true, Together: true, Spread: true, Port: 31001, Required: "zone", Other: &Shape{MilliCPU: 900}, Tolerant: 2},
	}
	var milli []int64
	var tolerant []bool
	for _, p := range w.members("pods-1") {
		a := p.Spec.Affinity
		if a.PodAntiAffinity == nil || a.PodAffinity == nil || len(p.Spec.TopologySpreadConstraints) != 1 || p.Spec.Containers[0].Ports[0].HostPort != 31001 {
			t.Errorf("pod %s lacks some of %v: %+v", p.Name, w.Stand, p.Spec)
		}
		if got := a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector.MatchLabels[serialLabel]; got != "7" {
			t.Errorf("its affinity selects the pods of group %q, want 7", got)
		}
		milli = append(milli, p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue())
		tolerant = append(tolerant, len(p.Spec.Tolerations) > 0)
	}
	if want := []int64{100, 900, 100, 4000}; !slices.Equal(milli, want) {
		t.Errorf("members ask for %v, want %v", milli, want)
	}
	if want := []bool{true, false, true, false}; !slices.Equal(tolerant, want) {
		t.Errorf("members tolerate %v, want %v", tolerant, want)
	}
	for on, want := range map[bool]string{true: "", false: "zone"} {
		w.Stand.OnPodGroup = on
		if got := w.member("pods-1", "p", 0).Annotations[requiredAnnotation]; got != want {
			t.Errorf("with the annotations on the PodGroup %t: that of the pod is %q, want %q", on, got, want)
		}
		if got := w.podGroup("pods-1").GetAnnotations()[requiredAnnotation]; (got == "zone") != on {
			t.Errorf("with the annotations on the PodGroup %t: that of the PodGroup is %q", on, got)
		}
	}
}

// Some of the PodGroups that users make are native ones.
func TestThePodsOfANativeGangNameIt(t *testing.T) {
	for name, want := range map[int]string{1: "scheduling.k8s.io/v1beta1", 2: "scheduling.x-k8s.io/v1alpha1"} {
		w := Workload{Maker: Pods, Name: name, Workers: 3, OwnPodGroup: true, Min: 2}
		pod, podGroup := w.member("g", "p", 0), w.podGroup("g")
		inSpec := pod.Spec.SchedulingGroup != nil && *pod.Spec.SchedulingGroup.PodGroupName == "g"
		if native := name == 1; inSpec != native || (pod.Labels[groupLabel] == "g") == native || podGroup.GetAPIVersion() != want {
			t.Errorf("pods of %v name it in their spec: %t, and by their labels %v; its PodGroup is %+v, want %s", w, inSpec, pod.Labels, podGroup, want)
		}
	}
}
