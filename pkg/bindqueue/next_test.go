package bindqueue

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestPodsLeaveInOrder(t *testing.T) {
	cases := map[string]func(s *queueTest){
		"no more are in flight than may be": func(s *queueTest) {
			s.matched("a", 8)
			s.wantLeave(8, "a0 a1 a2 a3")
			s.bound("a1")
			s.wantLeave(8, "a4")
			s.bound("a0", "a2", "a3", "a4")
			s.wantLeave(8, "a5 a6 a7")
		},
		"groups leave by rank, whenever they came": func(s *queueTest) {
			s.matched("b", 2)
			s.matched("c", 2)
			s.matched("a", 2)
			s.wantLeave(4, "a0 a1 b0 b1")
		},
		"one that has begun is finished before others begin": func(s *queueTest) {
			s.matched("b", 6)
			s.wantLeave(4, "b0 b1 b2 b3")
			s.matched("a", 2)
			s.bound("b0", "b1", "b2")
			s.wantLeave(3, "b4 b5 a0")
		},
		"unless it is far from whole": func(s *queueTest) {
			s.matched("b", 60)
			s.wantLeave(4, "b0 b1 b2 b3")
			s.matched("a", 2)
			s.bound("b0", "b1", "b2")
			s.wantLeave(3, "a0 a1 b4")
		},
		"pods that come late to a group that has begun leave first": func(s *queueTest) {
			s.matched("a", 2)
			s.Arrive(Pod{UID: "b9", Group: key("b"), Rank: rankOf("b9"), GroupIncomplete: true}, s.now)
			s.wantLeave(2, "b9 a0")
		},
		"of eight that leave one is of a small group": func(s *queueTest) {
			s.matched("a", 60)
			for _, lone := range []string{"b", "c", "d"} {
				s.matched(lone, 1)
			}
			var order []string
			for range 24 {
				p := s.leave(1)
				s.bound(p)
				order = append(order, p[:1])
			}
			s.want("groups in order", strings.Join(order, ""), "aaaaaaabaaaaaaacaaaaaaad")
		},
		"a small group of higher rank leaves at once": func(s *queueTest) {
			s.matched("b", 60)
			s.matched("a", 3)
			s.wantLeave(4, "a0 a1 a2 b0")
		},
		"a pod that is called back leaves its place to the next": func(s *queueTest) {
			s.matched("a", 6)
			s.Forget(s.now, "a1", "a2")
			s.wantLeave(4, "a0 a3 a4 a5")
			s.bound("a0", "a3", "a4", "a5")
		},
		"a pod that is gone holds its place while its bind is in flight": func(s *queueTest) {
			s.matched("a", 6)
			s.wantLeave(4, "a0 a1 a2 a3")
			s.Forget(s.now, "a0", "a4", "a5")
			s.wantLeave(4, "")
			s.Failed("a0", s.now)
			s.arrive("a4")
			s.wantLeave(4, "a4")
			s.bound("a1", "a2", "a3", "a4")
		},
		"what failed comes again by itself": func(s *queueTest) {
			s.matched("a", 1)
			s.wantLeave(1, "a0")
			s.Failed("a0", s.now)
			s.wantLeave(1, "")
			s.arrive("a0")
			s.wantLeave(1, "a0")
			s.bound("a0")
			s.wantNothing()
		},
		"an answer twice counts once": func(s *queueTest) {
			s.matched("a", 5)
			s.wantLeave(4, "a0 a1 a2 a3")
			s.bound("a0", "a0", "a0")
			s.wantLeave(4, "a4")
		},
	}
	for name, play := range cases {
		t.Run(name, func(t *testing.T) { play(newQueueTest(t, 4)) })
	}
}

func TestThrottlingLowersTheLimit(t *testing.T) {
	const second = time.Second
	cases := map[string]func(s *queueTest){
		"a bind that is refused keeps its place": func(s *queueTest) {
			s.matched("a", 10)
			s.wantLeave(8, "a0 a1 a2 a3 a4 a5 a6 a7")
			s.throttled(second, "a5")
			s.bound("a0", "a1", "a2", "a3", "a4", "a6", "a7")
			s.wantLeave(8, "")
			s.pass(second)
			s.wantLeave(8, "a5 a8 a9")
		},
		"nothing leaves while the server asks for a pause": func(s *queueTest) {
			s.matched("a", 9)
			s.wantLeave(8, "a0 a1 a2 a3 a4 a5 a6 a7")
			s.throttled(3*second, "a0")
			s.throttled(second, "a1")
			s.pass(3*second - 1)
			s.wantLeave(8, "")
			if got := s.NextTime(s.now); !got.Equal(noon.Add(3 * second)) {
				t := s.T
				t.Errorf("paused until %v, want %v", got, noon.Add(3*second))
			}
			s.pass(1)
			s.bound("a2", "a3", "a4", "a5", "a6", "a7")
			s.wantLeave(8, "a0 a1 a8")
		},
		"what was sent together is one refusal": func(s *queueTest) {
			s.matched("a", 20)
			all := uidsOf(s.leave(8))
			s.pass(second / 10)
			s.throttled(second, all...)
			s.pass(second)
			s.wantLeave(20, "a0 a1 a2 a3")
			s.pass(second / 10)
			s.throttled(second/2, "a0")
			s.pass(second / 2)
			// Three are in flight, and two may be.
			s.wantLeave(20, "")
			s.bound("a1", "a2")
			s.wantLeave(20, "a4")
		},
		"one bind may be in flight whatever happens": func(s *queueTest) {
			s.matched("a", 20)
			for range 10 {
				sent := uidsOf(s.leave(8))
				s.pass(second / 10)
				s.throttled(second, sent...)
				s.pass(second)
			}
			if sent := uidsOf(s.leave(20)); len(sent) != 1 {
				s.Errorf("%q leaves, want one pod", sent)
			}
		},
		"a pod that is refused while others are taken holds these up ever less": func(s *queueTest) {
			others, tried := s.throttleOnePod(second, second/10)
			if others < 500 || tried < 5 || tried > 7 {
				s.Errorf("in a minute %d others leave, and the one that is refused %d times", others, tried)
			}
			s.Forget(s.now, "a0")
		},
		"one that is refused for long does not close the gate for others": func(s *queueTest) {
			others, tried := s.throttleOnePod(time.Hour, second)
			if others < 200 || tried < 5 {
				s.Errorf("in ten minutes %d others leave, and the one that is refused %d times", others, tried)
			}
			s.Forget(s.now, "a0")
		},
		"one of many that are refused is tried again soon": func(s *queueTest) {
			// The server takes one of three.
			s.matched("a", 60)
			n, tried := 0, 0
			for range 120 {
				for _, uid := range uidsOf(s.leave(1)) {
					if n++; uid == "a0" {
						tried++
					}
					if uid == "a0" || n%3 > 0 {
						s.throttled(second, uid)
						continue
					}
					s.bound(uid)
				}
				s.pass(second)
			}
			if tried < 15 {
				s.Errorf("in two minutes it was tried %d times, want every few seconds", tried)
			}
			s.Forget(s.now, podsOf("a", 60)...)
		},
		"nothing is to be done before an answer when as many are in flight as may be": func(s *queueTest) {
			s.matched("a", 4)
			sent := uidsOf(s.leave(1))
			s.throttled(second, sent...)
			s.pass(second)
			s.wantLeave(1, sent[0])
			s.throttled(second, sent...) // it lets others go first
			s.pass(second)
			sent = uidsOf(s.leave(8))
			s.pass(time.Minute)
			if again := s.NextTime(s.now); !again.IsZero() {
				s.Errorf("looks again at %v though no bind can be sent at %v", again, s.now)
			}
			for _, uid := range sent {
				s.Failed(types.UID(uid), s.now)
			}
			s.Forget(s.now, podsOf("a", 4)...)
		},
		"a long pause is cut short": func(s *queueTest) {
			s.matched("a", 1)
			s.leave(1)
			s.throttled(time.Hour, "a0")
			s.pass(maxPause)
			s.wantLeave(1, "a0")
		},
		"it grows by one a second while binds are taken": func(s *queueTest) {
			s.matched("a", 60)
			sent := uidsOf(s.leave(8))
			s.pass(second / 10)
			s.throttled(second, sent...)
			for _, want := range []int{4, 5, 6, 7, 8, 8} {
				s.pass(second)
				sent := uidsOf(s.leave(20))
				if len(sent) != want {
					s.Fatalf("%d binds in flight, want %d", len(sent), want)
				}
				s.bound(sent...)
				s.bound(uidsOf(s.leave(1))...)
			}
		},
		"a pod that is gone meanwhile does not come back": func(s *queueTest) {
			s.matched("a", 1)
			s.leave(1)
			s.Forget(s.now, "a0")
			if s.Throttled(Pod{UID: "a0", Group: key("a")}, second, s.now) {
				s.Error("it stands at the gate again")
			}
			s.wantNothing()
		},
	}
	for name, play := range cases {
		t.Run(name, func(t *testing.T) { play(newQueueTest(t, 8)) })
	}
}

func TestSnapshotCountsPodsAndGroups(t *testing.T) {
	s := newQueueTest(t, 2)
	s.matched("a", 3)
	s.matched("b", 20)
	s.admit("c30", "d1")
	s.leave(5)
	if got, want := s.Snapshot(), (Snapshot{InFlight: 2, Limit: 2, Pods: [2]int{1, 20}, Groups: [2]int{0, 1}}); got != want {
		t.Errorf("figures = %+v, want %+v", got, want)
	}
	if s.IsIdle() {
		t.Error("the gate is empty")
	}
	s.pass(3 * time.Second)
	if got := s.LongWaitingPods(s.now, time.Second); len(got) != 2 || got[key("a")] != 3 || got[key("b")] != 20 {
		t.Errorf("pods that wait for their binds for longer than a second: %v, want 3 and 20: those in flight, too", got)
	}
	if got := s.LongWaitingGroups(s.now, time.Second); len(got) != 1 || got[0] != key("c") {
		t.Errorf("groups that wait for their turn for longer than a second: %v", got)
	}
	if got := s.LongWaitingPods(s.now, time.Minute); len(got) != 0 {
		t.Errorf("pods that stand for longer than a minute: %v", got)
	}
	s.throttled(time.Second, "a0", "a1")
	if got := s.LongWaitingPods(s.now, time.Second); got[key("a")] == 0 {
		t.Errorf("groups that stand for longer than a second, with one whose binds came back: %v", got)
	}
	s.pass(time.Second)
	s.leave(2)
	s.Forget(s.now, append(podsOf("a", 3), podsOf("b", 20)...)...)
	s.EndAdmission(key("c"), s.now)
	s.EndAdmission(key("d"), s.now)
	for _, uid := range []types.UID{"a0", "a1"} {
		s.Failed(uid, s.now)
	}
	s.wantNothing()
}

// A server that takes nothing is tried with two pods by turns, because the fault may be one pod's.
func TestPodThrottledAgainBacksOff(t *testing.T) {
	s := newQueueTest(t, 1)
	s.matched("a", 5)
	for n, want := range []string{"a0", "a0", "a1", "a0", "a1", "a0", "a1"} {
		s.wantLeave(5, want)
		s.throttled(time.Second, want)
		if got := s.LongWaitingPods(s.now.Add(time.Second), 0)[key("a")]; got != 5 {
			t.Errorf("after %d trials %d pods stand at the gate, want 5", n+1, got)
		}
		s.pass(time.Second)
	}
	for _, want := range []string{"a0", "a2", "a3", "a4"} {
		s.wantLeave(5, want)
		s.bound(want)
	}
	s.pass(time.Second)
	s.wantLeave(5, "a1")
	s.bound("a1")
	s.wantNothing()
}

// A pod that arrives again has the lane of the pods that it was matched with.
func TestAPodKeepsItsLane(t *testing.T) {
	s := newQueueTest(t, 8)
	s.matched("x", 40)
	for range 5 {
		for _, uid := range uidsOf(s.leave(8)) {
			s.Failed(types.UID(uid), s.now)
		}
	}
	for _, uid := range podsOf("x", 40) {
		s.arrive(string(uid))
	}
	s.want("may ask in the other lane", s.admit("a1"), "a")
}

// throttleOnePod plays 600 steps in which the server throttles pod a0 with the pause after,
// and takes all others. It returns the number of binds of the others and of a0.
func (s *queueTest) throttleOnePod(after, step time.Duration) (others, tried int) {
	s.matched("a", 1)
	s.matched("b", 60)
	for range 600 {
		for _, uid := range uidsOf(s.leave(1)) {
			if uid == "a0" {
				tried++
				s.throttled(after, "a0")
				continue
			}
			others++
			s.bound(uid)
			s.arrive(uid)
		}
		s.pass(step)
	}
	return others, tried
}
