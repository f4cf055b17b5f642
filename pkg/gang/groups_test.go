package gang

import (
	"fmt"
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

// noon is the time at which a story begins.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// story passes to Groups what happens, as the plugin would.
type story struct {
	*testing.T
	*Groups
	now  time.Time
	pods map[string]*corev1.Pod
	// transitions and placed are what was reported since they were last read.
	transitions []Transition
	placed      map[types.NamespacedName]PlacedGroup
}

func newStory(t *testing.T) *story {
	return &story{T: t, Groups: New(seenOwners{}, match.PolicyLonode), now: noon, pods: map[string]*corev1.Pod{}, placed: map[types.NamespacedName]PlacedGroup{}}
}

// key is the key of the group that a story is about.
var key = types.NamespacedName{Namespace: "ns", Name: "g"}

// gang makes a PodGroup and pods 0 to n-1 of it.
func (s *story) gang(minMember int32, n int) {
	s.Helper()
	s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: minMember, Created: noon})
	for i := range n {
		s.add(fmt.Sprint(i))
	}
}

func (s *story) add(name string, change ...func(*corev1.Pod)) Output {
	pod := objects.Pod(name, objects.InGroup(key.Name), objects.Created(noon.Add(time.Duration(len(s.pods))*time.Second)), objects.All(change...))
	s.pods[name] = pod
	return s.PutPod(pod)
}

// update changes a pod as the API would show it.
func (s *story) update(name string, change func(*corev1.Pod)) Output {
	pod := s.pods[name].DeepCopy()
	change(pod)
	s.pods[name] = pod
	return s.PutPod(pod)
}

// enqueueable lists the pods that may enter the queue.
func (s *story) enqueueable() []string {
	var names []string
	for name := range s.pods {
		if s.PreEnqueue(types.UID(name), s.now).Pass {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (s *story) wantEnqueueable(want ...string) {
	s.Helper()
	if got := s.enqueueable(); !slices.Equal(got, want) {
		s.Errorf("pods that may enter the queue = %v, want %v", got, want)
	}
}

// match plans for a pod and assigns nodes to all, node n-i to pod i.
func (s *story) match(name string) Plan {
	s.Helper()
	p, _ := s.Plan(types.UID(name), s.now)
	if p.Job == 0 {
		s.Fatalf("pod %s has nothing to ask for: %+v", name, p)
	}
	var slots []match.Slot
	for _, pod := range slices.Concat(p.Required, p.Optional) {
		slots = append(slots, match.Slot{Key: string(pod.UID), Node: "n-" + pod.Name})
	}
	if _, _, _, err := s.Assign(p, slots, s.now.Add(time.Minute)); err != nil {
		s.Fatalf("seat the group of pod %s: %v", name, err)
	}
	return p
}

// reserve takes pods through their scheduling cycles up to Permit. It
// returns the pods that may be bound, and lets them leave the bind queue.
func (s *story) reserve(names ...string) []string {
	s.Helper()
	var free []string
	for _, name := range names {
		uid := types.UID(name)
		if p, _ := s.Plan(uid, s.now); p.Node == "" {
			s.Fatalf("pod %s has no seat", name)
		}
		if err := s.Reserve(uid, "n-"+name); err != nil {
			s.Fatalf("reserve pod %s: %v", name, err)
		}
		ok, others := s.Permit(uid)
		if ok {
			free = append(free, name)
		}
		for _, o := range others {
			free = append(free, string(o))
		}
	}
	slices.Sort(free)
	s.sendBinds(free...)
	return free
}

// sendBinds sends the binds of pods in the bind queue.
func (s *story) sendBinds(names ...string) {
	s.Helper()
	for _, name := range names {
		if why, _ := s.leaveBindQueue(types.UID(name), ""); why != "" {
			s.Fatalf("pod %s may not be bound: %s", name, why)
		}
	}
}

func (s *story) wantReleased(e Output, job match.JobID, keys ...string) {
	s.Helper()
	var got []string
	for _, r := range e.Release {
		if r.Job != job {
			s.Errorf("released job %d, want %d", r.Job, job)
		}
		got = append(got, r.Keys...)
	}
	slices.Sort(got)
	if !slices.Equal(got, keys) {
		s.Errorf("released slots %v, want %v", got, keys)
	}
}

func (s *story) wantTentative(n int) {
	s.Helper()
	got := 0
	for _, j := range s.Tentative() {
		got += len(j.Slots)
	}
	if got != n {
		s.Errorf("%d tentative seats, want %d", got, n)
	}
}

func TestOneRepresentativeIsEnqueuedForCompleteGroup(t *testing.T) {
	s := newStory(t)
	s.gang(3, 2)
	s.wantEnqueueable()
	if v := s.PreEnqueue("0", s.now); v.Reason != reason.Gathering {
		t.Errorf("reason = %q, want %q", v.Reason, reason.Gathering)
	}
	s.add("2")
	s.wantEnqueueable("0")
	p := s.match("0")
	if len(p.Required) != 3 || len(p.Optional) != 0 {
		t.Errorf("the plan asks for %d and %d pods, want 3 and 0", len(p.Required), len(p.Optional))
	}
	// The representative's own cycle is under way; its siblings have assignments.
	if got := s.reserve("1", "2"); len(got) != 0 {
		t.Errorf("pods %v may bind with one of three members not reserved", got)
	}
}

func TestAllMembersBindWhenTheLastIsReserved(t *testing.T) {
	s := newStory(t)
	s.gang(3, 3)
	s.match("0")
	if err := s.Reserve("0", "n-0"); err != nil {
		t.Fatal(err)
	}
	if got := s.reserve("1", "2"); !slices.Equal(got, []string{"0", "1", "2"}) {
		t.Errorf("pods that may bind = %v, want all three", got)
	}
}

func TestMembersBeyondTheMinimumAreOptional(t *testing.T) {
	s := newStory(t)
	s.gang(2, 5)
	p := s.match("0")
	if len(p.Required) != 2 || len(p.Optional) != 3 {
		t.Errorf("the plan asks for %d and %d pods, want 2 and 3", len(p.Required), len(p.Optional))
	}
}

func TestUnreserveBeforeStartRevokesAll(t *testing.T) {
	s := newStory(t)
	s.gang(3, 3)
	p := s.match("0")
	if err := s.Reserve("0", "n-0"); err != nil {
		t.Fatal(err)
	}
	s.reserve("1")
	e := s.Unreserve("1", s.now, "no")
	s.wantReleased(e, p.Job, "0", "1", "2")
	if !slices.Contains(e.Reject, "0") {
		t.Errorf("rejected pods = %v, want the reserved sibling among them", e.Reject)
	}
	s.wantTentative(0)
	// The group waits a little, and then is matched again under another job id.
	s.wantEnqueueable()
	s.now = s.now.Add(minBackoff)
	s.wantEnqueueable("0")
	if again := s.match("0"); again.Job == p.Job {
		t.Error("the second attempt has the job id of the first")
	}
}

func TestFailedBindKeepsTheAssignmentOfAStartedGroup(t *testing.T) {
	s := newStory(t)
	s.gang(2, 2)
	s.match("0")
	if err := s.Reserve("0", "n-0"); err != nil {
		t.Fatal(err)
	}
	s.reserve("1")
	s.ObserveBind("0")
	s.update("0", objects.OnNode("n-0"))
	e := s.Unreserve("1", s.now, "the bind failed")
	s.wantReleased(e, 0)
	if p, _ := s.Plan("1", s.now); p.Node != "n-1" {
		t.Errorf("the pod's node = %q, want its seat n-1", p.Node)
	}
	// Not for ever: at the deadline the assignment is revoked, and the pod is placed alone.
	if err := s.Reserve("1", "n-1"); err != nil {
		t.Fatal(err)
	}
	s.Unreserve("1", s.now, "the bind failed")
	s.now = s.now.Add(2 * time.Minute)
	if e := s.RevokeExpired(s.now); len(e.Release) != 1 {
		t.Errorf("released at the deadline: %v, want the one seat", e.Release)
	}
	s.now = s.now.Add(time.Minute)
	p, _ := s.Plan("1", s.now)
	if len(p.Required) != 1 || !slices.Equal(p.Near, []string{"n-0"}) {
		t.Errorf("the plan asks for %d pods near %v, want one near n-0", len(p.Required), p.Near)
	}
}

func TestAbandonedCycleLosesAssignments(t *testing.T) {
	s := newStory(t)
	s.gang(2, 2)
	p := s.match("0")
	// Filter of another plugin returned Error: the pod comes back to the queue.
	v := s.PreEnqueue("0", s.now)
	if v.Pass || v.Abandoned != p.Job {
		t.Fatalf("verdict = %+v, want the seat of job %d lost", v, p.Job)
	}
	s.wantReleased(s.RevokeAbandoned("0", v.Abandoned, s.now), p.Job, "0", "1")
	s.wantTentative(0)
}

func TestAssignmentsExpire(t *testing.T) {
	s := newStory(t)
	s.gang(2, 2)
	p := s.match("0")
	if e := s.RevokeExpired(s.now.Add(59 * time.Second)); len(e.Release) != 0 {
		t.Errorf("released before the deadline: %v", e.Release)
	}
	s.wantReleased(s.RevokeExpired(s.now.Add(time.Minute)), p.Job, "0", "1")
	s.wantTentative(0)
}

func TestMemberDeletedBeforeStartRevokesAll(t *testing.T) {
	s := newStory(t)
	s.gang(2, 2)
	p := s.match("0")
	s.wantReleased(s.DropPod("1"), p.Job, "0", "1")
	delete(s.pods, "1")
	s.wantEnqueueable()
}

func TestAMemberDeletedDuringTheMatchFailsIt(t *testing.T) {
	s := newStory(t)
	s.gang(2, 2)
	p, _ := s.Plan("0", s.now)
	s.DropPod("1")
	_, _, e, err := s.Assign(p, []match.Slot{{Key: "0", Node: "n-0"}, {Key: "1", Node: "n-1"}}, s.now.Add(time.Minute))
	if err == nil {
		t.Fatal("the match of a group with too few members left was taken")
	}
	s.wantReleased(e, p.Job, "0", "1")
	s.wantTentative(0)
}

// start brings a gang of n onto nodes n-0, n-1 and so on.
func (s *story) start(n int) Plan {
	s.Helper()
	s.gang(int32(n), n)
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	return s.run(names...)
}

// State 2 of the lessons of earlier systems: it freed the whole group.
func TestMemberThatEndsReleasesOnlyItsSlot(t *testing.T) {
	s := newStory(t)
	p := s.start(3)
	s.wantReleased(s.update("1", objects.InPhase(corev1.PodSucceeded)), p.Job, "1")
	if got := s.JobOf(s.pods["0"]); got != p.Job {
		t.Errorf("job of a sibling = %d, want %d", got, p.Job)
	}
}

// State 3: it cancelled the group and matched again over running pods.
func TestAReplacedMemberIsMatchedAloneNearItsSiblings(t *testing.T) {
	s := newStory(t)
	p := s.start(3)
	s.wantReleased(s.DropPod("1"), p.Job, "1")
	delete(s.pods, "1")
	s.add("1b")
	s.wantEnqueueable("0", "1b", "2")
	late, _ := s.Plan("1b", s.now)
	if len(late.Required) != 1 || !slices.Equal(late.Near, []string{"n-0", "n-2"}) || late.Job == p.Job {
		t.Errorf("plan = %d pods near %v under job %d, want one near n-0 and n-2 under a job of its own", len(late.Required), late.Near, late.Job)
	}
}

// State 4: pods were pinned to where their names once ran.
func TestANewIncarnationIsAllOrNothingAgain(t *testing.T) {
	s := newStory(t)
	p := s.start(2)
	for _, name := range []string{"0", "1"} {
		s.DropPod(types.UID(name))
		delete(s.pods, name)
	}
	s.add("0b")
	s.wantEnqueueable()
	s.add("1b")
	s.wantEnqueueable("0b")
	again := s.match("0b")
	if again.Job == p.Job || len(again.Near) != 0 || len(again.Required) != 2 {
		t.Errorf("plan = job %d, %d pods near %v, want both pods afresh under another job", again.Job, len(again.Required), again.Near)
	}
}

// Requests 14: a Job with more completions than parallelism ends with fewer pods
// than it began with.
func TestASmallerMinimumLetsTheLastPodsOfAJobStart(t *testing.T) {
	s := newStory(t)
	s.start(2)
	for _, name := range []string{"0", "1"} {
		s.DropPod(types.UID(name))
		delete(s.pods, name)
	}
	s.add("2")
	s.wantEnqueueable()
	s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 1, Created: noon})
	s.wantEnqueueable("2")
	if p, _ := s.Plan("2", s.now); len(p.Required) != 1 {
		t.Errorf("the plan asks for %d pods, want the one that is left", len(p.Required))
	}
}

func TestAPodGroupWithoutPodsIsGathering(t *testing.T) {
	s := newStory(t)
	s.gang(2, 0)
	if w := s.WaitingGroups(); len(w) != 1 || w[0].Reason != reason.Gathering || w[0].Pod != nil {
		t.Errorf("waiting = %+v, want the group without pods, gathering", w)
	}
	s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 2, Ended: true})
	if w := s.WaitingGroups(); len(w) != 0 {
		t.Errorf("waiting = %+v, want none: the group has ended", w)
	}
}

// The controller knows why pods do not come: their owner is suspended, or an operator keeps a pod that
// has failed and makes no other for it.
func TestAGroupThatGathersSaysWhyItsPodsDoNotCome(t *testing.T) {
	s := newStory(t)
	s.gang(2, 1)
	wants := func(pg PodGroup, why, message string) {
		t.Helper()
		pg.UID, pg.MinMember, pg.Created = "pg", 2, noon
		s.PutPodGroup(key, pg)
		if v := s.PreEnqueue("0", s.now); v.Pass != (why == "") || v.Reason != why || v.Message != message {
			t.Errorf("verdict = %+v, want %q, %q", v, why, message)
		}
	}
	wants(PodGroup{}, reason.Gathering, "waits for 1 more pod: has 1 of minMember 2")
	wants(PodGroup{Absence: Absence{WhyNotExpected: "pod w-1 has failed"}}, reason.Gathering, "waits for 1 more pod: has 1 of minMember 2; pod w-1 has failed")
	suspended := PodGroup{Absence: Absence{Suspended: true, WhyNotExpected: "Job/w is suspended"}}
	wants(suspended, reason.Suspended, "Job/w is suspended")
	if w := s.WaitingGroups(); len(w) != 1 || w[0].Reason != reason.Suspended {
		t.Errorf("waiting = %+v, want the group, suspended", w)
	}
	s.add("1")
	wants(suspended, "", "") // it has what it needs, whatever its status says
}

// A suspended group without pods on nodes is reported as that, whatever was said of it before.
func TestASuspendedGroupIsReported(t *testing.T) {
	suspended := PodGroup{UID: "pg", MinMember: 2, Created: noon, Absence: Absence{Suspended: true, WhyNotExpected: "Job/w is suspended"}}
	cases := map[string]func(s *story){
		"its pods have gone": func(s *story) { s.DropPod("0"); s.DropPod("1") },
		"it was refused before": func(s *story) {
			s.refuseForGood("0")
			s.DropPod("0")
			s.DropPod("1")
		},
		"a pod that has succeeded is left": func(s *story) {
			s.add("0", objects.OnNode("n-0"), objects.InPhase(corev1.PodSucceeded))
			s.DropPod("1")
		},
	}
	for name, leave := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.gang(2, 2)
			leave(s)
			s.PutPodGroup(key, suspended)
			if w := s.WaitingGroups(); len(w) != 1 || w[0].Reason != reason.Suspended {
				t.Errorf("waiting = %+v, want the group, suspended", w)
			}
		})
	}
}

func TestAssignmentsThatNoCycleTookUpAreUnclaimed(t *testing.T) {
	s := newStory(t)
	s.gang(2, 2)
	s.match("0")
	if got := s.Unclaimed(); len(got) != 1 || got[0].Name != "1" {
		t.Errorf("unclaimed = %d pods, want the sibling", len(got))
	}
	s.reserve("1")
	if got := s.Unclaimed(); len(got) != 0 {
		t.Errorf("unclaimed = %d pods, want none", len(got))
	}
}

func TestAfterARestartABoundMemberMeansTheGroupHasStarted(t *testing.T) {
	s := newStory(t)
	s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 3, Created: noon})
	s.add("0", objects.OnNode("n-0"))
	s.add("1")
	late, _ := s.Plan("1", s.now)
	if len(late.Required) != 1 || !slices.Equal(late.Near, []string{"n-0"}) {
		t.Errorf("plan = %d pods near %v, want one near n-0", len(late.Required), late.Near)
	}
	if got, want := s.JobOf(s.pods["0"]), match.NewJobID("pod", "0"); got != want {
		t.Errorf("job of the bound pod = %d, want one of its own, %d", got, want)
	}
}

// State 5: a Pod and a Job of one name, the same names in two namespaces.
func TestLonePodsOfOneNameAreGroupsOfTheirOwn(t *testing.T) {
	g := New(seenOwners{}, match.PolicyLonode)
	for _, ns := range []string{"a", "b"} {
		g.PutPod(objects.Pod("x", objects.In(ns), func(p *corev1.Pod) { p.UID = types.UID(ns) }), noon)
	}
	for _, uid := range []types.UID{"a", "b"} {
		p, _ := g.Plan(uid, noon)
		if len(p.Required) != 1 || p.Required[0].UID != uid {
			t.Errorf("plan of pod %s asks for %d pods, want itself alone", uid, len(p.Required))
		}
	}
}

func TestARefusalIsAnsweredFromMemoryUntilAnEventCanHelp(t *testing.T) {
	s := newStory(t)
	s.gang(2, 2)
	p, _ := s.Plan("0", s.now)
	s.Refuse(p, Refusal{Reason: "NoRoom", Message: "full", RetryOn: []Event{Released}}, s.now)
	s.wantEnqueueable()
	s.ObserveEvent(NodeChanged)
	s.wantEnqueueable()
	s.now = s.now.Add(time.Hour)
	s.wantEnqueueable()
	s.ObserveEvent(Released)
	if due, _ := s.Due(s.now); !slices.Equal(due, []types.NamespacedName{key}) {
		t.Errorf("due = %v, want the group", due)
	}
	s.wantEnqueueable("0")
}

func TestAnEventDuringTheMatchCountsAfterIt(t *testing.T) {
	s := newStory(t)
	s.gang(2, 2)
	p, _ := s.Plan("0", s.now)
	s.ObserveEvent(Released)
	s.Refuse(p, Refusal{Reason: "NoRoom", RetryOn: []Event{Released}}, s.now)
	s.wantEnqueueable()
	_, next := s.Due(s.now)
	if want := s.now.Add(minRetryPause); !next.Equal(want) {
		t.Errorf("the refusal runs out at %v, want %v", next, want)
	}
	s.now = next
	s.wantEnqueueable("0")
}

// A pod changes while its group is matched: an annotation is removed, for instance. The refusal is of what was asked before.
func TestAChangeOfTheRequestDuringTheMatchCountsAfterIt(t *testing.T) {
	s := newStory(t)
	s.gang(2, 2)
	p, _ := s.Plan("0", s.now)
	changed := s.members["1"].pod.DeepCopy()
	changed.Annotations = map[string]string{"fluence.flux-framework.org/preemption-delay": "0s"}
	s.PutPod(changed)
	s.Refuse(p, Refusal{Reason: "NoRoom", WaitsFor: WaitsForRoom, RetryOn: []Event{Released}}, s.now)
	s.now = s.now.Add(time.Second)
	s.wantEnqueueable("0")
}

// Flow 16: under steady events a group retries now and then, not all the time.
func TestRefusalsInARowComeFurtherApart(t *testing.T) {
	s := newStory(t)
	s.gang(1, 1)
	var last time.Duration
	for range 8 {
		p, _ := s.Plan("0", s.now)
		s.Refuse(p, Refusal{Reason: "NoRoom", RetryOn: []Event{Released}}, s.now)
		s.ObserveEvent(Released)
		_, next := s.Due(s.now)
		pause := next.Sub(s.now)
		if pause < last || pause < minRetryPause || pause > maxRetryPause {
			t.Errorf("pause of %v after one of %v", pause, last)
		}
		last, s.now = pause, next
		s.Due(s.now)
	}
	if last != maxRetryPause {
		t.Errorf("the longest pause is %v, want %v", last, maxRetryPause)
	}
}

func TestInvalidSizesHoldTheGroup(t *testing.T) {
	for _, value := range []string{"0", "-1", "x", "100001"} {
		t.Run(value, func(t *testing.T) {
			s := newStory(t)
			s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 1, Created: noon})
			s.add("0", func(p *corev1.Pod) { p.Labels[group.SizeLabel] = value })
			if v := s.PreEnqueue("0", s.now); v.Pass || v.Reason != reason.InvalidGroupSize {
				t.Errorf("verdict = %+v, want held with %s", v, reason.InvalidGroupSize)
			}
		})
	}
}

func TestAPodBoundBySomebodyElseLeavesItsAssignment(t *testing.T) {
	s := newStory(t)
	s.gang(1, 1)
	p := s.match("0")
	s.wantReleased(s.update("0", objects.OnNode("elsewhere")), p.Job, "0")
	if got, want := s.JobOf(s.pods["0"]), match.NewJobID("pod", "0"); got != want {
		t.Errorf("job = %d, want the pod's own, %d", got, want)
	}
}

func TestPlacedIsReportedOnceNoBindIsOutstanding(t *testing.T) {
	s := newStory(t)
	s.start(2)
	placed := s.Placed()
	if len(placed) != 1 || placed[0].Nodes["n-0"] != 1 || placed[0].Nodes["n-1"] != 1 {
		t.Fatalf("placed = %+v, want the group on n-0 and n-1", placed)
	}
	s.update("0", objects.InPhase(corev1.PodRunning))
	if again := s.Placed(); len(again) != 0 {
		t.Errorf("placed again: %+v", again)
	}
}

func TestNothingIsRememberedOfGroupsThatAreGone(t *testing.T) {
	s := newStory(t)
	s.start(3)
	for name := range s.pods {
		s.DropPod(types.UID(name))
	}
	s.DropPodGroup(key)
	if n := len(s.groups) + len(s.members) + len(s.unassignedGroups) + len(s.refusedGroups) + len(s.unconfirmedGroups); n != 0 {
		t.Errorf("%d entries left of a group that is gone", n)
	}
}

func TestRankNeverChangesWhileAGroupLives(t *testing.T) {
	s := newStory(t)
	s.gang(1, 1)
	before := s.Rank(s.pods["0"])
	s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 1, Created: noon.Add(time.Hour)})
	if after := s.Rank(s.pods["0"]); after != before {
		t.Errorf("rank = %+v, was %+v", after, before)
	}
}

func TestRankGoesByPriorityThenCreationThenName(t *testing.T) {
	low, high := int32(1), int32(2)
	older, younger := noon, noon.Add(time.Microsecond)
	ranks := []Rank{
		{Urgent: true, Priority: low, Since: younger, Key: key, Pod: "b"},
		{Priority: high, Since: younger, Key: key, Pod: "b"},
		{Priority: low, Since: older, Key: key, Pod: "b"},
		{Priority: low, Since: younger, Key: key, Pod: "a"},
		{Priority: low, Since: younger, Key: key, Pod: "b"},
		{Priority: low, Since: younger, Key: types.NamespacedName{Namespace: "ns", Name: "h"}, Pod: "a"},
	}
	for i, a := range ranks {
		for j, b := range ranks {
			if got := a.Less(b); got != (i < j) {
				t.Errorf("rank %d before rank %d: %v", i, j, got)
			}
		}
	}
}

// Flow 16: groups that are sure to be refused again do not retry again and again.
func TestReleasesDoNotActivateRejectedGroups(t *testing.T) {
	s := newStory(t)
	s.gang(1, 1)
	s.match("0")
	s.FilterRejected("0", s.now, "a filter refused the node")
	s.ObserveEvent(Released)
	s.wantEnqueueable()
	// Events that the filters see help, but not before the shortest backoff.
	s.ObserveEvent(NodeChanged)
	s.wantEnqueueable()
	s.now = s.now.Add(minBackoff)
	s.wantEnqueueable("0")
}

func TestBackoffDoublesUpToItsLimit(t *testing.T) {
	s := newStory(t)
	s.gang(1, 1)
	for i := range 12 {
		s.match("0")
		s.FilterRejected("0", s.now, "a filter refused the node")
		want := min(MaxBackoff, minBackoff<<min(i, 10))
		s.now = s.now.Add(want - time.Nanosecond)
		s.wantEnqueueable()
		s.now = s.now.Add(time.Nanosecond)
		s.wantEnqueueable("0")
	}
}

func TestExpireBackoffEndsOnlyRefusalsWithBackoff(t *testing.T) {
	s := newStory(t)
	if s.ExpireBackoff(key) {
		t.Error("the refusal of a group that there is not has elapsed")
	}
	s.gang(2, 2)
	p, _ := s.Plan("0", s.now)
	s.Refuse(p, Refusal{Reason: "NoRoom", RetryOn: []Event{Released}}, s.now)
	if s.ExpireBackoff(key) {
		t.Error("a refusal that only an event ends has elapsed")
	}
	s.wantEnqueueable()
	s.Refuse(p, Refusal{Reason: "NodeRefused", Backoff: true}, s.now)
	s.wantEnqueueable()
	if !s.ExpireBackoff(key) || s.ExpireBackoff(key) {
		t.Error("a refusal for a while has not elapsed once")
	}
	s.wantEnqueueable("0")
}

// A cycle may have begun by the time that a lost assignment is handled.
func TestALostAssignmentIsNotTakenForTheNextOne(t *testing.T) {
	s := newStory(t)
	s.gang(2, 2)
	s.match("0")
	lost := s.PreEnqueue("0", s.now).Abandoned
	s.DropPod("1")
	s.add("1b")
	again := s.match("0")
	s.wantReleased(s.RevokeAbandoned("0", lost, s.now), 0)
	s.wantTentative(2)
	s.wantReleased(s.RevokeAbandoned("0", again.Job, s.now), again.Job, "0", "1b")
}

func TestAssignWithoutSlotForThePlansPodKeepsSiblings(t *testing.T) {
	s := newStory(t)
	s.gang(2, 3)
	s.match("0")
	if err := s.Reserve("0", "n-0"); err != nil {
		t.Fatal(err)
	}
	s.reserve("1", "2")
	s.add("3")
	late, _ := s.Plan("3", s.now)
	_, _, e, err := s.Assign(late, []match.Slot{{Key: "stranger", Node: "n"}}, s.now.Add(time.Minute))
	if err == nil {
		t.Error("a match that gives the asker nothing was taken")
	}
	s.wantReleased(e, late.Job, "stranger")
	s.wantTentative(3)
	if len(e.Reject) != 0 {
		t.Errorf("rejected siblings %v of a group that has started", e.Reject)
	}
}

func TestPlacedIsReportedAgainOnRecreatedPodGroup(t *testing.T) {
	s := newStory(t)
	s.start(2)
	s.Placed()
	s.DropPodGroup(key)
	s.PutPodGroup(key, PodGroup{UID: "again", MinMember: 2, Created: noon})
	if placed := s.Placed(); len(placed) != 1 {
		t.Errorf("placed = %+v, want the group once more", placed)
	}
}

func TestMemberThatEndsBeforeItsBindRevokesAll(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"is to end":  func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} },
		"has failed": objects.InPhase(corev1.PodFailed),
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.gang(2, 2)
			p := s.match("0")
			s.wantReleased(s.update("1", change), p.Job, "0", "1")
			s.wantTentative(0)
		})
	}
}
