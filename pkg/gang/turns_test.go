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
	"github.com/flux-k8s/fluence/test/objects"
)

// minute is how long groups in these stories may be passed.
const minute = time.Minute

// addLonePod makes a pod that is a group by itself.
func (s *story) addLonePod(name string, priority int32) {
	s.add(name, func(p *corev1.Pod) { p.Labels, p.Spec.Priority = nil, &priority })
}

// refuse makes a Plan for a pod, and refuses it.
func (s *story) refuse(name string, r Refusal) {
	s.Helper()
	r.RetryOn = []Event{Released}
	p, _ := s.Plan(types.UID(name), s.now)
	if p.Job == 0 {
		s.Fatalf("pod %s has nothing to ask for: %+v", name, p)
	}
	s.Refuse(p, r, s.now)
}

// refuseAgain refuses the first pod, which was refused before, once more after a while.
func (s *story) refuseAgain(r Refusal) {
	s.Helper()
	s.ObserveEvent(Released)
	s.now = s.now.Add(2 * time.Second)
	s.Due(s.now)
	s.refuse("0", r)
}

var (
	noRoom   = Refusal{Reason: "NoRoom", Message: "no room", WaitsFor: WaitsForRoom}
	never    = Refusal{Reason: "NeverFits", Message: "never"}
	noAnswer = Refusal{Reason: "Away", Message: "no answer", WaitsFor: WaitsForAnswer}
)

func (s *story) wantStarving(want ...string) {
	s.Helper()
	var got []string
	for _, h := range s.Starving(s.now, minute) {
		got = append(got, h.Key.Name)
	}
	if !slices.Equal(got, want) {
		s.Errorf("overdue: %v, want %v", got, want)
	}
}

func TestRoomSinceIsFirstRefusalInARow(t *testing.T) {
	cases := map[string]struct {
		play func(s *story)
		want []string
	}{
		"refused once, and a minute ago":        {play: func(s *story) { s.refuse("0", noRoom) }, want: []string{"g"}},
		"refused again and again":               {play: func(s *story) { s.refuse("0", noRoom); s.refuseAgain(noRoom); s.refuseAgain(noRoom) }, want: []string{"g"}},
		"an engine that did not answer between": {play: func(s *story) { s.refuse("0", noRoom); s.refuseAgain(noAnswer) }, want: []string{"g"}},
		"never refused for want of room":        {play: func(s *story) { s.refuse("0", noAnswer) }},
		"refused for something else":            {play: func(s *story) { s.refuse("0", never) }},
		"refused for something else last":       {play: func(s *story) { s.refuse("0", noRoom); s.refuseAgain(never) }},
		"refused for something else between": {play: func(s *story) {
			s.refuse("0", noRoom)
			s.refuseAgain(never)
			s.refuseAgain(noRoom)
		}},
		"no node is large enough between, for what runs on every node": {play: func(s *story) {
			s.refuse("0", noRoom)
			s.refuseAgain(Refusal{Reason: "NeverFits", WaitsFor: WaitsForNodes})
			s.wantStarving()
			s.refuseAgain(noRoom)
		}, want: []string{"g"}},
		"no node is large enough": {play: func(s *story) {
			s.refuse("0", noRoom)
			s.refuseAgain(Refusal{Reason: "NeverFits", WaitsFor: WaitsForNodes})
		}},
		"it lacks a pod": {play: func(s *story) { s.refuse("0", noRoom); s.DropPod("1") }},
		"a pod of it is gated": {play: func(s *story) {
			s.refuse("0", noRoom)
			s.update("1", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "wait"}} })
		}},
		"it is matched, and may not start after all": {play: func(s *story) { s.refuse("0", noRoom); s.clearRefusals("g"); s.match("0") }, want: []string{"g"}},
		"the node that it was matched with was refused": {play: func(s *story) {
			s.refuse("0", noRoom)
			s.clearRefusals("g")
			s.match("0")
			s.FilterRejected("0", s.now, "Insufficient cpu")
		}, want: []string{"g"}},
		"it has started, and others are late": {play: func(s *story) {
			s.refuse("0", noRoom)
			s.clearRefusals("g")
			s.match("0")
			s.reserveAndBind("0", "1")
			s.add("2")
			s.add("3")
			s.refuse("2", noRoom)
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.gang(2, 2)
			tc.play(s)
			s.wantStarving()
			s.now = noon.Add(minute)
			s.wantStarving(tc.want...)
		})
	}
}

func TestWaitingTimeIsRestoredFromPodGroup(t *testing.T) {
	cases := map[string]struct {
		play func(s *story)
		want []string
	}{
		"and waits for this one":              {play: func(s *story) { s.refuse("0", noRoom) }, want: []string{"g"}},
		"which then says what it is told":     {play: func(s *story) { s.refuse("0", noRoom); s.RestoreWaitingSince(key, s.now) }, want: []string{"g"}},
		"and waits for something else by now": {play: func(s *story) { s.refuse("0", never); s.refuseAgain(noRoom) }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.gang(2, 2)
			s.RestoreWaitingSince(key, noon.Add(-minute))
			s.wantStarving()
			tc.play(s)
			s.wantStarving(tc.want...)
		})
	}
}

// The PodGroup's time of waiting after a refusal by this scheduler is not taken
// for the time of a scheduler before it. A time that was taken over stays.
func TestOwnRefusalIsNotRestoredAsWaitingTime(t *testing.T) {
	for name, r := range map[string]Refusal{
		"it never fits": {Reason: "NeverFits", WaitsFor: WaitsForNodes}, "nobody knows": {Reason: "MatcherUnavailable", WaitsFor: WaitsForAnswer},
		"the filters refuse": {Reason: "Filters", Backoff: true},
	} {
		for _, took := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, taken over: %t", name, took), func(t *testing.T) {
				s := newStory(t)
				s.gang(2, 2)
				if took {
					s.RestoreWaitingSince(key, noon.Add(-minute))
				}
				s.refuse("0", r)
				s.RestoreWaitingSince(key, s.now)
				s.now = s.now.Add(2 * minute)
				s.refuseAgain(noRoom)
				if !took {
					s.wantStarving()
					return
				}
				s.wantStarving("g")
			})
		}
	}
}

// clearRefusals lets a group retry at once.
func (s *story) clearRefusals(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups[types.NamespacedName{Namespace: key.Namespace, Name: name}].clearRefusals()
}

func TestStarvingReturnsFirstGroupOfEachPriority(t *testing.T) {
	s := newStory(t)
	for name, priority := range map[string]int32{"a": 0, "b": 0, "c": 5, "d": -5, "e": 5} {
		s.addLonePod(name, priority)
		s.update(name, func(p *corev1.Pod) { p.CreationTimestamp.Time = noon.Add(time.Duration(name[0]) * time.Second) })
	}
	heads := func() string {
		var all []string
		for _, h := range s.Starving(s.now, minute) {
			all = append(all, strings.Split(h.Key.Name, "/")[1])
		}
		return strings.Join(all, " ")
	}
	for _, step := range []struct{ refused, want string }{
		{"b", "b"}, {"d", "b d"}, {"e", "e b d"}, {"a", "e a d"}, {"c", "c a d"},
	} {
		s.refuse(step.refused, noRoom)
		s.now = s.now.Add(minute)
		if got := heads(); got != step.want {
			t.Errorf("after the refusal of %s the heads are %q, want %q", step.refused, got, step.want)
		}
	}
	s.DropPod("c")
	if got := heads(); got != "e a d" {
		t.Errorf("without c the heads are %q", got)
	}
}

// A pod with a scheduling gate comes after a pod that was created before the gate was removed.
// That applies in the queue, among the groups that wait for room, and in another group.
func TestPodWaitsSinceItsGatesWereRemoved(t *testing.T) {
	s := newStory(t)
	s.addLonePod("a", 0)
	s.update("a", func(p *corev1.Pod) {
		p.CreationTimestamp.Time, p.Spec.SchedulingGates = noon, []corev1.PodSchedulingGate{{Name: "g"}}
	})
	s.Rank(s.pods["a"]) // to look at it freezes nothing while it is gated
	s.addLonePod("b", 0)
	s.update("b", func(p *corev1.Pod) { p.CreationTimestamp.Time = noon.Add(10 * time.Second) })
	s.now = noon.Add(minute)
	s.update("a", func(p *corev1.Pod) { p.Spec.SchedulingGates = nil })
	first := func(when string) {
		t.Helper()
		if a, b := s.Rank(s.pods["a"]), s.Rank(s.pods["b"]); !b.Less(a) {
			t.Errorf("%s: a is before b: %+v, %+v", when, a, b)
		}
	}
	first("when its gate has gone")
	s.refuse("a", noRoom)
	s.refuse("b", noRoom)
	s.now = s.now.Add(minute)
	if heads := s.Starving(s.now, minute); len(heads) != 1 || heads[0].Rank.Pod != "b" {
		t.Errorf("the heads are %+v, want b", heads)
	}
	s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 1, Created: noon})
	s.update("a", objects.InGroup(key.Name))
	s.add("c", func(p *corev1.Pod) { p.CreationTimestamp.Time = noon.Add(20 * time.Second) })
	s.DropPod("c")
	first("in another group")
}

// A group that lost a pod while it was complete is eligible from when another pod has come.
func TestGroupIsEligibleSinceItIsComplete(t *testing.T) {
	s := newStory(t)
	s.gang(2, 2)
	s.addLonePod("z", 0)
	s.update("z", func(p *corev1.Pod) { p.CreationTimestamp.Time = noon.Add(10 * time.Second) })
	s.PreEnqueue("0", s.now)
	s.DropPod("1")
	s.now = noon.Add(minute)
	s.add("2", func(p *corev1.Pod) { p.CreationTimestamp.Time = noon.Add(time.Second) })
	s.refuse("0", noRoom)
	s.refuse("z", noRoom)
	s.now = s.now.Add(minute)
	if heads := s.Starving(s.now, minute); len(heads) != 1 || heads[0].Rank.Pod != "z" {
		t.Errorf("the heads are %+v, want z: the group was complete later", heads)
	}
}

// At its start the scheduler reads the pods and PodGroups that are there one after the other. What it has not read yet is
// nothing that a group lacks.
func TestAGroupKeepsItsPlaceWhileTheSchedulerReads(t *testing.T) {
	s := newStory(t)
	s.now = noon.Add(minute)
	s.gang(2, 1)
	s.addLonePod("z", 0)
	s.update("z", func(p *corev1.Pod) { p.CreationTimestamp.Time = noon.Add(time.Second) })
	if v := s.PreEnqueue("0", s.now); v.Pass {
		t.Fatal("the group passes without its second pod")
	}
	s.add("1")
	s.PreEnqueue("0", s.now)
	s.MarkSynced()
	s.refuse("0", noRoom)
	s.refuse("z", noRoom)
	s.now = s.now.Add(minute)
	if heads := s.Starving(s.now, minute); len(heads) != 1 || heads[0].Rank.Pod != "0" {
		t.Errorf("the heads are %+v, want 0: it is older", heads)
	}
}

// The pods of a group are made within some seconds. A younger group gets no turn before it by that.
func TestAGroupKeepsItsPlaceWhileItsPodsAreMade(t *testing.T) {
	for after, first := range map[time.Duration]string{gatheringTime: "0", gatheringTime + time.Second: "z"} {
		s := newStory(t)
		s.gang(2, 1)
		s.addLonePod("z", 0)
		s.update("z", func(p *corev1.Pod) { p.CreationTimestamp.Time = noon.Add(time.Second) })
		// The group is seen without this pod first.
		if v := s.PreEnqueue("0", s.now); v.Pass {
			t.Fatal("the group passes without its second pod")
		}
		s.now = noon.Add(after)
		s.add("1", func(p *corev1.Pod) { p.CreationTimestamp.Time = noon.Add(after) })
		s.refuse("0", noRoom)
		s.refuse("z", noRoom)
		s.now = s.now.Add(minute)
		if heads := s.Starving(s.now, minute); len(heads) != 1 || heads[0].Rank.Pod != first {
			t.Errorf("with a pod %v later the heads are %+v, want %s", after, heads, first)
		}
	}
}

// elsewhere puts a pod into another namespace.
func elsewhere(p *corev1.Pod) { p.Namespace = "elsewhere" }

// addLonePodAt makes a pod that is a group by itself, some seconds after noon.
func (s *story) addLonePodAt(name string, priority int32, second int, edit ...func(*corev1.Pod)) {
	s.add(name, append(edit, func(p *corev1.Pod) {
		p.Labels, p.Spec.Priority = nil, &priority
		p.CreationTimestamp.Time = noon.Add(time.Duration(second) * time.Second)
	})...)
}

func lonePodKey(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: "pod/" + name + "/" + name}
}

// Groups of one namespace take no turn from groups of another.
func TestStarvingReturnsOneGroupPerNamespace(t *testing.T) {
	s := newStory(t)
	s.addLonePodAt("first", 0, 0)
	s.addLonePodAt("second", 0, 1)
	s.addLonePodAt("other", 0, 2, elsewhere)
	for _, name := range []string{"second", "other", "first"} {
		s.refuse(name, noRoom)
	}
	s.now = s.now.Add(minute)
	s.wantStarving("pod/first/first", "pod/other/other")
}

// A group that is refused now may have nodes reserved if Starving returns it from then on.
func TestIsFirstStarving(t *testing.T) {
	cases := map[string]struct {
		before  func(s *story)
		after   time.Duration
		want    bool
		refused time.Duration // how long ago it was first refused; 0 if it was not
	}{
		"for the first time":                {after: minute},
		"for the first time, at once":       {want: true},
		"a while later":                     {after: minute, refused: minute, want: true},
		"a moment later":                    {after: minute, refused: minute - 1},
		"as another scheduler says":         {before: func(s *story) { s.RestoreWaitingSince(lonePodKey("it"), s.now.Add(-minute)) }, after: minute, want: true},
		"behind one before it":              {before: func(s *story) { s.addLonePodAt("o", 0, 1); s.refuse("o", noRoom) }, after: minute, refused: minute},
		"behind one that has to wait yet":   {before: func(s *story) { s.addLonePodAt("o", 0, 1); s.now = s.now.Add(1); s.refuse("o", noRoom) }, after: minute, refused: minute, want: true},
		"behind one that lacks no room":     {before: func(s *story) { s.addLonePodAt("o", 0, 1); s.refuse("o", noRoom); s.refuseForGood("o") }, after: minute, refused: minute, want: true},
		"before one after it":               {before: func(s *story) { s.addLonePodAt("o", 0, 3); s.refuse("o", noRoom) }, after: minute, refused: minute, want: true},
		"beside one of another namespace":   {before: func(s *story) { s.addLonePodAt("o", 0, 1, elsewhere); s.refuse("o", noRoom) }, after: minute, refused: minute, want: true},
		"beside one of a higher priority":   {before: func(s *story) { s.addLonePodAt("o", 5, 1); s.refuse("o", noRoom) }, after: minute, refused: minute, want: true},
		"nobody of it could be placed":      {before: func(s *story) { s.update("it", objects.InPhase(corev1.PodFailed)) }},
		"it has started":                    {before: func(s *story) { s.update("it", objects.OnNode("n")) }},
		"it has started, with another late": {before: func(s *story) { s.add("0", objects.OnNode("n")); s.move("it", key.Name) }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.addLonePodAt("it", 0, 2)
			if tc.refused > 0 {
				s.refuse("it", noRoom)
			}
			if tc.before != nil {
				tc.before(s)
			}
			s.now = noon.Add(tc.refused)
			it := lonePodKey("it")
			if m, ok := s.GroupOf("it"); ok {
				it = m.Key
			}
			if got := s.IsFirstStarving(it, s.now, tc.after); got != tc.want {
				t.Errorf("it is the head: %t, want %t", got, tc.want)
			}
		})
	}
}

// refuseForGood lets a pod that was refused retry, and refuses it for good.
func (s *story) refuseForGood(name string) {
	s.Helper()
	s.mu.Lock()
	s.groups[s.members[types.UID(name)].group.key].clearRefusals()
	s.mu.Unlock()
	s.refuse(name, never)
}

// move has a pod join a group.
func (s *story) move(name, to string) {
	s.update(name, func(p *corev1.Pod) { p.Labels = map[string]string{group.Label: to} })
}

// The progress of a reservation depends on the nodes that its group runs on.
func TestNodesOf(t *testing.T) {
	s := newStory(t)
	s.gang(2, 2)
	if got := append(s.NodesOf(key), s.NodesOf(types.NamespacedName{Name: "nobody"})...); len(got) > 0 {
		t.Errorf("a group that waits, or is not there, runs on %v", got)
	}
	s.run("0", "1")
	if got := s.NodesOf(key); len(got) != 2 {
		t.Errorf("a group of two pods runs on %v", got)
	}
}

// RetryNow ends a refusal for room, and no other.
func TestRetryNow(t *testing.T) {
	for name, tc := range map[string]struct {
		refusal Refusal
		asks    bool
	}{"for want of room": {noRoom, true}, "for something else": {never, false}, "without an answer": {noAnswer, false}} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.gang(1, 1)
			s.refuse("0", tc.refusal)
			s.RetryNow(key)
			if got := s.MayPlace(key, s.now); got != tc.asks {
				t.Errorf("it may ask: %t, want %t", got, tc.asks)
			}
		})
	}
}

// Members of a started group that were refused for lack of room ask again too, and no others.
func TestRetryNowOfLateMembers(t *testing.T) {
	s := newStory(t)
	s.start(2)
	s.add("2")
	s.refuse("2", noRoom)
	s.addLonePodAt("other", 0, 0, elsewhere)
	s.refuse("other", noRoom)
	s.RetryNow(key)
	if !s.PreEnqueue("2", s.now).Pass || s.PreEnqueue("other", s.now).Pass {
		t.Errorf("the member may ask: %t, want true; another group may ask: %t, want false", s.PreEnqueue("2", s.now).Pass, s.PreEnqueue("other", s.now).Pass)
	}
}

// The priority of a namespace is the highest of its groups that may be placed now.
func TestReadyNamespaces(t *testing.T) {
	s := newStory(t)
	want := func(why string, want ...ReadyNamespace) {
		s.Helper()
		if got := s.ReadyNamespaces(s.now); !slices.Equal(got, want) {
			s.Errorf("%s: %v may ask, want %v", why, got, want)
		}
	}
	s.gang(1, 1)
	s.ObserveOtherPlugins("0", true)
	own := ReadyNamespace{key.Namespace, 0}
	want("the own group", own)
	s.addLonePodAt("high", 7, 0, elsewhere)
	s.addLonePodAt("low", -3, 0, elsewhere)
	want("groups that other plugins hold", own)
	s.ObserveOtherPlugins("high", true)
	s.ObserveOtherPlugins("low", true)
	want("groups of another namespace", ReadyNamespace{"elsewhere", 7}, own)
	s.refuse("high", noRoom)
	want("once the higher was refused", own, ReadyNamespace{"elsewhere", -3})
	s.refuse("low", noRoom)
	want("once all were", own)
}

func TestPriorityOf(t *testing.T) {
	s := newStory(t)
	s.addLonePodAt("a", 7, 0)
	if got := s.PriorityOf(lonePodKey("a")); got != 7 {
		t.Errorf("the priority is %d, want 7", got)
	}
	if got := s.PriorityOf(key); got != 0 {
		t.Errorf("that of nobody is %d", got)
	}
}

// A change of the request lets a group retry, if its last refusal allows that. What
// the scheduler itself writes is no such change, nor is a change of pods that run.
func TestChangesThatLetARefusedGroupRetry(t *testing.T) {
	hard := Refusal{Reason: "TooHard", Message: "hard", Backoff: true, LongBackoff: true}
	throttled := Refusal{Reason: "Throttled", RetryAfter: 5 * time.Second, WaitsFor: WaitsForThrottle}
	label := func(p *corev1.Pod) { p.Labels["other"] = "thing" }
	cases := map[string]struct {
		refusal Refusal
		change  func(s *story)
		asks    bool
	}{
		"an annotation, and no room": {noRoom, func(s *story) { s.update("0", annotated("other", "thing")) }, true},
		"a label, and no room":       {noRoom, func(s *story) { s.update("0", label) }, false},
		"a label, and too hard":      {hard, func(s *story) { s.update("0", label) }, true},
		"a generation, and too hard": {hard, func(s *story) { s.update("0", func(p *corev1.Pod) { p.Generation++ }) }, true},
		"a pod more, and too hard":   {hard, func(s *story) { s.add("1") }, true},
		"a pod more, and no room":    {noRoom, func(s *story) { s.add("1") }, false},
		"a pod fewer, and too hard":  {hard, func(s *story) { s.DropPod("more"); delete(s.pods, "more") }, true},
		"a pod fewer, and no room":   {noRoom, func(s *story) { s.DropPod("more"); delete(s.pods, "more") }, false},
		"an event, and no room":      {noRoom, func(s *story) { s.ObserveEvent(Released); s.now = s.now.Add(time.Second) }, true},
		"an event, and too hard":     {hard, func(s *story) { s.ObserveEvent(Released); s.now = s.now.Add(time.Second - 1) }, false},
		"a pod on a node comes":      {hard, func(s *story) { s.add("1", objects.InPhase(corev1.PodFailed), objects.OnNode("n")) }, false},
		"a pod that has ended goes":  {hard, func(s *story) { s.DropPod("ended"); delete(s.pods, "ended") }, false},
		"a pod on its way out":       {hard, func(s *story) { s.update("more", s.terminating) }, true},
		"an annotation, too hard":    {hard, func(s *story) { s.update("0", annotated("other", "thing")) }, true},
		"the PodGroup, too hard":     {hard, func(s *story) { s.PutPodGroup(key, pgOf(1, func(pg *PodGroup) { pg.Policy = match.PolicyHigh })) }, true},
		"a pod that has ended":       {hard, func(s *story) { s.update("ended", label) }, false},
		"the PodGroup's own words":   {noRoom, func(s *story) { s.PutPodGroup(key, pgOf(1, func(pg *PodGroup) { pg.Policy = match.PolicyHigh })) }, true},
		"the scheduler's words on it": {noRoom, func(s *story) {
			s.PutPodGroup(key, pgOf(1, func(pg *PodGroup) { pg.Exclusivity, pg.ExclusivitySince = Shared, noon }))
		}, false},
		"an event, and throttled":        {throttled, func(s *story) { s.ObserveEvent(Released); s.now = s.now.Add(5*time.Second - 1) }, false},
		"the time of one throttled":      {throttled, func(s *story) { s.now = s.now.Add(5 * time.Second) }, true},
		"an annotation of one throttled": {throttled, func(s *story) { s.update("0", annotated("other", "thing")) }, false},
		"a PodGroup of one throttled":    {throttled, func(s *story) { s.PutPodGroup(key, pgOf(2)) }, false},
		"that, and its time": {throttled, func(s *story) {
			s.PutPodGroup(key, pgOf(2))
			s.now = s.now.Add(5 * time.Second)
		}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.PutPodGroup(key, pgOf(1))
			s.add("0")
			s.add("more")
			s.add("ended", objects.InPhase(corev1.PodFailed))
			if tc.refusal.LongBackoff {
				s.refuseTooHard("0", 5)
			}
			s.refuse("0", tc.refusal)
			tc.change(s)
			if tc.refusal.LongBackoff {
				s.now = s.now.Add(minLongBackoff)
			}
			if got := s.MayPlace(key, s.now); got != tc.asks {
				t.Errorf("it may ask: %t, want %t", got, tc.asks)
			}
		})
	}
}

// refuseTooHard refuses a group, or a late member, some times
// for too much work, and lets the delay of each pass.
func (s *story) refuseTooHard(pod string, times int) {
	for i := range times {
		s.refuse(pod, Refusal{Reason: "TooHard", Backoff: true, LongBackoff: true})
		s.now = s.now.Add(time.Second << i)
	}
}

// A user who changes a group again and again does not have it matched
// as often, nor without regard to earlier refusals for too much work.
func TestChangesDoNotResetLongBackoff(t *testing.T) {
	n := 0
	for name, change := range map[string]func(s *story){
		"pods come and go":   func(s *story) { s.add("x"); s.DropPod("x"); delete(s.pods, "x") },
		"annotations":        func(s *story) { n++; s.update("0", annotated("n", fmt.Sprint(n))) },
		"labels":             func(s *story) { n++; s.update("0", func(p *corev1.Pod) { p.Labels["n"] = fmt.Sprint(n) }) },
		"the PodGroup":       func(s *story) { n++; s.PutPodGroup(key, pgOf(1, func(pg *PodGroup) { pg.Timeout = time.Duration(n) })) },
		"nothing, all along": func(*story) {},
	} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, late: %t", name, late), func(t *testing.T) {
				s := newStory(t)
				s.gang(1, 1)
				if late {
					s.run("0")
					s.add("0b")
					delete(s.pods, "0")
					s.pods["0"] = s.pods["0b"]
				}
				asker := s.pods["0"].Name
				s.refuseTooHard(asker, 9)
				asked := 0
				for range 1024 {
					change(s)
					if s.MayPlace(key, s.now) {
						asked++
						// A refusal in between does not change that.
						s.refuse(asker, Refusal{Reason: "Throttled", RetryAfter: time.Nanosecond, WaitsFor: WaitsForThrottle})
						change(s)
						s.now = s.now.Add(time.Nanosecond)
						s.refuse(asker, Refusal{Reason: "TooHard", Backoff: true, LongBackoff: true})
					}
					s.now = s.now.Add(time.Second)
				}
				want := 1024/10 + 1
				if name == "nothing, all along" {
					want = 2
				}
				if asked > want {
					t.Errorf("it was asked for %d times in 1024 s, want %d at most", asked, want)
				}
				s.now = s.now.Add(time.Hour)
				s.MayPlace(key, s.now)
				s.refuse(asker, Refusal{Reason: "TooHard", Backoff: true, LongBackoff: true})
				s.now = s.now.Add(10*time.Minute - 1)
				if s.MayPlace(key, s.now) {
					t.Error("it is asked for as if it had not been refused for long")
				}
			})
		}
	}
}

// Each refusal for too much work doubles the delay, up to ten minutes, and no event shortens it.
func TestLongBackoffDoubles(t *testing.T) {
	s := newStory(t)
	s.gang(1, 1)
	for i := range 13 {
		s.refuse("0", Refusal{Reason: "TooHard", Backoff: true, LongBackoff: true})
		want := min(10*time.Minute, time.Second<<i)
		s.now = s.now.Add(want - 1)
		s.ObserveEvent(Released)
		if s.MayPlace(key, s.now) {
			t.Errorf("after refusal %d it may ask before %s have passed", i+1, want)
		}
		if s.now = s.now.Add(1); !s.MayPlace(key, s.now) {
			t.Fatalf("after refusal %d it may not ask after %s", i+1, want)
		}
	}
}

// A backoff may have a shortest delay, which no change of the group ends.
func TestABackoffHasAShortestTime(t *testing.T) {
	s := newStory(t)
	s.gang(1, 1)
	for i, want := range []time.Duration{10, 10, 10, 10, 10, 16, 32, 60} {
		s.refuse("0", Refusal{Reason: "TooHard", Backoff: true, RetryAfter: 10 * time.Second})
		if i == 0 {
			s.ObserveEvent(Released)
			s.PutPodGroup(key, pgOf(1, func(pg *PodGroup) { pg.Timeout = time.Second }))
		}
		s.now = s.now.Add(want*time.Second - 1)
		if s.MayPlace(key, s.now) {
			t.Errorf("after refusal %d it may ask before %d seconds have passed", i+1, want)
		}
		if s.now = s.now.Add(1); !s.MayPlace(key, s.now) {
			t.Fatalf("after refusal %d it may not ask after %d seconds", i+1, want)
		}
	}
}

// A refusal before a change does not make the group wait longer after it.
func TestABackoffBeginsAnewForAnotherRequest(t *testing.T) {
	s := newStory(t)
	s.gang(1, 1)
	r := Refusal{Reason: "Filtered", Backoff: true}
	for range 4 {
		s.refuse("0", r)
		s.now = s.now.Add(time.Minute)
	}
	s.update("0", annotated("other", "thing"))
	s.refuse("0", r)
	s.now = s.now.Add(time.Second)
	if !s.MayPlace(key, s.now) {
		t.Error("it may not ask after the shortest time")
	}
}

// The same for a late member.
func TestABackoffOfALateMemberBeginsAnewForAnotherRequest(t *testing.T) {
	s := newStory(t)
	s.start(1)
	s.add("late")
	r := Refusal{Reason: "Filtered", Backoff: true}
	for range 4 {
		s.refuse("late", r)
		s.now = s.now.Add(time.Minute)
	}
	s.update("late", annotated("other", "thing"))
	s.refuse("late", r)
	s.now = s.now.Add(time.Second)
	if !s.MayPlace(key, s.now) {
		t.Error("it may not ask after the shortest time")
	}
}

// Changes of pods that run do not let late members retry that are too hard.
func TestChangesOfRunningPodsDoNotRetryLateMembers(t *testing.T) {
	cases := map[string]struct {
		of   string
		hard bool
		asks bool
	}{
		"one that runs": {"0", true, false}, "one that has a seat": {"seated", true, false},
		"the late one": {"late", true, true}, "one that is not too hard": {"late", false, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.start(1)
			s.add("seated")
			s.match("seated")
			s.add("late")
			for i := range 5 {
				s.now = s.now.Add(time.Second << i)
				s.refuse("late", Refusal{Reason: "TooHard", Backoff: true, LongBackoff: tc.hard})
			}
			s.update(tc.of, func(p *corev1.Pod) { p.Labels["other"] = "thing" })
			s.now = s.now.Add(minLongBackoff)
			if got := s.MayPlace(key, s.now); got != tc.asks {
				t.Errorf("it may ask: %t, want %t", got, tc.asks)
			}
		})
	}
}

// However many possible blockers come and go, a group that yields makes
// an attempt once in a while, and more rarely as long as this goes on.
func TestAttemptsOfYieldingGroupAreLimited(t *testing.T) {
	s := newStory(t)
	s.gang(1, 1)
	s.refuse("0", noRoom)
	blocker := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon)}}
	blocker.Spec.NodeName = "n"
	var on NodeBloomFilter
	on.Add("n")
	// What happens before it yields for the first time makes no difference.
	s.ObserveEvent(NodeChanged)
	s.Yield(key, "no nodes", &on, s.now)
	var looks []time.Duration
	began := s.now
	for range 2400 {
		s.now = s.now.Add(100 * time.Millisecond)
		s.BlockerGone(blocker)
		s.ObserveEvent(NodeChanged)
		if len(s.YieldersDue(s.now)) == 0 {
			if why := s.WhyYields(key, s.now); why != "no nodes" {
				t.Fatalf("it yields since %q before it is to look again", why)
			}
			continue
		}
		if why := s.WhyYields(key, s.now); why != "" {
			t.Fatalf("it yields since %q when it is to look again", why)
		}
		looks = append(looks, s.now.Sub(began))
		s.Yield(key, "no nodes", &on, s.now)
	}
	if got := fmt.Sprint(looks); got != "[5s 15s 35s 1m15s 2m15s 3m15s]" {
		t.Errorf("it looked after %v", got)
	}
	// A pod that runs on every node hastens no attempt.
	s.Yield(key, "no nodes", &on, s.now)
	s.Yield(key, "no nodes", &on, s.now)
	s.ObserveEvent(DaemonPodGone)
	// Nothing goes, and it makes an attempt all the same.
	// A change after a while has it make one at once.
	s.now = s.now.Add(maxYieldPause - 1)
	if got := s.YieldersDue(s.now); len(got) > 0 {
		t.Errorf("%v look before their time", got)
	}
	for name, happens := range map[string]func(){
		"nodes have changed": func() { s.ObserveEvent(NodeChanged) }, "a pod has gone": func() { s.BlockerGone(blocker) },
	} {
		s.Yield(key, "no nodes", &on, s.now)
		s.now = s.now.Add(10 * time.Second)
		happens()
		if got := s.YieldersDue(s.now); len(got) != 1 {
			t.Errorf("%s, and it does not look", name)
		}
	}
	s.Yield(key, "no nodes", &on, s.now)
	s.now = s.now.Add(maxYieldPause)
	if got := s.YieldersDue(s.now); len(got) != 1 {
		t.Error("its time has passed, and it does not look")
	}
}

// A group that is refused for something else in between, or
// that lacks a pod, makes attempts as if it had never yielded.
func TestYieldPauseIsResetWhenGroupWaitsAnew(t *testing.T) {
	for name, play := range map[string]func(s *story){
		"refused something else": func(s *story) { s.refuseAgain(Refusal{Reason: "Other"}); s.refuseAgain(noRoom) },
		"without a pod":          func(s *story) { s.DropPod("0"); s.add("0"); s.refuseAgain(noRoom) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.gang(1, 1)
			s.refuse("0", noRoom)
			for range 3 {
				s.Yield(key, "no nodes", &NodeBloomFilter{}, s.now)
				s.ObserveEvent(NodeChanged)
			}
			play(s)
			s.Yield(key, "no nodes", &NodeBloomFilter{}, s.now)
			s.ObserveEvent(NodeChanged)
			s.now = s.now.Add(minYieldPause)
			if got := s.YieldersDue(s.now); len(got) != 1 {
				t.Errorf("it does not look %s after it yielded", minYieldPause)
			}
		})
	}
}

// StarvingAmong returns the given groups that Starving may return, in the same order.
// A group that yields, has started or has waited for less is not among them.
func TestStarvingAmong(t *testing.T) {
	s := newStory(t)
	s.addLonePodAt("a", 5, 2)
	s.addLonePodAt("b", 9, 1)
	s.addLonePodAt("c", 1, 3)
	for _, name := range []string{"a", "b", "c"} {
		s.refuse(name, noRoom)
	}
	keyOf := lonePodKey
	among := func(names ...string) (keys []types.NamespacedName) {
		for _, name := range names {
			keys = append(keys, keyOf(name))
		}
		return keys
	}
	later := s.now.Add(time.Hour)
	if got, want := s.StarvingAmong(among("c", "a", "b", "nobody"), later, time.Minute), s.Starving(later, time.Minute); !slices.Equal(got, want) || len(got) != 3 {
		t.Errorf("heads = %v, want %v", got, want)
	}
	if got := s.StarvingAmong(among("a", "b"), s.now, time.Minute); len(got) != 0 {
		t.Errorf("heads that have not waited: %v", got)
	}
	s.Yield(keyOf("b"), "no nodes", nil, later)
	if got := s.StarvingAmong(among("a", "b"), later, time.Minute); len(got) != 1 || got[0].Key != keyOf("a") {
		t.Errorf("heads = %v, want a alone, for b yields", got)
	}
}

// A user who keeps old PodGroups has new pods pass a group that
// waits only as often as old pods of these PodGroups wait.
func TestAnOldPodGroupIsNoOlderThanItsPods(t *testing.T) {
	const hour = time.Hour
	waits := noon.Add(10 * hour)
	cases := map[string]struct {
		// before runs before the other group waits.
		before func(*story)
		// older is true if the pods that are then made for
		// the PodGroup go before the pods of the other group.
		older bool
	}{
		"it never had pods": {before: func(*story) {}},
		"its pods have run": {before: func(s *story) {
			s.add("0")
			s.run("0")
			s.update("0", objects.InPhase(corev1.PodSucceeded))
			s.DropPod("0")
		}},
		"a pod of it waited, and is gone": {before: func(s *story) {
			s.add("0")
			s.PreEnqueue("0", s.now)
			s.DropPod("0")
		}},
		"an old pod of it is held": {before: func(s *story) {
			s.add("0", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} })
		}},
		"an old pod of it waits": {older: true, before: func(s *story) { s.add("0") }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.gang(1, 0)
			tc.before(s)
			s.addLonePodAt("other", 0, int(waits.Sub(noon).Seconds()))
			for n := range 3 {
				s.now = waits.Add(time.Duration(n+1) * hour)
				next := "0"
				if n > 0 || !tc.older {
					next = fmt.Sprintf("next-%d", n)
					s.add(next, objects.Created(s.now))
				}
				p, _ := s.Plan(types.UID(next), s.now)
				if p.Job == 0 {
					t.Fatalf("pod %s has nothing to ask for: %+v", next, p.Wait)
				}
				other, _ := s.Plan("other", s.now)
				if want := tc.older && n == 0; p.Rank.Less(other.Rank) != want {
					t.Errorf("pod %d goes before the group that waits: %t, want %t: %v, %v", n, !want, want, p.Rank, other.Rank)
				}
				s.run(next)
				s.update(next, objects.InPhase(corev1.PodSucceeded))
				s.DropPod(types.UID(next))
			}
		})
	}
}
