package gang

import (
	"fmt"
	"maps"
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

func names(pods []*corev1.Pod) []string {
	var all []string
	for _, p := range pods {
		all = append(all, p.Name)
	}
	slices.Sort(all)
	return all
}

// podsToEnqueue returns the pods of the group that are to be put into the queue.
func (s *story) podsToEnqueue() []string {
	return names(s.EnqueueableOf([]types.NamespacedName{key}, s.now))
}

// Requests 14 of the lessons of earlier systems: the rest follows as room comes.
func TestLateMembersArePlacedInOneMatch(t *testing.T) {
	s := newStory(t)
	s.start(2)
	for _, name := range []string{"2", "3", "4"} {
		s.add(name)
	}
	if got := s.podsToEnqueue(); !slices.Equal(got, []string{"2"}) {
		t.Errorf("pods to enqueue = %v, want the oldest alone", got)
	}
	for name, want := range map[string]bool{"2": true, "3": false, "4": false} {
		if v := s.PreEnqueue(types.UID(name), s.now); v.Pass != want || v.Message != "" {
			t.Errorf("verdict on pod %s = %+v, want that the oldest alone may pass", name, v)
		}
	}
	plan, _ := s.Plan("2", s.now)
	if got, more := names(plan.Required), names(plan.Optional); !slices.Equal(got, []string{"2"}) || !slices.Equal(more, []string{"3", "4"}) {
		t.Errorf("plan requires %v and would have %v, want 2, and 3 and 4", got, more)
	}
	// There is room for two of the three.
	slots := []match.Slot{{Key: "2", Node: "n-2"}, {Key: "3", Node: "n-3"}}
	_, siblings, _, err := s.Assign(plan, slots, s.now.Add(time.Minute))
	if err != nil || !slices.Equal(names(siblings), []string{"3"}) {
		t.Fatalf("siblings to wake = %v, error %v; want 3", names(siblings), err)
	}
	if got := s.podsToEnqueue(); !slices.Equal(got, []string{"4"}) {
		t.Errorf("pods to enqueue = %v, want the one without a seat", got)
	}
}

func TestRefusalOfLateMemberCoversAlsoRefused(t *testing.T) {
	s := newStory(t)
	s.start(2)
	for _, name := range []string{"2", "3", "4"} {
		s.add(name)
	}
	plan, _ := s.Plan("2", s.now)
	s.Refuse(plan, Refusal{Reason: "NoRoom", Message: "full", RetryOn: []Event{Released}, AlsoRefused: []types.UID{"2", "3"}}, s.now)
	for _, uid := range []types.UID{"2", "3"} {
		if v := s.PreEnqueue(uid, s.now); v.Pass || v.Message != "full" {
			t.Errorf("verdict on pod %s = %+v, want it held", uid, v)
		}
	}
	if got := s.podsToEnqueue(); !slices.Equal(got, []string{"4"}) {
		t.Errorf("pods to enqueue = %v, want the one of another shape", got)
	}
	placed := s.Placed()
	if len(placed) != 1 || placed[0].RefusedLate != 2 || placed[0].Message != "full" {
		t.Errorf("placed = %+v, want that two wait, and why", placed)
	}
	s.ObserveEvent(Released)
	_, next := s.Due(s.now)
	s.now = next
	s.Due(s.now)
	if got := s.podsToEnqueue(); !slices.Equal(got, []string{"4"}) {
		t.Errorf("pods to wake after room was freed = %v, want the one that asks for all", got)
	}
	if again := s.Placed(); len(again) != 0 {
		t.Errorf("told %+v while they ask again", again)
	}
	s.DropPod("2")
	s.DropPod("3")
	if placed := s.Placed(); len(placed) != 1 || placed[0].RefusedLate != 0 {
		t.Errorf("placed = %+v, want that nobody waits any more", placed)
	}
}

func TestReplacementsAreUrgent(t *testing.T) {
	s := newStory(t)
	s.start(2)
	s.add("2")
	s.PreEnqueue("2", s.now)
	if s.Rank(s.pods["2"]).Urgent {
		t.Error("a pod beyond the minimum goes before other groups")
	}
	s.DropPod("0")
	s.DropPod("1")
	s.DropPod("2")
	s = newStory(t)
	s.start(2)
	s.DropPod("1")
	s.add("1b")
	s.PreEnqueue("1b", s.now)
	if !s.Rank(s.pods["1b"]).Urgent {
		t.Error("a pod that the group lacks does not go before others")
	}
	before := s.Rank(s.pods["1b"])
	s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 1, Created: noon})
	if after := s.Rank(s.pods["1b"]); after != before {
		t.Errorf("rank of a pod in the queue = %+v, was %+v", after, before)
	}
}

func TestAMinimumThatIsRaisedGivesTheAssignmentsBack(t *testing.T) {
	s := newStory(t)
	s.gang(2, 2)
	p := s.match("0")
	s.wantReleased(s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 3, Created: noon}), p.Job, "0", "1")
	s.wantTentative(0)
}

// A change of the PodGroup during a match counts as if it came before.
func TestAPodGroupThatChangesDuringTheMatch(t *testing.T) {
	cases := map[string]struct {
		change func(s *story)
		// starts is how many reserved pods let the group start. want is why it may not.
		starts int
		want   string
	}{
		"nothing":          {change: func(*story) {}, starts: 3},
		"fewer are enough": {change: func(s *story) { s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 2, Created: noon}) }, starts: 2},
		"all are needed":   {change: func(s *story) { s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 4, Created: noon}) }, starts: 4},
		"more are needed":  {change: func(s *story) { s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 5, Created: noon}) }, want: "minMember of PodGroup ns/g is now 5, but only 4 of its pods have nodes"},
		"it is deleted":    {change: func(s *story) { s.DropPodGroup(key) }, want: "PodGroup ns/g was deleted"},
		"a pod is":         {change: func(s *story) { s.DropPod("1"); s.DropPod("2") }, want: "only 2 of the 3 pods that start together still exist"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.gang(3, 4)
			p, _ := s.Plan("0", s.now)
			tc.change(s)
			pods := []string{"0", "1", "2", "3"}
			var slots []match.Slot
			for _, pod := range pods {
				slots = append(slots, match.Slot{Key: pod, Node: "n-" + pod})
			}
			_, _, e, err := s.Assign(p, slots, s.now.Add(time.Minute))
			if tc.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				s.wantTentative(4)
				for i, pod := range pods[:tc.starts] {
					if s.reserveAndBind(pod); len(s.Transitions()) > 0 != (i+1 == tc.starts) {
						t.Errorf("with %d pods reserved the group has started, or has not: want it with %d", i+1, tc.starts)
					}
				}
				return
			}
			if err == nil || !strings.HasSuffix(err.Error(), ": "+tc.want) {
				t.Errorf("Seat() = %v, want %q", err, tc.want)
			}
			s.wantReleased(e, p.Job, pods...)
			s.wantTentative(0)
		})
	}
}

func TestAMinimumThatIsLoweredLetsTheReservedBind(t *testing.T) {
	s := newStory(t)
	s.gang(3, 3)
	s.match("0")
	if err := s.Reserve("0", "n-0"); err != nil {
		t.Fatal(err)
	}
	s.Permit("0")
	if free := s.reserve("1"); len(free) > 0 {
		t.Fatalf("pods %v may bind before the minimum is reserved", free)
	}
	if e := s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 2, Created: noon}); len(e.Release) > 0 {
		t.Errorf("gave back %+v", e.Release)
	}
	if _, mayBind := s.StillWaits("0"); !mayBind {
		t.Error("two of the two that are needed now are reserved, and may not bind")
	}
	s.wantTentative(3)
}

func TestDeletedPodGroupRevokesAssignments(t *testing.T) {
	s := newStory(t)
	s.gang(2, 2)
	p := s.match("0")
	s.wantReleased(s.DropPodGroup(key), p.Job, "0", "1")
	if v := s.PreEnqueue("0", s.now); v.Pass || v.Reason != reason.NoPodGroup {
		t.Errorf("verdict = %+v, want %s", v, reason.NoPodGroup)
	}
}

// ofJob makes a pod a Job's pod, without a label.
func ofJob(p *corev1.Pod) {
	p.Labels = nil
	objects.OwnedBy(ownerOfKind(job))(p)
}

func TestAPodWaitsForItsOwnerToBeSeen(t *testing.T) {
	owners := seenOwners{}
	s := newStory(t)
	s.Groups = New(owners, match.PolicyLonode)
	s.add("0", ofJob)
	if v := s.PreEnqueue("0", s.now); v.Pass || v.Reason != reason.OwnerNotSeen || !strings.Contains(v.Message, "Job train") {
		t.Errorf("verdict = %+v, want it held until the Job is seen", v)
	}
	owners[ownerOfKind(job)] = group.Owner{}
	e := s.ObserveOwner(ownerOfKind(job).UID)
	want := types.NamespacedName{Namespace: "ns", Name: ownerOfKind(job).PodGroupName()}
	if !slices.Equal(e.Activate, []types.NamespacedName{want}) {
		t.Errorf("groups that were found = %v, want %v", e.Activate, want)
	}
	if m, ok := s.GroupOf("0"); !ok || m.Key != want {
		t.Errorf("group = %+v, want %v", m, want)
	}
	s.PutPodGroup(want, PodGroup{UID: "pg", MinMember: 1, Created: noon})
	s.wantEnqueueable("0")
	// A Job that goes before its pods leaves them in their group.
	clear(owners)
	s.update("0", objects.OnNode("n"))
	if m, _ := s.GroupOf("0"); m.Key != want {
		t.Errorf("group after the Job was gone = %+v, want %v", m, want)
	}
	s.DropPod("0")
	s.DropPodGroup(want)
	if n := len(s.groups) + len(s.members) + len(s.byMissingOwner); n != 0 {
		t.Errorf("%d entries left of what is gone", n)
	}
}

func TestPodsOfADeploymentNeedNoPodGroup(t *testing.T) {
	s := newStory(t)
	s.Groups = New(seenOwners{ownerOfKind(replicaSet): ownerOfKind(deployment)}, match.PolicyLonode)
	ofDeployment := func(p *corev1.Pod) {
		p.Labels = nil
		objects.OwnedBy(ownerOfKind(replicaSet))(p)
	}
	s.add("0", ofDeployment)
	s.add("1", ofDeployment)
	s.wantEnqueueable("0")
	plan := s.match("0")
	if len(plan.Required) != 1 || len(plan.Optional) != 1 {
		t.Errorf("plan = %d and %d pods, want one and as many more as there is room for", len(plan.Required), len(plan.Optional))
	}
	if free := s.reserve("1"); !slices.Equal(free, []string{"1"}) {
		t.Errorf("pods that may bind = %v, want the first that is reserved", free)
	}
}

func TestPolicyComesFromPodGroupOrPod(t *testing.T) {
	annotated := func(policy string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{group.MatchPolicyAnnotation: policy} }
	}
	cases := map[string]struct {
		podGroup, pod string
		want          string
		wantHolder    string
	}{
		"nobody names one":                  {"", "", match.PolicyLonode, ""},
		"the pods do":                       {"", match.PolicyLonodex, match.PolicyLonodex, key.String()},
		"the PodGroup goes before them":     {match.PolicyLonode, match.PolicyLonodex, match.PolicyLonode, ""},
		"the PodGroup wants whole nodes":    {match.PolicyLonodex, "", match.PolicyLonodex, key.String()},
		"the PodGroup wants the last whole": {match.PolicyHinodex, "", match.PolicyHinodex, key.String()},
		"the pods' is none, and not read":   {match.PolicyLonodex, "densest", match.PolicyLonodex, key.String()},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 1, Created: noon, Policy: tc.podGroup})
			s.add("0", annotated(tc.pod))
			if got, _ := s.Plan("0", s.now); got.Policy != tc.want || got.Holder != key.String() {
				t.Errorf("plan by policy %q for %q, want %q for %q", got.Policy, got.Holder, tc.want, key)
			}
			if got := s.HolderOf(s.pods["0"]); got != tc.wantHolder {
				t.Errorf("holder = %q, want %q", got, tc.wantHolder)
			}
		})
	}
}

func TestInvalidPolicyHoldsGroup(t *testing.T) {
	s := newStory(t)
	s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 1, Created: noon, Policy: "densest"})
	s.add("0")
	v := s.PreEnqueue("0", s.now)
	if v.Pass || v.Reason != reason.InvalidMatchPolicy || !strings.Contains(v.Message, `match-policy: "densest"`) {
		t.Errorf("verdict = %+v, want one that names the annotation and the value", v)
	}
	s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 1, Created: noon})
	s.update("0", objects.OnNode("n-0"))
	s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 1, Created: noon, Policy: "densest"})
	s.add("1")
	if v := s.PreEnqueue("1", s.now); v.Pass || v.Reason != reason.InvalidMatchPolicy {
		t.Errorf("verdict on a late member = %+v, want it held", v)
	}
}

func TestLonePodWithGroupSizeIsRefused(t *testing.T) {
	s := newStory(t)
	alone := func(labels map[string]string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Labels = maps.Clone(labels) }
	}
	s.add("a", alone(map[string]string{group.SizeLabel: "1"}))
	s.wantEnqueueable("a")
	for name, labels := range map[string]map[string]string{"b": {group.SizeLabel: "4"}, "c": {group.SizeLabel: "four"}} {
		s.add(name, alone(labels))
		v := s.PreEnqueue(types.UID(name), s.now)
		if v.Pass || v.Reason != reason.InvalidGroupSize || !strings.Contains(v.Message, group.SizeLabel) || !strings.Contains(v.Message, labels[group.SizeLabel]) {
			t.Errorf("verdict on %v = %+v, want one that names the label and the value", labels, v)
		}
	}
}

func TestTheCreationOfAGroupWithoutAPodGroupIsFrozenToo(t *testing.T) {
	s := newStory(t)
	s.Groups = New(seenOwners{ownerOfKind(replicaSet): ownerOfKind(deployment)}, match.PolicyLonode)
	s.add("0", func(p *corev1.Pod) {
		p.Labels = nil
		objects.OwnedBy(ownerOfKind(replicaSet))(p)
		p.CreationTimestamp = metav1.NewTime(noon)
	})
	before := s.Rank(s.pods["0"])
	s.PutPodGroup(before.Key, PodGroup{UID: "pg", MinMember: 1, Created: noon.Add(time.Hour)})
	if after := s.Rank(s.pods["0"]); after != before {
		t.Errorf("rank = %+v, was %+v", after, before)
	}
}

// A loss of assignments is reported, because no scheduling cycle reports it.
func TestRevokedAssignmentsAreReported(t *testing.T) {
	take := map[string]func(s *story, p Plan) Output{
		"the deadline passed":     func(s *story, _ Plan) Output { return s.RevokeExpired(s.now.Add(time.Hour)) },
		"a member was unreserved": func(s *story, _ Plan) Output { return s.Unreserve("0", s.now, "no") },
		"a cycle was lost":        func(s *story, p Plan) Output { return s.RevokeAbandoned("0", p.Job, s.now) },
		"a filter refused a node": func(s *story, _ Plan) Output { return s.FilterRejected("0", s.now, "no") },
	}
	for name, take := range take {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.gang(2, 2)
			e := take(s, s.match("0"))
			if len(e.Refusals) != 1 || e.Refusals[0].Reason == "" || e.Refusals[0].Message == "" {
				t.Errorf("told %+v, want one reason for the group", e.Refusals)
			}
			s.wantTentative(0)
		})
	}
}

func TestPlacedIsReportedAgainAfterReplacement(t *testing.T) {
	s := newStory(t)
	s.start(2)
	s.Placed()
	s.DropPod("1")
	delete(s.pods, "1")
	s.add("1b")
	s.update("1b", objects.OnNode("n-1"))
	if placed := s.Placed(); len(placed) != 1 {
		t.Errorf("placed = %+v, want that the group is whole again", placed)
	}
}

// Otherwise a group that has been refused more often comes later, whatever its rank.
func TestRefusalsEndTogether(t *testing.T) {
	other := types.NamespacedName{Namespace: "ns", Name: "younger"}
	s := newStory(t)
	s.start(2)
	s.DropPod("1")
	delete(s.pods, "1")
	s.add("1b")
	s.PutPodGroup(other, PodGroup{UID: "younger", MinMember: 1, Created: noon})
	s.add("y", objects.InGroup(other.Name))
	no := Refusal{Reason: "NoRoom", Message: "full", RetryOn: []Event{Released}}
	for range 5 {
		s.now = s.now.Add(7 * time.Millisecond)
		plan, _ := s.Plan("1b", s.now)
		s.Refuse(plan, no, s.now)
		s.ObserveEvent(Released)
		_, next := s.Due(s.now)
		s.now = next
		s.Due(s.now)
	}
	s.now = s.now.Truncate(minRetryPause).Add(time.Millisecond)
	late, _ := s.Plan("1b", s.now)
	young, _ := s.Plan("y", s.now)
	s.Refuse(young, no, s.now)
	s.Refuse(late, no, s.now.Add(minRetryPause))
	s.ObserveEvent(Released)
	_, next := s.Due(s.now)
	if keys, _ := s.Due(next); len(keys) != 2 {
		t.Errorf("due first are %v, want both groups", keys)
	}
}

// A pod that another plugin keeps out of the queue is not placed, and no other pod waits for it.
func TestGroupHeldByAnotherPluginIsNotReady(t *testing.T) {
	s := newStory(t)
	s.gang(1, 1)
	want := func(when string, want bool) {
		t.Helper()
		if got := len(s.ReadyNamespaces(s.now)) > 0; got != want {
			t.Errorf("%s: a group may ask: %v, want %v", when, got, want)
		}
	}
	want("before this plugin was asked, as where another one is first and holds it", false)
	s.PreEnqueue("0", s.now)
	want("before the others were asked", false)
	s.ObserveOtherPlugins("0", true)
	want("let pass", true)
	s.ObserveOtherPlugins("0", false)
	want("held", false)
	s.ObserveOtherPlugins("0", true)
	plan, _ := s.Plan("0", s.now)
	s.Refuse(plan, Refusal{RetryOn: []Event{Released}}, s.now)
	s.ObserveEvent(Released)
	s.now = s.now.Add(time.Minute)
	s.Due(s.now)
	want("refused, and not in the queue again", false)
}

// However many groups of a namespace were refused with RetryAfter, one of them retries at a time,
// the first in the order of the queue. Groups of other namespaces retry when their time has come.
func TestThrottledGroupsRetryOneAtATime(t *testing.T) {
	const groups = 30
	s := newStory(t)
	refuse := func(namespace string, i int) {
		p := s.pods["x"].DeepCopy()
		p.Namespace, p.Name = namespace, fmt.Sprintf("%s-%02d", namespace, i)
		p.UID, p.Labels = types.UID(p.Name), nil
		p.CreationTimestamp = metav1.NewTime(noon.Add(time.Duration(groups-i) * time.Second))
		s.PutPod(p)
		plan, _ := s.Plan(p.UID, s.now)
		s.Refuse(plan, Refusal{Reason: "Throttled", RetryAfter: time.Minute, WaitsFor: WaitsForThrottle}, s.now)
	}
	s.add("x")
	for i := range groups {
		refuse("many", i)
	}
	refuse("one", 0)
	if keys, next := s.Due(s.now); len(keys) != 0 || !next.Equal(s.now.Add(time.Minute)) {
		t.Fatalf("%v are due, and the next at %v, want none for a minute", keys, next)
	}
	s.now = s.now.Add(time.Minute)
	var order []string
	for step := 0; len(order) < groups; step++ {
		keys, next := s.Due(s.now)
		ones := 0
		for _, k := range keys {
			if k.Namespace == "one" {
				ones++
				continue
			}
			order = append(order, strings.Split(k.Name, "/")[1]) // "pod/NAME/UID"
		}
		if wantOnes := max(0, 1-step); ones != wantOnes || len(keys) != 1+wantOnes {
			t.Fatalf("step %d: %v are due, want one of each namespace that has some", step, keys)
		}
		if again, _ := s.Due(s.now); len(again) != 0 {
			t.Fatalf("step %d: at the same time %v are due too", step, again)
		}
		if len(order) < groups && !next.Equal(s.now.Add(retryStep)) {
			t.Fatalf("step %d: the next is due at %v, want it %v later", step, next, retryStep)
		}
		s.now = s.now.Add(retryStep)
	}
	for i, name := range order {
		if want := fmt.Sprintf("many-%02d", groups-1-i); name != want {
			t.Fatalf("the groups asked in the order %v, want the oldest first", order)
		}
	}
	if s.Due(s.now); len(s.retryPaces) != 0 {
		t.Errorf("of namespaces without such groups is kept %v", s.retryPaces)
	}
}

// Groups of a namespace that were refused with RetryAfter retry the faster the more of them
// find nodes. If one is refused with RetryAfter once more, they retry one at a time again.
func TestPaceGrowsWithAttempts(t *testing.T) {
	const groups = 400
	s := newStory(t)
	s.add("x")
	refuse := func(p *corev1.Pod) {
		plan, _ := s.Plan(p.UID, s.now)
		s.Refuse(plan, Refusal{Reason: "Throttled", RetryAfter: time.Minute, WaitsFor: WaitsForThrottle}, s.now)
	}
	pods := map[string]*corev1.Pod{}
	for i := range groups {
		p := s.pods["x"].DeepCopy()
		p.Namespace, p.Name, p.Labels = "many", fmt.Sprintf("many-%03d", i), nil
		p.UID, p.CreationTimestamp = types.UID(p.Name), metav1.NewTime(noon.Add(time.Duration(i)*time.Second))
		pods[p.Name] = p
		s.PutPod(p)
		refuse(p)
	}
	s.now = s.now.Add(time.Minute)
	var steps []int
	var last []types.NamespacedName
	step := func() {
		last, _ = s.Due(s.now)
		steps = append(steps, len(last))
		s.now = s.now.Add(retryStep)
	}
	match := func(key types.NamespacedName) {
		p := pods[strings.Split(key.Name, "/")[1]]
		plan, _ := s.Plan(p.UID, s.now)
		if _, _, _, err := s.Assign(plan, []match.Slot{{Key: string(p.UID), Node: "n"}}, s.now.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	for len(steps) < 8 {
		step()
		for _, key := range last {
			match(key)
		}
	}
	step()
	refuse(pods[strings.Split(last[0].Name, "/")[1]])
	for range 2 {
		step()
	}
	if want := []int{1, 2, 4, 8, 16, 32, maxRetries, maxRetries, maxRetries, 1, 1}; !slices.Equal(steps, want) {
		t.Errorf("at each step so many groups returned: %v, want %v", steps, want)
	}
}

// While a namespace is throttled, events do not let its old groups that lack room take all the
// attempts: a new group is tried although older ones may retry, and so is each of the others.
func TestANewGroupOfAThrottledNamespaceIsTried(t *testing.T) {
	const groups = 200
	s := newStory(t)
	s.add("x")
	attempt := func(name string, r Refusal) {
		plan, _ := s.Plan(types.UID(name), s.now)
		s.Refuse(plan, r, s.now)
	}
	noRoom, throttled := Refusal{Reason: "NoRoom", WaitsFor: WaitsForRoom, RetryOn: []Event{Released}}, Refusal{Reason: "Throttled", RetryAfter: time.Second, WaitsFor: WaitsForThrottle}
	put := func(i int, r Refusal) {
		p := s.pods["x"].DeepCopy()
		p.Namespace, p.Name, p.Labels = "many", fmt.Sprintf("many-%03d", i), nil
		p.UID, p.CreationTimestamp = types.UID(p.Name), metav1.NewTime(noon.Add(time.Duration(i)*time.Second))
		s.PutPod(p)
		attempt(p.Name, r)
	}
	for i := range groups {
		put(i, noRoom)
	}
	put(groups, throttled)

	// Of three attempts of old groups the last is throttled. A pod ends at each step.
	tried, attempts := map[string]int{}, 0
	for step := range 10 * groups {
		s.now = s.now.Add(retryStep)
		s.ObserveEvent(Released)
		keys, _ := s.Due(s.now)
		for _, key := range keys {
			name := strings.Split(key.Name, "/")[1]
			if _, ok := tried[name]; !ok {
				tried[name] = step
			}
			if attempts++; attempts%3 == 0 {
				attempt(name, throttled)
			} else {
				attempt(name, noRoom)
			}
		}
	}
	if at, ok := tried["many-200"]; !ok || at > 30 {
		t.Errorf("the new group was tried at step %d (%t), want it within a second and some steps", at, ok)
	}
	if len(tried) != groups+1 {
		t.Errorf("%d groups were tried, want all %d", len(tried), groups+1)
	}
}

// Of the groups of a throttled namespace, one whose attempt failed is not taken for one that was
// never tried, even if it was told when to retry. A throttled group was not tried.
func TestOnlyAttemptsCountAsTried(t *testing.T) {
	for _, waitsFor := range []WaitsFor{WaitsForThrottle, WaitsForOther} {
		s := newStory(t)
		s.gang(1, 1)
		s.refuse("0", Refusal{Reason: "TooHard", RetryAfter: time.Minute, WaitsFor: waitsFor})
		if tried, want := !s.members["0"].group.lastRefusedAttempt.IsZero(), waitsFor != WaitsForThrottle; tried != want {
			t.Errorf("a refusal that waits for %d counts as an attempt: %t, want %t", waitsFor, tried, want)
		}
	}
}

// A namespace is throttled until the last of its groups may retry, also where a
// backoff is longer than RetryAfter. An attempt that finds no room lets one more group retry.
func TestPaceOfAThrottledNamespace(t *testing.T) {
	s := newStory(t)
	s.gang(1, 1)
	s.members["0"].group.failures = 5
	s.refuse("0", Refusal{Reason: "TooHard", Backoff: true, RetryAfter: time.Second})
	p := s.retryPaces[key.Namespace]
	if want := s.now.Add(32 * time.Second); !p.until.Equal(want) || p.max != 1 {
		t.Errorf("throttled until %v, %d at a time; want %v, 1", p.until, p.max, want)
	}
	s.now = s.now.Add(32 * time.Second)
	s.Due(s.now)
	s.refuse("0", Refusal{Reason: "NoRoom", WaitsFor: WaitsForRoom})
	if p.max != 2 {
		t.Errorf("after an attempt %d groups may retry, want 2", p.max)
	}
}

// Late members that were refused together retry together, however many they are.
func TestLateMembersRefusedTogetherRetryTogether(t *testing.T) {
	s := newStory(t)
	s.gang(1, 1)
	s.run("0")
	for _, name := range []string{"1", "2", "3"} {
		s.add(name)
	}
	p, _ := s.Plan("1", s.now)
	s.Refuse(p, Refusal{Reason: "Throttled", RetryAfter: time.Minute, AlsoRefused: []types.UID{"2", "3"}}, s.now)
	s.now = s.now.Add(time.Minute)
	if keys, next := s.Due(s.now); !slices.Equal(keys, []types.NamespacedName{key}) || !next.IsZero() {
		t.Errorf("%v are due, and more at %v, want the group at once", keys, next)
	}
	if p, _ := s.Plan("1", s.now); len(p.Optional) != 2 {
		t.Errorf("it asks for %v beside itself, want both that were refused with it", names(p.Optional))
	}
}
